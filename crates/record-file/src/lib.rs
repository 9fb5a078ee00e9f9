//! Riegeli/records files: checksummed, compressed, seekable sequences of byte records.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod block;
mod chunk;
mod codec;
mod compression;
mod decoded;
mod error;
mod file;
mod hash;
mod input;
mod options;
mod payload;
mod position;
mod read_at;
mod reader;
mod simple;
mod stream;
mod transpose;
mod varint;
mod writer;

pub use chunk::{Chunk, ChunkHeader, ChunkKind};
pub use compression::{Compression, CompressionKind, DEFAULT_BROTLI_LEVEL, DEFAULT_ZSTD_LEVEL};
pub use decoded::DecodedChunk;
pub use error::{Error, ErrorKind, Result};
pub use file::{Chunks, RecordFile, StoredRecord};
pub use input::{Input, Sequential};
pub use options::{
    DEFAULT_MAX_CHUNK_MEMORY, DEFAULT_MAX_WINDOW_LOG, DEFAULT_STREAM_FROM, ReaderOptions,
};
pub use position::{ChunkOffset, RecordPosition};
pub use read_at::ReadAt;
pub use reader::{Found, Guide, RecordReader, SkippedRegion};
pub use stream::RecordStream;
pub use transpose::FieldProjection;
pub use writer::{
    DEFAULT_CHUNK_SIZE, DEFAULT_COMPRESSION, DEFAULT_UNCOMPRESSED_CHUNK_SIZE, RecordWriter,
    WriterOptions,
};
