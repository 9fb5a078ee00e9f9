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
//! [`RecordWriter`] writes; records are gathered in chunks, which are compressed and hashed, or a
//! record of any size is [streamed](RecordWriter::write_record_from) into a chunk of its own.
//! [`RecordReader`] reads in sequence, seeks, searches, and recovers from damage if a callback lets
//! it. [`RecordFile`] reads at random, by reference, from any number of threads.
//!
//! [`WriterOptions`] can be given as a string, `"transpose,zstd:5,chunk_size:4M,parallelism:2"`.
//! With `threads`, a writer has chunks encoded, and a reader has them verified and decoded, [on
//! other threads](ReaderOptions::threads): bytes, records and errors stay the same. What was
//! written so far can be [pushed](RecordWriter::push) to the underlying writer,
//! [flushed](RecordWriter::flush) out of the process, or [synced](RecordWriter::sync) to the disk,
//! and a file can be [appended to](RecordWriter::append) later.
//!
//! # Memory
//!
//! A writer or reader holds, for each of its threads, one chunk and its compressed form; and a
//! fixed amount, up to 1 MiB a thread besides that of the compressor. A writer has one chunk more,
//! which is being gathered. A reader of a file in memory, without threads, has one more, if it has
//! no more than 2 MiB: two chunks are verified in hardly more time than one. It has that chunk as
//! it is stored, or if it is transposed in the memory that it is decoded in. What is transposed
//! changes its form in one memory:
//!
//! - A transposing writer holds little more than the chunk: records are given up as they come apart
//!   into columns, and columns as they are compressed. Besides, it has up to 256 KiB for each
//!   different field (by its path from the record on), and a record of more than 64 KiB twice.
//! - A reader puts records together where the chunk was stored. Beside the records it has at least
//!   an eighth of their size, if that is more than what was stored. A chunk that claims more than
//!   16 MiB, and more than 16 times what is stored of it, gets memory as it is filled, by doubling.
//!
//! Chunks that are stored in more than [`DEFAULT_STREAM_FROM`] bytes are decoded as they are read,
//! but for those that are transposed; a reader with threads gets to them one by one. A record that
//! has a chunk of its own isn't held if it is [streamed](RecordFile::record_stream), [by a reader
//! too](RecordReader::read_record_stream), or [read into a buffer](RecordFile::read_record_into).
//! Of an uncompressed one there is no copy in between.
//!
//! Large records are written from where they are (with `threads`, those of [up to 64
//! MiB](WriterOptions::max_copied) are copied for a thread). What they are compressed to is held,
//! since the header before it tells its length and hash, unless a writer is told that the
//! underlying one is [seekable](RecordWriter::seekable) and the header can be filled in later: then
//! those of [8 MiB and more](WriterOptions::stream_from) stream that aren't copied for a thread. To
//! hold not even the record, it is written [from a source](RecordWriter::write_record_from) or,
//! where the underlying writer can't seek, [from one that is read
//! twice](RecordWriter::write_record_from_seekable).
//!
//! # File format
//!
//! A file is a sequence of chunks, whose headers say what is in them, and of headers at every
//! 65,536 bytes, which say where the chunk around them begins and ends. [`format`](mod@format) has
//! every byte.
//!
//! # What it does not do
//!
//! A damaged file is not repaired.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod block;
mod block_pool;
mod chunk;
mod codec;
mod compression;
mod decode_chunk;
mod decoded;
mod describe;
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
pub use compression::{Compression, CompressionKind, DEFAULT_BROTLI_LEVEL, DEFAULT_ZSTD_LEVEL};
pub use decoded::DecodedChunk;
pub use describe::{ChunkLayout, ChunkPart, PartKind};
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
