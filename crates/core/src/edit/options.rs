//! Options for rewriting files, and the reports on rewritten files.

use std::path::PathBuf;

use crate::progress::Progress;
use crate::split::{ChunkCompression, DEFAULT_CHUNK_COMPRESSION, WrittenFile};

/// Options for rewriting a `.cpb` file.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    pub(super) compression: ChunkCompression,
    pub(super) max_file_size: Option<u64>,
    pub(super) force: bool,
    pub(super) progress: Progress,
    pub(super) read_from: Vec<PathBuf>,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        RewriteOptions::new()
    }
}

impl RewriteOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        RewriteOptions {
            compression: DEFAULT_CHUNK_COMPRESSION,
            max_file_size: None,
            force: false,
            progress: Progress::none(),
            read_from: Vec::new(),
        }
    }

    crate::options! {
        /// Sets the compression of changed chunks. Default: [`DEFAULT_CHUNK_COMPRESSION`], which
        /// compresses if that saves space.
        into compression, get_compression: ChunkCompression;

        /// Sets the maximum size of each written file, in bytes, as [when
        /// splitting](crate::split::SplitOptions::max_file_size). Default: `None`, unlimited. If
        /// one file isn't enough, the other files are written next to the main file. The minimum is
        /// [`LEAST_MAX_FILE_SIZE`](crate::split::LEAST_MAX_FILE_SIZE), and the rewritten file must
        /// have the extended profile. Chunks aren't cut, so each chunk must fit in one file.
        ///
        /// Only [`recompress_to_file`](crate::edit::recompress_to_file) and
        /// [`replace_to_file`](crate::edit::replace_to_file) can write several files, and the
        /// target's name must end in `.cpb`.
        const max_file_size, get_max_file_size: Option<u64>;

        /// Sets whether existing files are overwritten. Default: false.
        const force, get_force: bool;

        /// Sets progress reporting and cancellation. Default: none. Progress includes the final
        /// reading of the new file.
        ref progress, get_progress: Progress;
    }

    /// Adds files from which new values are read. They are never overwritten, and the new file gets
    /// no permissions that these files or the rewritten file lack.
    #[must_use]
    pub fn read_from<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.read_from.extend(files.into_iter().map(Into::into));
        self
    }

    /// Returns the files from which new values are read.
    pub fn get_read_from(&self) -> &[PathBuf] {
        &self.read_from
    }
}

/// A report on a rewritten file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Number of chunks in the new file.
    pub chunks: usize,
    /// Number of chunks copied without being encoded again.
    pub copied: usize,
    /// Total size of the new file and of the other files that it names, in bytes.
    pub size: u64,
    /// The files that contain chunks, except the main file, in the order in which the trailer
    /// numbers them.
    pub files: Vec<WrittenFile>,
    /// Files of an earlier split that were removed because `force` is set.
    pub removed_files: Vec<PathBuf>,
}
