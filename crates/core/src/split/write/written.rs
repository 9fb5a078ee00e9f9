//! Reports on written files.

use std::path::PathBuf;

use record_file::{CompressionKind, RecordPosition};

use crate::container::{ChunkKind, MerkleRoot};
use crate::error::ChunkIndex;
use crate::path::FieldPath;

/// A report on a message that was written to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// Path of the file: `PREFIX.cpb` if it is chunked, and otherwise `PREFIX.pb`.
    pub path: PathBuf,
    /// True if the file is chunked: something was cut, or the options request a chunked file even
    /// if nothing has to be cut.
    pub is_split: bool,
    /// True if a merge reproduces the exact bytes of the source, and not just an equal message.
    pub byte_exact: bool,
    /// The chunks in index order; empty if the file isn't chunked.
    pub chunks: Vec<WrittenChunk>,
    /// Size of the message, in bytes.
    pub source_size: u64,
    /// Total size of the file and of the other files that it names, in bytes.
    pub output_size: u64,
    /// The files that contain chunks, except the main file, in the order of their numbers in the
    /// trailer.
    pub files: Vec<WrittenFile>,
    /// The existing file that was removed because `force` is set: `PREFIX.pb` if `PREFIX.cpb` was
    /// written, or vice versa. `None` if there was no such file.
    pub removed: Option<PathBuf>,
    /// Files from an earlier multi-file split that were removed because `force` is set.
    pub removed_files: Vec<PathBuf>,
    /// True if the source stays next to the file, as `PREFIX.pb`. Readers prefer the `.cpb`.
    pub source_stays: bool,
    /// The Merkle root; `None` unless the options request one and the file is chunked.
    pub merkle_root: Option<MerkleRoot>,
}

/// A file, other than the main file, that contains chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file, in bytes.
    pub size: u64,
    /// Number of chunks in the file. Several chunks that are stored as one record count as one.
    pub chunks: usize,
}

impl WrittenFile {
    /// Creates a report on a file with this size and this many chunks.
    #[doc(hidden)]
    pub fn new(path: PathBuf, size: u64, chunks: usize) -> WrittenFile {
        WrittenFile { path, size, chunks }
    }
}

/// A report on a chunk that was written to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenChunk {
    /// Index of the chunk.
    pub index: ChunkIndex,
    /// Kind of the chunk: a message or a bytes value.
    pub kind: ChunkKind,
    /// Path of the chunk in the message.
    pub path: FieldPath,
    /// Uncompressed size, in bytes.
    pub size: u64,
    /// Stored size of the record, in bytes, without headers.
    pub stored_size: u64,
    /// Compression of the record.
    pub compression: CompressionKind,
    /// Number of the file that contains the chunk's record: 0 is the main file, and the others are
    /// numbered as in [`Written::files`].
    pub file: usize,
    /// Position of the chunk's record in its file.
    pub position: RecordPosition,
    /// Index of an earlier chunk with the same bytes, whose record this chunk shares; `None` if
    /// there is none.
    pub same_as: Option<ChunkIndex>,
}
