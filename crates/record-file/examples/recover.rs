//! Reads a damaged file, and reports the damage.
//!
//!     cargo run -p record-file --example recover -- damaged.riegeli
//!
//! Without a path, the example writes a file and damages it.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordReader, RecordWriter, WriterOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => damaged()?,
    };

    // Without a callback, damage is an error with its offset and kind, and every later read fails
    // as well.
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    let mut before = 0;
    let error = loop {
        match reader.read_record() {
            Ok(Some(_)) => before += 1,
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    match error {
        None => println!("nothing is wrong with {before} records"),
        Some(error) => println!("{before} records, then {error}"),
    }

    // With a callback, damage is reported and skipped.
    let lost = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&lost);
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new()).on_damage(move |region| {
        println!(
            "skipped {:#x} to {:#x}: {}",
            region.begin, region.end, region.error
        );
        sum.fetch_add(region.end - region.begin, Ordering::Relaxed);
        true
    });
    let mut records = 0;
    while reader.read_record()?.is_some() {
        records += 1;
    }
    let lost = lost.load(Ordering::Relaxed);
    println!(
        "{records} records are left, {lost} of {} bytes are lost",
        bytes.len()
    );
    assert!(records >= before);
    Ok(())
}

/// Returns ten records in five chunks: one chunk has a wrong byte, and the last is truncated.
fn damaged() -> Result<Vec<u8>, Box<dyn Error>> {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(40);
    let mut writer = RecordWriter::new(Vec::new(), options)?;
    let mut begins = Vec::new();
    for index in 0..10 {
        writer.write_record(format!("record {index}").as_bytes())?;
        begins.extend(writer.last_position());
    }
    let mut bytes = writer.finish()?;
    let inside = usize::try_from(begins[4].chunk_begin().0)? + 50;
    bytes[inside] ^= 0x20;
    bytes.truncate(bytes.len() - 3);

    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    let error = loop {
        if let Err(error) = reader.read_record() {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert_eq!(error.offset(), Some(begins[4].chunk_begin().0));
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new()).on_damage(|_| true);
    let mut left = 0;
    while reader.read_record()?.is_some() {
        left += 1;
    }
    assert_eq!(left, 6);
    Ok(bytes)
}
