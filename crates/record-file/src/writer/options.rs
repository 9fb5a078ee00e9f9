//! Options for a writer.
mod text;

use crate::chunk::MAX_RECORDS;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::metadata::RecordsMetadata;
use crate::options::DEFAULT_STREAM_FROM;

/// Default compression of a writer.
pub const DEFAULT_COMPRESSION: Compression = Compression::BROTLI;
/// Default total size of a compressed chunk's records, in bytes.
pub const DEFAULT_CHUNK_SIZE: u64 = 1 << 20;
/// Default total size of an uncompressed chunk's records, in bytes.
pub const DEFAULT_UNCOMPRESSED_CHUNK_SIZE: u64 = 4 << 10;
/// Default size of the separately compressed parts of a transposed chunk, as a fraction of the
/// chunk size.
pub const DEFAULT_BUCKET_FRACTION: f64 = 1.0;
/// Default maximum size of a record that is copied so that a thread can compress or hash it, in
/// bytes.
pub const DEFAULT_MAX_COPIED: u64 = 64 << 20;
/// Value of the option `padding` if an option string contains the option without a value: the size
/// of a block, in bytes.
pub const DEFAULT_PADDING: u64 = 64 << 10;
/// Maximum value of the padding options, in bytes: 1 GiB. The zeros of the padding are written to
/// the file.
pub const LARGEST_PADDING: u64 = 1 << 30;

/// Options for a writer. They can also be given as a string, in the form that all writers of this
/// format accept.
///
/// ```text
/// options = option? ("," option?)*        in any order, each at most once
/// option  = "default"                     only before all others
///         | "transpose" (":" ("true" | "false"))?
///         | "uncompressed" | "brotli" (":" 0..11)? | "zstd" (":" -131072..22)? | "snappy" (":" 1..2)?
///         | "window_log" ":" ("auto" | 10..31)             of zstd, 10..30 of brotli
///         | "brotli_encoder" ":" ("rbrotli_or_cbrotli" | "cbrotli" | "rbrotli")     without an effect here
///         | "chunk_size" ":" ("auto" | size)
///         | "bucket_fraction" ":" 0..1
///         | ("padding" | "initial_padding" | "final_padding") (":" size)?           alone: 64K
///         | "parallelism" ":" threads
/// size    = a number of bytes, 1 or more; a fraction is rounded, a suffix B, k, K, M, G, T, P or E
///           multiplies by powers of 1024
/// ```
///
/// `initial_padding` and `final_padding` override `padding`, in any order.
///
/// # Examples
///
/// ```
/// use record_file::{Compression, WriterOptions};
///
/// let options = WriterOptions::new().compression(Compression::zstd(5)).chunk_size(4 << 20);
/// assert_eq!(options, "zstd:5,chunk_size:4M".parse()?);
/// assert_eq!(options.threads(2).to_string(), "zstd:5,chunk_size:4M,parallelism:2");
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WriterOptions {
    pub(crate) compression: Compression,
    pub(crate) chunk_size: Option<u64>,
    pub(crate) transpose: bool,
    pub(crate) bucket_fraction: f64,
    pub(crate) initial_padding: u64,
    pub(crate) final_padding: u64,
    pub(crate) threads: u32,
    pub(crate) metadata: Option<Vec<u8>>,
    pub(crate) max_copied: u64,
    pub(crate) stream_from: u64,
}

impl WriterOptions {
    /// Returns the default options, which equal those of other writers of this format.
    #[must_use]
    pub const fn new() -> Self {
        WriterOptions {
            compression: DEFAULT_COMPRESSION,
            chunk_size: None,
            transpose: false,
            bucket_fraction: DEFAULT_BUCKET_FRACTION,
            initial_padding: 1,
            final_padding: 1,
            threads: 0,
            metadata: None,
            max_copied: DEFAULT_MAX_COPIED,
            stream_from: DEFAULT_STREAM_FROM,
        }
    }

    crate::options! {
        /// Sets the compression of chunks. Default: [`DEFAULT_COMPRESSION`].
        const compression, get_compression: Compression;

        /// Sets whether records that are protobuf messages are stored field by field, which
        /// compresses better. Default: false.
        const transpose, get_transpose: bool;

        /// Sets the approximate size of the separately compressed parts of a transposed chunk, as a
        /// fraction of the chunk size, from 0 to 1. Default: [`DEFAULT_BUCKET_FRACTION`].
        ///
        /// A smaller fraction compresses worse, but a reader that needs only some fields has less
        /// to decompress.
        const bucket_fraction, get_bucket_fraction: f64;

        /// Sets the padding before appending: an existing file is padded to a multiple of this
        /// number of bytes. Maximum: [`LARGEST_PADDING`]. Default: 1, which means no padding.
        const initial_padding, get_initial_padding: u64;

        /// Sets the padding at the end: when the file is flushed or finished, it is padded to a
        /// multiple of this number of bytes. Maximum: [`LARGEST_PADDING`]. Default: 1, which means
        /// no padding.
        ///
        /// Files padded to a multiple of 64 KiB can be concatenated.
        const final_padding, get_final_padding: u64;

        /// Sets the number of threads that encode and compress chunks. Default: 0, the caller's
        /// thread.
        ///
        /// The resulting file doesn't depend on this number. At most one chunk per thread is held
        /// at a time, with its compressed form. For a chunk of 64 KiB or more that is neither
        /// compressed nor transposed, a thread only computes the hash; if such a chunk consists of
        /// one record of at least 1 MiB, a thread copies the record while the previous record is
        /// written, so only two such records are held.
        const threads, get_threads: u32;

        /// Sets the maximum size, in bytes, of a record that is copied so that another thread can
        /// compress or hash it. Default: [`DEFAULT_MAX_COPIED`]. The caller's thread compresses
        /// larger records without copying them.
        ///
        /// This limit has an effect only with [`threads`](Self::threads), and the text form of the
        /// options doesn't contain it.
        const max_copied, get_max_copied: u64;

        /// Sets the minimum size, in bytes, of a compressed record in its own chunk that a
        /// [`seekable`](crate::RecordWriter::seekable) writer streams. A streamed record's
        /// compressed form isn't held in memory. Default: [`DEFAULT_STREAM_FROM`].
        ///
        /// Records that a thread compresses (see [`max_copied`](Self::max_copied)) and records in
        /// transposed chunks aren't streamed. The bytes of the file don't depend on this size, and
        /// the text form of the options doesn't contain it.
        const stream_from, get_stream_from: u64;
    }

    /// Returns true if all options for chunks, except the compression, have their default values.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::WriterOptions;
    /// assert!("zstd:5,parallelism:2".parse::<WriterOptions>()?.has_plain_chunks());
    /// assert!(!"zstd:5,transpose".parse::<WriterOptions>()?.has_plain_chunks());
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub const fn has_plain_chunks(&self) -> bool {
        !self.transpose && self.chunk_size.is_none()
    }

    /// Sets the total size of the records that share a chunk, in bytes. Default:
    /// [`DEFAULT_CHUNK_SIZE`] or, without compression, [`DEFAULT_UNCOMPRESSED_CHUNK_SIZE`]. A
    /// larger record gets its own chunk.
    #[must_use]
    pub const fn chunk_size(mut self, bytes: u64) -> Self {
        self.chunk_size = Some(bytes);
        self
    }

    /// Sets both [`initial_padding`](Self::initial_padding) and
    /// [`final_padding`](Self::final_padding).
    #[must_use]
    pub const fn padding(self, bytes: u64) -> Self {
        self.initial_padding(bytes).final_padding(bytes)
    }

    /// Sets the metadata of the file. The metadata is written only if the file is new.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter, RecordsMetadata, WriterOptions};
    ///
    /// let metadata = RecordsMetadata {
    ///     record_type_name: Some("acme.Measurement".into()),
    ///     ..RecordsMetadata::default()
    /// };
    /// let options = WriterOptions::new().metadata(&metadata);
    /// let written = RecordWriter::new(Vec::new(), options)?.finish()?;
    ///
    /// let file = RecordFile::open(written, ReaderOptions::new())?;
    /// let read = RecordsMetadata::parse(&file.metadata()?.unwrap_or_default())?;
    /// assert_eq!(read, metadata);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn metadata(self, metadata: &RecordsMetadata) -> Self {
        self.serialized_metadata(metadata.serialize())
    }

    /// Sets the [`metadata`](Self::metadata) from its serialized form.
    #[must_use]
    pub fn serialized_metadata(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.metadata = Some(bytes.into());
        self
    }

    /// Returns the number of bytes of a transposed chunk that are compressed together.
    pub(crate) fn bucket_size(&self) -> u64 {
        // The value is between 0 and 2^59, so a double is exact enough for the rounding.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let size = (self.effective_chunk_size() as f64 * self.bucket_fraction).round() as u64;
        size.max(1)
    }

    /// Returns the total size of the records that share a chunk, in bytes; `None` for the default.
    pub const fn get_chunk_size(&self) -> Option<u64> {
        self.chunk_size
    }

    /// Returns the serialized metadata of the file, or `None` if there is no metadata.
    pub fn get_metadata(&self) -> Option<&[u8]> {
        self.metadata.as_deref()
    }

    pub(crate) fn effective_chunk_size(&self) -> u64 {
        let default = match self.compression {
            Compression::None => DEFAULT_UNCOMPRESSED_CHUNK_SIZE,
            _ => DEFAULT_CHUNK_SIZE,
        };
        // A record counts for at least 8 bytes, so this limits the number of records in a chunk.
        self.chunk_size.unwrap_or(default).min(MAX_RECORDS * 8)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        self.compression.validate()?;
        for (what, bytes) in [
            ("chunk_size", self.chunk_size),
            ("initial_padding", Some(self.initial_padding)),
            ("final_padding", Some(self.final_padding)),
        ] {
            if bytes == Some(0) {
                return Err(Error::config(format!("{what} 0 is not 1 or more")));
            }
            if what != "chunk_size"
                && let Some(bytes) = bytes.filter(|&bytes| bytes > LARGEST_PADDING)
            {
                return Err(Error::config(format!(
                    "{what} {bytes} is more than {LARGEST_PADDING}"
                )));
            }
        }
        if !(0.0..=1.0).contains(&self.bucket_fraction) {
            return Err(Error::config(format!(
                "bucket_fraction {} is not from 0 to 1",
                self.bucket_fraction
            )));
        }
        Ok(())
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions::new()
    }
}
