//! Prints the chunks of a file, and the number of bytes in headers and fill.
//!
//!     cargo run -p record-file --example describe -- some.riegeli
//!
//! Without a path, the example writes a sample file first. Only headers are read, regardless of the
//! size of the file.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fs::File;

use record_file::{
    ChunkType, Compression, ReadAt, ReaderOptions, RecordFile, RecordWriter, WriterOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(path) => describe(File::open(path)?),
        None => describe(made()?),
    }
}

fn describe(source: impl ReadAt) -> Result<(), Box<dyn Error>> {
    let file = RecordFile::open(source, ReaderOptions::new())?;
    let [mut records, mut bytes, mut overhead] = [0; 3];
    for chunk in file.chunks() {
        let chunk = chunk?;
        let header = chunk.header;
        let compression = match header.kind {
            ChunkType::Simple | ChunkType::Transposed | ChunkType::Metadata => {
                file.compression(&chunk)?.to_string()
            }
            _ => String::new(),
        };
        println!(
            "{:#010x} {:<10?} {compression:<6} {:>8} records {:>10} bytes, {:>10} stored",
            chunk.begin().0,
            header.kind,
            header.num_records,
            header.decoded_data_size,
            header.data_size,
        );
        let layout = chunk.layout();
        records += header.num_records;
        bytes += layout.total();
        overhead += layout.header + layout.block_headers + layout.fill;
    }
    // The chunks cover the file without gaps.
    assert_eq!(bytes, file.size());
    println!("{records} records in {bytes} bytes, of which {overhead} are headers and fill");
    if let Some(last) = file.last_record()? {
        println!(
            "the last one, at {last}, has {} bytes",
            file.record_len(last)?
        );
    }
    Ok(())
}

fn made() -> Result<Vec<u8>, Box<dyn Error>> {
    let options = WriterOptions::new()
        .compression(Compression::ZSTD)
        .final_padding(1 << 16);
    let mut writer = RecordWriter::new(Vec::new(), options)?;
    for index in 0..1000 {
        writer.write_record(format!("a record, of which there are many: {index}").as_bytes())?;
    }
    writer.write_record_alone(&[7; 100_000], Compression::None)?;
    Ok(writer.finish()?)
}
