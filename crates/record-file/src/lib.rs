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
//! threads](ReaderOptions::threads): bytes, records and errors stay the same. Records that
//! were written can be [pushed](RecordWriter::push) to the underlying writer,
//! [flushed](RecordWriter::flush) out of the process, or [synced](RecordWriter::sync) to the disk,
//! and a file can be [appended to](RecordWriter::append) later.
//!
//! # Memory
//!
//! A writer or reader holds, for each of its threads, one chunk and its compressed form, and a
//! fixed amount of up to 1 MiB in addition to the compressor's memory. A writer also holds the
//! chunk that it is gathering. A reader of a file in memory, without threads, holds a second chunk
//! if that chunk has at most 2 MiB: verifying two chunks takes hardly more time than verifying one.
//! The second chunk is held in its stored form or, if it is transposed, in the memory in which it
//! will be decoded. Transposed data changes its form in place:
//!
//! - A transposing writer holds little more than the chunk: records are freed as they are taken
//!   apart into columns, and columns as they are compressed. In addition, it holds up to 256 KiB
//!   for each distinct field (by its path from the record), and holds a record of more than 64 KiB
//!   twice.
//! - A reader assembles records in the memory that holds the stored chunk. In addition to the
//!   records, that memory has room for the stored chunk, or for an eighth of the records' size if
//!   an eighth is larger. For a chunk that claims more than 16 MiB, and more than 16 times its
//!   stored size, memory starts small and doubles as it fills up.
//!
//! Chunks of more than [`DEFAULT_STREAM_FROM`] stored bytes, except transposed chunks, are decoded
//! as they are read; a reader with threads reads such chunks one by one. A record with its own
//! chunk isn't held if it is [streamed](RecordFile::record_stream), [also by a
//! reader](RecordReader::read_record_stream), or [read into a
//! buffer](RecordFile::read_record_into). An uncompressed record is read without an intermediate
//! copy.
//!
//! Large records are written without a copy, except that with `threads`, records of [up to 64
//! MiB](WriterOptions::max_copied) are copied for a thread. The compressed form of a record is
//! held, since the header before it has its length and hash. If the underlying writer is
//! [seekable](RecordWriter::seekable), the header can be filled in later; in this case, records of
//! [8 MiB and more](WriterOptions::stream_from) that aren't copied for a thread are streamed. To
//! avoid holding even the record itself, write it [from a source](RecordWriter::write_record_from)
//! or, if the underlying writer can't seek, [from a source that is read
//! twice](RecordWriter::write_record_from_seekable).
//!
//! # File format
//!
//! A file is a sequence of chunks, whose headers describe their content, and of block headers, one
//! every 65,536 bytes, which locate the chunk around them. [`format`](mod@format) describes every
//! byte.
//!
//! # Limitations
//!
//! This crate doesn't repair damaged files; it can only skip the damage.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// Runs the code in the README.
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
pub use writer::{EncodedRecord, PlainRecord, plain_record_end};
