//! Writing to reused memory, and reading from memory, with the two crates.
use std::io::{Cursor, Read, Seek, Write};

use record_file::{
    Compression, ReadAt, ReaderOptions, RecordFile, RecordPosition, RecordReader, RecordWriter,
    WriterOptions,
};
use record_file_peers::Outcome;

/// Writes all records.
pub(crate) fn write_ours<W: Write + Send>(
    records: &[Vec<u8>],
    options: &WriterOptions,
    out: W,
) -> Outcome<W> {
    write_all(records, RecordWriter::new(out, options.clone())?)
}

/// Writes all records to a sink that can seek back to fill in headers.
pub(crate) fn write_seekable<W: Write + Seek>(
    records: &[Vec<u8>],
    options: &WriterOptions,
    out: W,
) -> Outcome<W> {
    let writer = RecordWriter::new(out, options.clone())?;
    write_all(records, writer.seekable())
}

fn write_all<W: Write>(records: &[Vec<u8>], mut writer: RecordWriter<W>) -> Outcome<W> {
    for record in records {
        writer.write_record(record)?;
    }
    Ok(writer.finish()?)
}

/// Writes all records.
pub(crate) fn write_theirs<W: Write>(
    records: &[Vec<u8>],
    options: &riegeli::WriterOptions,
    out: W,
) -> Outcome<()> {
    let mut writer = riegeli::RecordWriter::new(out, options.clone())?;
    for record in records {
        writer.write_record(record)?;
    }
    Ok(writer.close()?)
}

/// Reads all records in order, borrowed from their chunks, which `threads` threads decode, or the
/// caller's thread if `threads` is 0.
pub(crate) fn read_ours<S: ReadAt>(source: S, threads: u32) -> Outcome<u64> {
    let options = ReaderOptions::new().threads(threads);
    let mut reader = RecordReader::new(source, options);
    let mut total = 0;
    while let Some(record) = reader.read_record()? {
        total += record.len() as u64;
    }
    Ok(total)
}

/// Reads all records in order, each into its own memory.
pub(crate) fn read_theirs<R: Read + Seek>(source: R) -> Outcome<u64> {
    let mut reader = riegeli::RecordReader::new(source, riegeli::ReaderOptions::new())?;
    let mut total = 0;
    while let Some(record) = reader.read_record()? {
        total += record.len() as u64;
    }
    Ok(total)
}

/// Reads a file in memory, like [`read_theirs`].
pub(crate) fn read_theirs_of(file: &[u8]) -> Outcome<u64> {
    read_theirs(Cursor::new(file))
}

/// Returns the positions of all records.
pub(crate) fn positions(file: &[u8]) -> Outcome<Vec<RecordPosition>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    let mut positions = Vec::new();
    while reader.read_record()?.is_some() {
        positions.extend(reader.last_position());
    }
    Ok(positions)
}

/// Reads records of one size into a buffer, on this many threads.
pub(crate) fn read_into<S: ReadAt>(
    source: S,
    positions: &[RecordPosition],
    size: usize,
    out: &mut [u8],
    threads: u32,
) -> Outcome<u64> {
    let options = ReaderOptions::new().threads(threads);
    let file = RecordFile::open(source, options)?;
    let places = positions.iter().copied().zip(out.chunks_mut(size));
    file.read_records_into(places)?;
    Ok(positions.len() as u64 * size as u64)
}

/// Returns the uncompressed values of each chunk, which are a codec's input.
pub(crate) fn values(file: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let file = RecordFile::open(file, ReaderOptions::new())?;
    let mut values = Vec::new();
    for chunk in file.chunks() {
        let chunk = file.read_chunk(chunk?.begin())?;
        if !chunk.is_empty() {
            values.push(chunk.records().flatten().copied().collect());
        }
    }
    Ok(values)
}

/// Returns options for a file that is written only to be read.
pub(crate) fn plain() -> WriterOptions {
    WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(1 << 20)
}
