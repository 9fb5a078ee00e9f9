//! Finds records again: by the position that the writer returned, by number, backwards, and by
//! searching.
//!
//!     cargo run -p record-file --example seek
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use record_file::{
    ReaderOptions, RecordFile, RecordReader, RecordWriter, SearchResult, WriterOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    // The records are sorted, so that they can be searched.
    let options = WriterOptions::new().chunk_size(1000);
    let mut writer = RecordWriter::new(Vec::new(), options)?;
    let mut positions = Vec::new();
    for year in 1900..2100 {
        writer.write_record(format!("{year}: a year").as_bytes())?;
        positions.extend(writer.last_position());
    }
    let bytes = writer.finish()?;

    // A position consists of the offset of a chunk and the index of a record in the chunk. A
    // position can be stored as text, as bytes, or as a single number.
    let kept = positions[87].to_string();
    let file = RecordFile::open(&bytes, ReaderOptions::new())?;
    assert_eq!(file.read_record(kept.parse()?)?, b"1987: a year"[..]);
    println!("1987 is at {kept}, or {}", positions[87].numeric());

    // A RecordFile has no state, so threads can share it; a RecordReader moves from record to
    // record.
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    reader.seek_numeric(positions[42].numeric())?;
    assert_eq!(reader.read_record()?, Some(&b"1942: a year"[..]));
    assert_eq!(reader.read_record()?, Some(&b"1943: a year"[..]));
    assert!(reader.seek_back()? && reader.seek_back()?);
    assert_eq!(reader.read_record()?, Some(&b"1942: a year"[..]));

    // The last record is found by going back from the end.
    reader.seek_numeric(bytes.len() as u64)?;
    assert!(reader.seek_back()?);
    assert_eq!(reader.read_record()?, Some(&b"2099: a year"[..]));

    // The search reads only a few chunks.
    let mut compared = 0;
    let found = reader.search(|record| {
        compared += 1;
        record.cmp(&b"1999"[..]).into()
    })?;
    // No record is equal, so the reader is at the next larger record.
    assert_eq!(found, SearchResult::Greater);
    assert_eq!(reader.read_record()?, Some(&b"1999: a year"[..]));
    println!(
        "1999 was found with {compared} comparisons among {} records",
        positions.len()
    );
    Ok(())
}
