//! Limits and options for readers.
use crate::error::{Error, ErrorKind, Result};

/// Default limit on the memory that a reader uses for one chunk of records, in bytes.
pub const DEFAULT_MAX_CHUNK_MEMORY: u64 = 2 << 30;
/// Default limit on the decompression window of data that is decoded as a stream, as the base-2
/// logarithm of a size in bytes.
pub const DEFAULT_MAX_WINDOW_LOG: u32 = 27;
/// Default minimum size of chunks and records that are streamed if possible, in bytes.
pub const DEFAULT_STREAM_FROM: u64 = 8 << 20;

/// The options of a reader: limits and the number of threads.
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
    /// Returns the default options.
    #[must_use]
    pub const fn new() -> Self {
        ReaderOptions {
            max_chunk_memory: DEFAULT_MAX_CHUNK_MEMORY,
            max_window_log: DEFAULT_MAX_WINDOW_LOG,
            stream_from: DEFAULT_STREAM_FROM,
            threads: 0,
        }
    }

    crate::options! {
        /// Limits the memory for one chunk of records, in bytes. Neither the stored nor the decoded
        /// chunk may be larger, nor the list of a simple chunk's records, at 8 bytes per record.
        /// The lists of a transposed chunk's buffers and states, at 128 bytes each, may have 16 MiB
        /// more. Default: [`DEFAULT_MAX_CHUNK_MEMORY`]. A larger record in its own chunk can still
        /// be streamed, or read into the caller's buffer.
        const max_chunk_memory, get_max_chunk_memory: u64;

        /// Limits the decompression window to 2^`max_window_log` bytes. Default:
        /// [`DEFAULT_MAX_WINDOW_LOG`]. The limit doesn't apply to data that is decoded as a whole,
        /// which needs no window.
        const max_window_log, get_max_window_log: u32;

        /// Sets the stored size, in bytes, above which a [`RecordReader`](crate::RecordReader)
        /// decodes a chunk while it reads it. Default: [`DEFAULT_STREAM_FROM`]. With
        /// [`threads`](Self::threads), the reader itself decodes chunks whose stored or decoded
        /// size is larger than this, instead of leaving them to threads.
        const stream_from, get_stream_from: u64;

        /// Sets the number of threads that verify and decode chunks. Default: 0, the caller's
        /// thread.
        ///
        /// A [`RecordReader`](crate::RecordReader) reads ahead one chunk per thread, and holds
        /// these chunks with their decoded data. It doesn't read ahead chunks of more than
        /// [`stream_from`](Self::stream_from) bytes. The order of records and errors stays the
        /// same. A [`RecordFile`](crate::RecordFile) uses the threads in
        /// [`read_records_into`](crate::RecordFile::read_records_into).
        const threads, get_threads: u32;
    }

    /// Fails if `bytes`, the stored or decoded size of the chunk at `begin`, exceeds the memory
    /// limit.
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
