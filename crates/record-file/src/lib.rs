//! Riegeli/records files: checksummed, compressed, seekable sequences of byte records.
//!
//! ```
//! use std::io::Cursor;
//!
//! use record_file::{ReaderOptions, RecordFile, RecordReader, RecordWriter};
//!
//! let mut writer = RecordWriter::with_defaults(Cursor::new(Vec::new()));
//! for word in ["one", "two", "three"] {
//!     writer.write_record(word.as_bytes())?;
//! }
//! let file = writer.finish()?.into_inner();
//!
//! // In sequence:
//! let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
//! assert_eq!(reader.read_record()?, Some(&b"one"[..]));
//!
//! // And anywhere:
//! let records = RecordFile::open(file, ReaderOptions::new())?;
//! let last = records.last_record()?.ok_or("there are three")?;
//! assert_eq!(records.read_record(last)?, b"three"[..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! [`RecordWriter`] gathers records in chunks, which it compresses and hashes, or
//! [streams](RecordWriter::write_record_from) a record of any size into its own chunk.
//! [`RecordReader`] reads in sequence, seeks, searches, and recovers from damage if a callback
//! allows it. [`RecordFile`] gives random access to records, by shared reference, from any number
//! of threads.
//!
//! [`WriterOptions`] can be given as a string, `"transpose,zstd:5,chunk_size:4M,parallelism:2"`.
//! With `threads`, a writer encodes chunks, and a reader verifies and decodes them, [on other
//! threads](ReaderOptions::threads): bytes, records and errors stay the same. Written records can
//! be [pushed](RecordWriter::push) to the underlying writer, [flushed](RecordWriter::flush) out of
//! the process, or [synced](RecordWriter::sync) to the disk, and a file can be [appended
//! to](RecordWriter::append) later.
//!
//! # Memory
//!
//! For each of its threads, a writer or reader holds one chunk, the compressed form of the chunk,
//! the compressor's memory, and a fixed amount of up to 1 MiB. A writer also holds the chunk that
//! it is gathering. A reader of a file in memory, without threads, holds a second chunk if the
//! second chunk has at most 2 MiB: verifying two chunks together takes hardly longer than verifying
//! one. The second chunk is held as stored or, if it is transposed, in the buffer in which it will
//! be decoded. Transposed chunks are encoded and decoded almost in place:
//!
//! - A transposing writer holds little more than the chunk: records are freed as they are split
//!   into columns, and columns are freed as they are compressed. In addition, the writer holds up
//!   to 256 KiB for each distinct field path, and two copies of a record of more than 64 KiB.
//! - A reader assembles records in the buffer that holds the stored chunk. In addition to the
//!   records, this buffer has room for the stored chunk or for an eighth of the records' size,
//!   whichever is larger. For a chunk whose claimed size is more than 16 MiB and more than 16 times
//!   its stored size, the buffer starts small and doubles as it fills up.
//!
//! A [`RecordReader`] decodes chunks of more than [`DEFAULT_STREAM_FROM`] stored bytes, except
//! transposed chunks, as it reads them; with threads, it reads such chunks one by one. A record with
//! its own chunk isn't held if it is streamed [from a `RecordFile`](RecordFile::record_stream) or
//! [from a `RecordReader`](RecordReader::read_record_stream), or if it is [read into a
//! buffer](RecordFile::read_record_into). An uncompressed record is read without an intermediate
//! copy.
//!
//! Large records are written without a copy, except that with `threads`, records of [up to 64
//! MiB](WriterOptions::max_copied) are copied to be encoded by a thread. The compressed form of a
//! record is held, since the chunk header before it contains its length and hash. If the underlying
//! writer is [seekable](RecordWriter::seekable), the header can be filled in later; in this case,
//! records of [8 MiB and more](WriterOptions::stream_from) that no thread encodes are streamed. To
//! avoid holding even the record itself, write it [from a source](RecordWriter::write_record_from)
//! or, if the underlying writer can't seek, [from a source that is read
//! twice](RecordWriter::write_record_from_seekable).
//!
//! # File format
//!
//! A file is a sequence of chunks. The header of a chunk describes the chunk's content. Every
//! 65,536 bytes, a block header gives the boundaries of the chunk that contains it.
//! [`format`](mod@format) describes every byte.
//!
//! # Limitations
//!
//! This crate doesn't repair damaged files; it can only skip the damage.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The README, whose code examples run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod block;
mod block_pool;
mod chunk;
mod chunk_layout;
mod codec;
mod compression;
mod decode_chunk;
mod decoded;
mod error;
mod fault;
mod file;
pub mod format;
mod hash;
mod headers;
mod input;
mod metadata;
mod options;
mod payload;
mod plain_record;
mod position;
mod read_at;
mod reader;
mod seek;
mod setters;
mod simple;
mod stored;
mod threads;
mod transpose;
mod varint;
mod writer;

pub use chunk::{Chunk, ChunkHeader, ChunkType};
pub use chunk_layout::{ChunkLayout, ChunkPart, PartKind};
pub use compression::{Compression, CompressionKind, DEFAULT_BROTLI_LEVEL, DEFAULT_ZSTD_LEVEL};
pub use decoded::DecodedChunk;
pub use error::{Error, ErrorKind, Result};
pub use file::stream::RecordStream;
#[doc(hidden)]
pub use file::stream::{PairStep, RecordPair, WantedRecord, Watch};
pub use file::{Chunks, RecordFile, StoredRecord};
pub use headers::is_record_file;
pub use input::{RecordInput, Sequential};
pub use metadata::RecordsMetadata;
pub use options::{
    DEFAULT_MAX_CHUNK_MEMORY, DEFAULT_MAX_WINDOW_LOG, DEFAULT_STREAM_FROM, ReaderOptions,
};
#[doc(hidden)]
pub use plain_record::plain_record_position;
pub use position::{ChunkOffset, RecordPosition};
pub use read_at::ReadAt;
pub use reader::{RecordReader, Records, SearchGuide, SearchResult, SkippedRegion, StreamedRecord};
pub use seek::{PositionReader, SeekSource};
pub use transpose::FieldProjection;
pub use writer::{
    DEFAULT_BUCKET_FRACTION, DEFAULT_CHUNK_SIZE, DEFAULT_COMPRESSION, DEFAULT_MAX_COPIED,
    DEFAULT_PADDING, DEFAULT_UNCOMPRESSED_CHUNK_SIZE, LARGEST_PADDING, LaterPosition,
    RecordInPieces, RecordWriter, SyncData, WriterOptions,
};
#[doc(hidden)]
pub use writer::{EncodedRecord, plain_record_end};
