//! Writing to reused memory, and reading from memory, with `record-file` and with the `riegeli`
//! crate.
use std::io::{Cursor, Read, Seek, Write};

use record_file::{
    Compression, ReadAt, ReaderOptions, RecordFile, RecordPosition, RecordReader, RecordWriter,
    WriterOptions,
};
use record_file_peers::Outcome;

/// Writes all records with `record-file`.
pub(crate) fn write_ours<W: Write + Send>(
    records: &[Vec<u8>],
    options: &WriterOptions,
    out: W,
) -> Outcome<W> {
    write_all(records, RecordWriter::new(out, options.clone())?)
}

/// Writes all records with `record-file` to a sink that can seek back to fill in headers.
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

/// Writes all records with the `riegeli` crate.
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

/// Reads all records in order with `record-file`, and returns their total size in bytes. The
/// records are borrowed from their chunks. Chunks are decoded by `threads` threads or, if `threads`
/// is 0, by the caller's thread.
pub(crate) fn read_ours<S: ReadAt>(source: S, threads: u32) -> Outcome<u64> {
    let options = ReaderOptions::new().threads(threads);
    let mut reader = RecordReader::new(source, options);
    let mut total = 0;
    while let Some(record) = reader.read_record()? {
        total += record.len() as u64;
    }
    Ok(total)
}

/// Reads all records in order with the `riegeli` crate, each into newly allocated memory, and
/// returns their total size in bytes.
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

/// Returns the positions of all records in a file.
pub(crate) fn positions(file: &[u8]) -> Outcome<Vec<RecordPosition>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    let mut positions = Vec::new();
    while reader.read_record()?.is_some() {
        positions.extend(reader.last_position());
    }
    Ok(positions)
}

/// Reads records of `size` bytes each into a buffer on `threads` threads, and returns their total
/// size in bytes.
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

/// Returns the concatenated records of each chunk, which are the input of a codec.
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

/// Returns options for an uncompressed file whose writing isn't measured.
pub(crate) fn plain() -> WriterOptions {
    WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(1 << 20)
}
