//! Limits and options of readers.
use crate::error::{Error, ErrorKind, Result};

/// Bytes of one record chunk that a reader holds in memory, unless told otherwise.
pub const DEFAULT_MAX_CHUNK_MEMORY: u64 = 2 << 30;
/// Base-2 logarithm of the largest window of a compressor that streams are decoded with, unless
/// told otherwise.
pub const DEFAULT_MAX_WINDOW_LOG: u32 = 27;
/// Records from this size on are streamed where possible, unless told otherwise.
pub const DEFAULT_STREAM_FROM: u64 = 8 << 20;

/// The limits of a reader.
///
/// # Examples
///
/// ```
/// use record_file::ReaderOptions;
///
/// let options = ReaderOptions::new().max_chunk_memory(64 << 20).max_window_log(24);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    pub(crate) max_chunk_memory: u64,
    pub(crate) max_window_log: u32,
    pub(crate) stream_from: u64,
    pub(crate) threads: u32,
}

impl ReaderOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        ReaderOptions {
            max_chunk_memory: DEFAULT_MAX_CHUNK_MEMORY,
            max_window_log: DEFAULT_MAX_WINDOW_LOG,
            stream_from: DEFAULT_STREAM_FROM,
            threads: 0,
        }
    }

    /// The most bytes of one record chunk, decoded or stored, that are held in memory
    /// ([`DEFAULT_MAX_CHUNK_MEMORY`]). A single record larger than that can still be streamed, or
    /// read into a buffer of the caller's.
    #[must_use]
    pub const fn max_chunk_memory(mut self, bytes: u64) -> Self {
        self.max_chunk_memory = bytes;
        self
    }

    /// Base-2 logarithm of the largest decoder window ([`DEFAULT_MAX_WINDOW_LOG`]). What is decoded
    /// as a whole needs no window.
    #[must_use]
    pub const fn max_window_log(mut self, log: u32) -> Self {
        self.max_window_log = log;
        self
    }

    /// From how many stored bytes on a chunk is decoded as it is read ([`DEFAULT_STREAM_FROM`]).
    /// With [`threads`](Self::threads), a [`RecordReader`](crate::RecordReader) leaves no
    /// chunk to threads that has more, stored or decoded.
    #[must_use]
    pub const fn stream_from(mut self, bytes: u64) -> Self {
        self.stream_from = bytes;
        self
    }

    /// On how many threads chunks are verified and decoded (0: on that of the caller).
    ///
    /// A [`RecordReader`](crate::RecordReader) reads this many chunks ahead, but none of more than
    /// [`stream_from`](Self::stream_from) bytes, and holds them with what they decode to; records
    /// come in the same order, and so do errors. A
    /// [`RecordFile`](crate::RecordFile) uses them in
    /// [`read_records_into`](crate::RecordFile::read_records_into).
    #[must_use]
    pub const fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Fails if this many bytes of the chunk at `begin`, stored or decoded, must not be held in
    /// memory.
    pub(crate) fn check_memory(&self, begin: u64, bytes: u64) -> Result<()> {
        let limit = self.max_chunk_memory;
        if bytes <= limit {
            return Ok(());
        }
        Err(Error::at(
            ErrorKind::LimitExceeded,
            begin,
            format!("{bytes} bytes of a chunk are more than max_chunk_memory ({limit}) allows"),
        ))
    }
}

impl Default for ReaderOptions {
    fn default() -> Self {
        ReaderOptions::new()
    }
}
