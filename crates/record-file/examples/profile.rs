//! Opens an XLA profile and decodes its events, one record at a time.
//!
//!     cargo run -p record-file --example profile -- host.xplane.riegeli
//!
//! Without a path, the example writes a profile first.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use prost::Message;
use record_file::{ReaderOptions, RecordReader, RecordWriter};

/// A record of a profile, with the fields of its schema that this example needs.
#[derive(Message)]
struct XSpace {
    #[prost(message, repeated, tag = "1")]
    planes: Vec<XPlane>,
}

#[derive(Message)]
struct XPlane {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<XLine>,
}

#[derive(Message)]
struct XLine {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(message, repeated, tag = "4")]
    events: Vec<XEvent>,
}

#[derive(Message)]
struct XEvent {
    #[prost(int64, tag = "1")]
    metadata_id: i64,
    #[prost(int64, tag = "3")]
    duration_ps: i64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => made()?,
    };
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    while let Some(record) = reader.read_record()? {
        for plane in XSpace::decode(record)?.planes {
            for line in &plane.lines {
                let time: i64 = line.events.iter().map(|event| event.duration_ps).sum();
                let (name, id, count) = (&plane.name, line.id, line.events.len());
                println!("{name}, line {id}: {count} events, {time} ps");
            }
        }
    }
    Ok(())
}

/// Returns a profile with one event.
fn made() -> record_file::Result<Vec<u8>> {
    let (name, event) = (
        "/host:CPU".to_owned(),
        XEvent {
            metadata_id: 1,
            duration_ps: 500,
        },
    );
    let lines = vec![XLine {
        id: 7,
        events: vec![event],
    }];
    let space = XSpace {
        planes: vec![XPlane { name, lines }],
    };
    let mut writer = RecordWriter::with_defaults(Vec::new());
    writer.write_record(&space.encode_to_vec())?;
    writer.finish()
}
