//! How what changes is written, and what was.

use std::path::PathBuf;

use crate::progress::Progress;
use crate::split::{ChunkCompression, DEFAULT_CHUNK_COMPRESSION, WrittenFile};

/// How what changes is written.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    pub(super) compression: ChunkCompression,
    pub(super) max_file_size: Option<u64>,
    pub(super) force: bool,
    pub(super) progress: Progress,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        RewriteOptions::new()
    }
}

impl RewriteOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        RewriteOptions {
            compression: DEFAULT_CHUNK_COMPRESSION,
            max_file_size: None,
            force: false,
            progress: Progress::none(),
        }
    }

    /// How what changes is compressed ([where it pays](DEFAULT_CHUNK_COMPRESSION)).
    #[must_use]
    pub fn compression(mut self, compression: impl Into<ChunkCompression>) -> Self {
        self.compression = compression.into();
        self
    }

    /// The most bytes that a file may have (any number), as
    /// [of a split](crate::split::SplitOptions::max_file_size): what doesn't fit in one goes to
    /// several, all beside the main file. At least
    /// [`LEAST_MAX_FILE_SIZE`](crate::split::LEAST_MAX_FILE_SIZE), and only for what was split in
    /// the extended profile; no chunk is cut, so each has to have room in a file.
    ///
    /// Only [`recompress_to_file`](crate::edit::recompress_to_file) and [`replace_to_file`](crate::edit::replace_to_file) can write several, to a target that is
    /// called `.cpb`.
    #[must_use]
    pub const fn max_file_size(mut self, bytes: Option<u64>) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// Whether files that are in the way are replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Who is told how far the writing is, and who may stop it (nobody). Reading the new file is
    /// counted too.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// A file that was made from another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Chunks of the new file.
    pub chunks: usize,
    /// How many of them were copied as they are stored.
    pub copied: usize,
    /// Bytes of the new file, with those of the others that it names.
    pub size: u64,
    /// The other files that chunks are in, in the order of their numbers.
    pub files: Vec<WrittenFile>,
    /// Files of an earlier split in several that were removed, as was asked for.
    pub removed_files: Vec<PathBuf>,
}
