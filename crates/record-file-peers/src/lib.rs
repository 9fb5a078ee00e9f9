//! `record-file` and the `riegeli` crate behind one interface, so that they can be compared.
#![forbid(unsafe_code)]

pub mod records;

use std::error::Error;
use std::io::Cursor;

use record_file::{Compression, ReaderOptions, RecordReader, RecordWriter, WriterOptions};

/// What can go wrong in either.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// A way to compress that both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// Zstd, with a level.
    Zstd(i32),
    /// Brotli, with a level.
    Brotli(u32),
    /// Snappy.
    Snappy,
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Codec::None => f.write_str("none"),
            Codec::Zstd(level) => write!(f, "zstd:{level}"),
            Codec::Brotli(level) => write!(f, "brotli:{level}"),
            Codec::Snappy => f.write_str("snappy"),
        }
    }
}

/// How a file is written: what both can do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The compression.
    pub codec: Codec,
    /// Bytes of records that share a chunk.
    pub chunk_size: u64,
    /// Whether chunks are transposed.
    pub transpose: bool,
    /// How much of a chunk's size a bucket has.
    pub bucket_fraction: f64,
    /// What the file is padded to a multiple of.
    pub final_padding: u64,
}

impl Settings {
    /// Chunks of 1 MiB, simple, not padded.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Settings {
            codec,
            chunk_size: 1 << 20,
            transpose: false,
            bucket_fraction: 1.0,
            final_padding: 1,
        }
    }

    /// The same, transposed.
    #[must_use]
    pub const fn transposed(mut self) -> Self {
        self.transpose = true;
        self
    }

    /// As options of ours.
    #[must_use]
    pub fn ours(&self) -> WriterOptions {
        let compression = match self.codec {
            Codec::None => Compression::None,
            Codec::Zstd(level) => Compression::zstd(level),
            Codec::Brotli(level) => Compression::brotli(level),
            Codec::Snappy => Compression::SNAPPY,
        };
        WriterOptions::new()
            .compression(compression)
            .chunk_size(self.chunk_size)
            .transpose(self.transpose)
            .bucket_fraction(self.bucket_fraction)
            .final_padding(self.final_padding)
    }

    /// As options of theirs.
    #[must_use]
    pub fn theirs(&self) -> riegeli::WriterOptions {
        let options = riegeli::WriterOptions::new()
            .chunk_size(self.chunk_size)
            .transpose(self.transpose)
            .bucket_fraction(self.bucket_fraction)
            .final_padding(self.final_padding);
        match self.codec {
            Codec::None => options.compression(riegeli::CompressionType::None),
            Codec::Zstd(level) => options
                .compression(riegeli::CompressionType::Zstd)
                .compression_level(level),
            Codec::Brotli(level) => options
                .compression(riegeli::CompressionType::Brotli)
                .compression_level(i32::try_from(level).unwrap_or(i32::MAX)),
            Codec::Snappy => options.compression(riegeli::CompressionType::Snappy),
        }
    }
}

/// Writes a file with `record-file`, flushed after every `flush_every` records.
///
/// # Errors
///
/// What the writer says.
pub fn write_ours(
    records: &[Vec<u8>],
    options: WriterOptions,
    flush_every: usize,
) -> Outcome<Vec<u8>> {
    let mut writer = RecordWriter::new(Vec::new(), options)?;
    for (index, record) in records.iter().enumerate() {
        writer.write_record(record)?;
        if (index + 1).is_multiple_of(flush_every) {
            writer.flush()?;
        }
    }
    Ok(writer.finish()?)
}

/// Writes a file with the `riegeli` crate, flushed after every `flush_every` records.
///
/// # Errors
///
/// What the writer says.
pub fn write_theirs(
    records: &[Vec<u8>],
    options: riegeli::WriterOptions,
    flush_every: usize,
) -> Outcome<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = riegeli::RecordWriter::new(&mut out, options)?;
    for (index, record) in records.iter().enumerate() {
        writer.write_record(record)?;
        if (index + 1).is_multiple_of(flush_every) {
            writer.flush()?;
        }
    }
    writer.close()?;
    Ok(out)
}

/// A record and its position: where its chunk begins, and its index in it.
pub type Positioned = (u64, u64, Vec<u8>);

/// Reads a file with `record-file`.
///
/// # Errors
///
/// What the reader says.
pub fn read_ours(file: &[u8]) -> Outcome<Vec<Positioned>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    let mut records = Vec::new();
    while let Some(record) = reader.read_record()? {
        let record = record.to_vec();
        let position = reader.last_position().ok_or("a record without position")?;
        let begin = position.chunk_begin().0;
        records.push((begin, position.record_index(), record));
    }
    Ok(records)
}

/// Reads a file with the `riegeli` crate.
///
/// # Errors
///
/// What the reader says.
pub fn read_theirs(file: &[u8]) -> Outcome<Vec<Positioned>> {
    let mut reader = riegeli::RecordReader::new(Cursor::new(file), riegeli::ReaderOptions::new())?;
    let mut records = Vec::new();
    while let Some(record) = reader.read_record()? {
        let position = reader.last_pos();
        records.push((position.chunk_begin, position.record_index, record));
    }
    Ok(records)
}
