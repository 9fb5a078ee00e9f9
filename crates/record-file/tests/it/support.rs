//! Fixtures, records to write, and sources to read them from.
pub(crate) mod frame;
pub(crate) mod io;
pub(crate) mod message;

use std::fs;
use std::path::PathBuf;

use record_file::{
    Compression, ReaderOptions, RecordFile, RecordPosition, RecordReader, WriterOptions,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) use crate::noise::noise;

pub(crate) fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/riegeli")
}

pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sidecar: Value,
}

/// A record of a fixture, as described in the fixture's sidecar file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) len: u64,
    pub(crate) sha256: String,
    pub(crate) position: RecordPosition,
}

impl Fixture {
    pub(crate) fn load(name: &str) -> Self {
        let path = dir().join(name);
        let sidecar = fs::read_to_string(dir().join(format!("{name}.json"))).unwrap();
        Fixture {
            name: name.to_owned(),
            bytes: fs::read(path).unwrap(),
            sidecar: serde_json::from_str(&sidecar).unwrap(),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.sidecar["kind"] == "valid"
    }

    pub(crate) fn open(&self) -> RecordFile<&[u8]> {
        RecordFile::open(&self.bytes[..], ReaderOptions::new()).unwrap()
    }

    pub(crate) fn has_transposed(&self) -> bool {
        let chunks = self.sidecar["chunks"].as_array().unwrap();
        chunks.iter().any(|chunk| chunk["type"] == "t")
    }

    /// Returns the number of records after which the writer flushed.
    pub(crate) fn flush_every(&self) -> usize {
        let every = &self.sidecar["flush_every"];
        let every = every
            .as_u64()
            .or(self.sidecar["options"]["flush_every"].as_u64());
        every.map_or(usize::MAX, |every| usize::try_from(every).unwrap())
    }

    pub(crate) fn records(&self) -> Vec<Expected> {
        if self.sidecar["records_omitted"].is_string() {
            // All records are empty.
            let sha256 = sha256(b"");
            let chunks = self.sidecar["chunks"].as_array().unwrap();
            return chunks
                .iter()
                .flat_map(|chunk| {
                    let begin = chunk["begin"].as_u64().unwrap();
                    let records = chunk["num_records"].as_u64().unwrap();
                    (0..records).map(move |index| RecordPosition::new(begin, index))
                })
                .map(|position| Expected {
                    len: 0,
                    sha256: sha256.clone(),
                    position,
                })
                .collect();
        }
        let records = self.sidecar["records"].as_array().unwrap();
        records
            .iter()
            .map(|row| Expected {
                len: row[0].as_u64().unwrap(),
                sha256: row[1].as_str().unwrap().to_owned(),
                position: RecordPosition::new(row[3].as_u64().unwrap(), row[4].as_u64().unwrap()),
            })
            .collect()
    }
}

pub(crate) fn all() -> Vec<Fixture> {
    let sums = fs::read_to_string(dir().join("SHA256SUMS")).unwrap();
    let mut fixtures = Vec::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let fixture = Fixture::load(name);
        assert_eq!(sha256(&fixture.bytes), sum, "{name}");
        fixtures.push(fixture);
    }
    fixtures
}

/// Returns all fixtures that can be read on this machine.
pub(crate) fn valid() -> Vec<Fixture> {
    // zstd refuses windows of 2 GiB on a 32-bit machine.
    let is_readable = |fixture: &Fixture| usize::BITS > 32 || !fixture.name.contains("wlog31");
    let fixtures = all().into_iter().filter(Fixture::is_valid);
    fixtures.filter(is_readable).collect()
}

/// A list of records and their positions.
pub(crate) type Records = Vec<(RecordPosition, Vec<u8>)>;

/// Reads the records in a file in sequence.
pub(crate) fn records(bytes: &[u8]) -> Records {
    let mut reader = RecordReader::new(bytes, ReaderOptions::new());
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        let record = record.to_vec();
        records.push((reader.last_position().unwrap(), record));
    }
    records
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns options for simple and transposed chunks, with each compression.
pub(crate) fn formats() -> Vec<WriterOptions> {
    let compressions = [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
        Compression::SNAPPY,
    ];
    let options = compressions.map(|compression| WriterOptions::new().compression(compression));
    let both = |options: WriterOptions| [options.clone(), options.transpose(true)];
    options.into_iter().flat_map(both).collect()
}
