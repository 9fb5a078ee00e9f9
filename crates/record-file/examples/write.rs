//! Writes a file, and appends to it later.
//!
//!     cargo run -p record-file --example write -- words.riegeli "transpose,zstd:5"
//!
//! The options are a string in the form that every Riegeli writer accepts. Without a path, the
//! example writes a temporary file and removes it.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use record_file::{
    ReaderOptions, RecordFile, RecordReader, RecordWriter, RecordsMetadata, WriterOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let path = match arguments.next() {
        Some(path) => PathBuf::from(path),
        None => folder.path().join("words.riegeli"),
    };
    let options: WriterOptions = arguments.next().as_deref().unwrap_or("zstd:5").parse()?;

    let metadata = RecordsMetadata {
        file_comment: Some("some words".to_owned()),
        record_writer_options: Some(options.to_string()),
        ..RecordsMetadata::default()
    };
    let file = File::create_new(&path)?;
    // Large records are streamed to a file, since the headers before them can be filled in later.
    let mut writer = RecordWriter::new(file, options.clone().metadata(&metadata))?.seekable();
    writer.write_record(b"one")?;
    // Several slices make up one record.
    writer.write_record_slices(&[b"tw", b"o"])?;
    // Other readers can now read everything up to here.
    writer.flush()?;
    // This record is never in memory as a whole.
    let mut million = std::io::repeat(b'3');
    writer.write_record_from(&mut million, 1_000_000, record_file::Compression::ZSTD)?;
    // Without this call, the file would be truncated.
    writer.finish()?;

    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let mut writer = RecordWriter::append(file, options)?.seekable();
    writer.write_record(b"four")?;
    let last = writer.last_position().ok_or("a record was written")?;
    writer.finish()?;

    let file = RecordFile::open(File::open(&path)?, ReaderOptions::new())?;
    assert_eq!(file.read_record(last)?, b"four"[..]);
    let read = RecordsMetadata::parse(&file.metadata()?.ok_or("metadata was written")?)?;
    assert_eq!(read, metadata);
    let mut reader = RecordReader::new(file.into_inner(), ReaderOptions::new());
    let mut lengths = Vec::new();
    while let Some(record) = reader.read_record()? {
        lengths.push(record.len());
    }
    assert_eq!(lengths, [3, 3, 1_000_000, 4]);
    println!("{}: records of {lengths:?} bytes", path.display());
    Ok(())
}
