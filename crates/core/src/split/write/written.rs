//! What was written to a file.

use std::path::PathBuf;

use record_file::{CompressionKind, RecordPosition};

use crate::container::ChunkKind;
use crate::newtypes::ChunkIndex;
use crate::path::FieldPath;

/// A message that was written to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The file: `PREFIX.cpb`, or `PREFIX.pb` if nothing was cut.
    pub path: PathBuf,
    /// Whether it is a file of chunks: something was cut, or that was asked for in any case.
    pub is_split: bool,
    /// Whether a merge gives the very bytes of the source, and not just an equal message.
    pub byte_exact: bool,
    /// The chunks in the order of their indices; none if nothing was cut.
    pub chunks: Vec<WrittenChunk>,
    /// Bytes of the message.
    pub source_size: u64,
    /// Bytes of the file, with those of the others that it names.
    pub output_size: u64,
    /// The other files that chunks are in, in the order of their numbers.
    pub files: Vec<WrittenFile>,
    /// A file of the other form that was in the way and was removed, as was asked for.
    pub removed: Option<PathBuf>,
    /// Files of an earlier split in several that were removed, as was asked for.
    pub removed_files: Vec<PathBuf>,
    /// Whether the source stays beside the file as `PREFIX.pb`. Readers prefer the `.cpb`.
    pub source_stays: bool,
}

/// A file beside the main one that has chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it.
    pub size: u64,
    /// How many chunks it has; those that share a record count once.
    pub chunks: usize,
}

impl WrittenFile {
    /// A file of this many bytes with this many chunks.
    #[doc(hidden)]
    pub fn new(path: PathBuf, size: u64, chunks: usize) -> WrittenFile {
        WrittenFile { path, size, chunks }
    }
}

/// A chunk in a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenChunk {
    /// The chunk's index.
    pub index: ChunkIndex,
    /// Whether it holds a message or a bytes value.
    pub kind: ChunkKind,
    /// Where it belongs.
    pub path: FieldPath,
    /// Bytes, uncompressed.
    pub size: u64,
    /// Bytes in the file, without headers.
    pub stored_size: u64,
    /// How it is compressed.
    pub compression: CompressionKind,
    /// Which file its record is in: 0 is the main one, the others are counted as in
    /// [`Written::files`].
    pub file: usize,
    /// The position of its record in that file.
    pub position: RecordPosition,
    /// An earlier chunk with the same bytes, whose record it shares.
    pub same_as: Option<ChunkIndex>,
}
