//! What a writer does.
use crate::chunk::MAX_RECORDS;
use crate::compression::Compression;
use crate::error::{Error, Result};

/// The compression of a writer, unless told otherwise.
pub const DEFAULT_COMPRESSION: Compression = Compression::BROTLI;
/// Bytes of records that a chunk holds if it is compressed, unless told otherwise.
pub const DEFAULT_CHUNK_SIZE: u64 = 1 << 20;
/// Bytes of records that a chunk holds if it is not compressed, unless told otherwise.
pub const DEFAULT_UNCOMPRESSED_CHUNK_SIZE: u64 = 4 << 10;

/// The options of a writer.
///
/// # Examples
///
/// ```
/// use record_file::{Compression, WriterOptions};
///
/// let options = WriterOptions::new().compression(Compression::zstd(5)).chunk_size(4 << 20);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WriterOptions {
    pub(crate) compression: Compression,
    pub(crate) chunk_size: Option<u64>,
    pub(crate) final_padding: u64,
}

impl WriterOptions {
    /// The defaults, which are those of every writer of this format.
    #[must_use]
    pub const fn new() -> Self {
        WriterOptions {
            compression: DEFAULT_COMPRESSION,
            chunk_size: None,
            final_padding: 1,
        }
    }

    /// How chunks are compressed ([`DEFAULT_COMPRESSION`]).
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How many bytes of records share a chunk ([`DEFAULT_CHUNK_SIZE`] or, uncompressed,
    /// [`DEFAULT_UNCOMPRESSED_CHUNK_SIZE`]). A record that is larger gets a chunk of its own.
    #[must_use]
    pub const fn chunk_size(mut self, bytes: u64) -> Self {
        self.chunk_size = Some(bytes);
        self
    }

    /// Pads the file, when it is flushed and when it is finished, to a multiple of so many bytes (1: not at all).
    ///
    /// Files padded to 64 KiB can be concatenated.
    #[must_use]
    pub const fn final_padding(mut self, bytes: u64) -> Self {
        self.final_padding = bytes;
        self
    }

    pub(crate) fn effective_chunk_size(&self) -> u64 {
        let default = match self.compression {
            Compression::None => DEFAULT_UNCOMPRESSED_CHUNK_SIZE,
            _ => DEFAULT_CHUNK_SIZE,
        };
        // A record counts for 8 bytes at least, so this keeps a chunk from having too many.
        self.chunk_size.unwrap_or(default).min(MAX_RECORDS * 8)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        self.compression.validate()?;
        if self.chunk_size == Some(0) {
            return Err(Error::config("chunk_size 0"));
        }
        if self.final_padding == 0 {
            return Err(Error::config("final_padding 0"));
        }
        Ok(())
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions::new()
    }
}
