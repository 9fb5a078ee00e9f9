//! A common interface to `record-file` and the `riegeli` crate, for comparing the two crates.
#![forbid(unsafe_code)]

pub mod records;

use std::error::Error;
use std::io::Cursor;

use record_file::{Compression, ReaderOptions, RecordReader, RecordWriter, WriterOptions};

/// The result of a call to `record-file` or to the `riegeli` crate.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The writer options that both `record-file` and the `riegeli` crate support.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Compression of the chunks.
    pub codec: Compression,
    /// Total size of the records that share a chunk, in bytes.
    pub chunk_size: u64,
    /// True if chunks are transposed.
    pub transpose: bool,
    /// Size of a bucket as a fraction of a chunk's size.
    pub bucket_fraction: f64,
    /// Multiple to which the file is padded, in bytes.
    pub final_padding: u64,
}

impl Settings {
    /// Returns settings with simple chunks of 1 MiB, without padding.
    #[must_use]
    pub const fn new(codec: Compression) -> Self {
        Settings {
            codec,
            chunk_size: 1 << 20,
            transpose: false,
            bucket_fraction: 1.0,
            final_padding: 1,
        }
    }

    /// Returns the same settings, with transposed chunks.
    #[must_use]
    pub const fn transposed(mut self) -> Self {
        self.transpose = true;
        self
    }

    /// Returns the settings as options of `record-file`.
    #[must_use]
    pub fn ours(&self) -> WriterOptions {
        WriterOptions::new()
            .compression(self.codec)
            .chunk_size(self.chunk_size)
            .transpose(self.transpose)
            .bucket_fraction(self.bucket_fraction)
            .final_padding(self.final_padding)
    }

    /// Returns the settings as options of the `riegeli` crate.
    #[must_use]
    pub fn theirs(&self) -> riegeli::WriterOptions {
        let options = riegeli::WriterOptions::new()
            .chunk_size(self.chunk_size)
            .transpose(self.transpose)
            .bucket_fraction(self.bucket_fraction)
            .final_padding(self.final_padding);
        match self.codec {
            Compression::None => options.compression(riegeli::CompressionType::None),
            Compression::Zstd { level, .. } => options
                .compression(riegeli::CompressionType::Zstd)
                .compression_level(level),
            Compression::Brotli { level, .. } => options
                .compression(riegeli::CompressionType::Brotli)
                .compression_level(i32::try_from(level).unwrap_or(i32::MAX)),
            _ => options.compression(riegeli::CompressionType::Snappy),
        }
    }
}

/// Writes a file with `record-file`, and flushes it after every `flush_every` records.
///
/// # Errors
///
/// Any error from the writer.
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

/// Writes a file with the `riegeli` crate, and flushes it after every `flush_every` records.
///
/// # Errors
///
/// Any error from the writer.
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

/// The offset of a record's chunk, the record's index in the chunk, and the record.
pub type Positioned = (u64, u64, Vec<u8>);

/// Reads a file with `record-file`.
///
/// # Errors
///
/// Any error from the reader.
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
/// Any error from the reader.
pub fn read_theirs(file: &[u8]) -> Outcome<Vec<Positioned>> {
    let mut reader = riegeli::RecordReader::new(Cursor::new(file), riegeli::ReaderOptions::new())?;
    let mut records = Vec::new();
    while let Some(record) = reader.read_record()? {
        let position = reader.last_pos();
        records.push((position.chunk_begin, position.record_index, record));
    }
    Ok(records)
}
