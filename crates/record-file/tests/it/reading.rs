//! Tests of reading in order and past damage, which compare the results with the fixtures' sidecar
//! files.
use std::sync::{Arc, Mutex};

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordFile, RecordInput, RecordPosition, RecordReader,
    RecordWriter,
};
use serde_json::Value;

use crate::support::frame::{Frame, push};
use crate::support::{Fixture, all, sha256, valid};

type Regions = Vec<(u64, u64)>;

/// Returns all records from a reader, and the regions it skips.
fn read_all<I: RecordInput>(reader: RecordReader<I>) -> (Vec<(RecordPosition, String)>, Regions) {
    let regions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&regions);
    let mut reader = reader.on_damage(move |region| {
        seen.lock().unwrap().push((region.begin, region.end));
        true
    });
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        let sum = sha256(record);
        records.push((reader.last_position().unwrap(), sum));
    }
    // Reading again at the end returns the end again.
    assert_eq!(reader.read_record().unwrap(), None);
    let regions = regions.lock().unwrap().clone();
    (records, regions)
}

fn strict<I: RecordInput>(mut reader: RecordReader<I>) -> (usize, Option<record_file::Error>) {
    let mut count = 0;
    loop {
        match reader.read_record() {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, None),
            Err(error) => {
                // The error repeats, at the same place.
                let again = reader.read_record().unwrap_err();
                assert_eq!(
                    (again.kind(), again.offset()),
                    (error.kind(), error.offset())
                );
                return (count, Some(error));
            }
        }
    }
}

fn check_recovery(fixture: &Fixture, got: (Vec<(RecordPosition, String)>, Regions)) {
    let name = &fixture.name;
    let expected = &fixture.sidecar["cpp_recover"];
    let base = Fixture::load(
        fixture.sidecar["base"]
            .as_str()
            .unwrap_or("rs_multi_none.riegeli"),
    )
    .records();
    let indices = expected["record_indices"].as_array().unwrap();
    let positions = expected["positions"].as_array().unwrap();
    let (records, regions) = got;
    assert_eq!(records.len(), indices.len(), "{name}");
    for ((position, sum), (index, numeric)) in records.iter().zip(indices.iter().zip(positions)) {
        let index = usize::try_from(index.as_u64().unwrap()).unwrap();
        assert_eq!(sum, &base[index].sha256, "{name}");
        assert_eq!(position.numeric(), numeric.as_u64().unwrap(), "{name}");
    }
    let number = |region: &Value, key: &str| region[key].as_u64().unwrap();
    let skipped: Regions = expected["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|region| (number(region, "begin"), number(region, "end")))
        .collect();
    assert_eq!(regions, skipped, "{name}");
}

#[test]
fn recovery_is_that_of_the_reference() {
    let mut checked = 0;
    for fixture in all().iter().filter(|fixture| !fixture.is_valid()) {
        let options = ReaderOptions::new();
        check_recovery(
            fixture,
            read_all(RecordReader::new(&fixture.bytes[..], options)),
        );
        check_recovery(
            fixture,
            read_all(RecordReader::from_read(&fixture.bytes[..], options)),
        );
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &fixture.bytes).unwrap();
        check_recovery(fixture, read_all(RecordReader::new(file, options)));
        checked += 1;
    }
    assert_eq!(checked, 23);
}

#[test]
fn damage_is_an_error_at_its_place() {
    let start = RecordWriter::with_defaults(Vec::new()).finish().unwrap();
    for fixture in all().iter().filter(|fixture| !fixture.is_valid()) {
        let name = &fixture.name;
        let expected = &fixture.sidecar["cpp_strict"];
        let begins_otherwise = fixture.bytes.iter().zip(&start).any(|(a, b)| a != b);
        for (count, error) in [
            strict(RecordReader::new(&fixture.bytes[..], ReaderOptions::new())),
            strict(RecordReader::from_read(
                &fixture.bytes[..],
                ReaderOptions::new(),
            )),
        ] {
            assert_eq!(count as u64, expected["n"].as_u64().unwrap(), "{name}");
            match (expected["error"].as_str(), error) {
                (None, None) => {}
                (Some(expected), Some(error)) => {
                    let kind = match expected {
                        // The reference implementation reports a wrong hash for this file.
                        _ if begins_otherwise => ErrorKind::NotARecordFile,
                        text if text.contains("Truncated") => ErrorKind::Truncated,
                        text if text.contains("hash mismatch") => ErrorKind::ChecksumMismatch,
                        _ => ErrorKind::Corrupt,
                    };
                    assert_eq!(error.kind(), kind, "{name}: {error}");
                }
                (expected, error) => panic!("{name}: {error:?}, not {expected:?}"),
            }
        }
    }
}

#[test]
fn valid_files_are_read_from_every_kind_of_source() {
    for fixture in valid() {
        let name = &fixture.name;
        let options = ReaderOptions::new();
        let (records, regions) = read_all(RecordReader::new(&fixture.bytes, options));
        assert_eq!(regions, [], "{name}");
        let (streamed, regions) = read_all(RecordReader::from_read(&fixture.bytes[..], options));
        assert_eq!(regions, [], "{name}");
        assert!(records == streamed, "{name}");
        let expected = fixture.records();
        assert!(records.len() >= expected.len(), "{name}");
        for (record, expected) in records.iter().zip(&expected) {
            assert_eq!(record.0, expected.position, "{name}");
            assert_eq!(record.1, expected.sha256, "{name}");
        }
    }
}

#[test]
fn a_callback_that_says_no_ends_reading_there_once() {
    let fixture = Fixture::load("bad_flip_data.riegeli");
    let mut reader = RecordReader::new(&fixture.bytes, ReaderOptions::new()).on_damage(|_| false);
    let mut counts = Vec::new();
    for _ in 0..3 {
        let mut count = 0;
        while reader.read_record().unwrap().is_some() {
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts, [12, 62, 0]);
    assert_eq!(reader.last_skipped().unwrap().begin, 11056);
}

#[test]
fn a_file_that_grows_is_read_on() {
    #[derive(Clone, Default)]
    struct Growing(Arc<Mutex<Vec<u8>>>);
    impl record_file::ReadAt for Growing {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().read_at(offset, buf)
        }
        fn size(&self) -> std::io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }
    }
    let fixture = Fixture::load("rs_multi_none.riegeli");
    let growing = Growing::default();
    let mut reader = RecordReader::new(growing.clone(), ReaderOptions::new());
    let mut count = 0;
    for cut in (0..fixture.bytes.len())
        .step_by(1009)
        .chain([fixture.bytes.len()])
    {
        *growing.0.lock().unwrap() = fixture.bytes[..cut].to_vec();
        loop {
            match reader.read_record() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
                    break;
                }
            }
        }
    }
    assert_eq!(count, fixture.records().len());
}

#[test]
fn metadata_is_read_at_the_beginning_only() {
    let fixture = Fixture::load("cpp_meta_uncompressed.riegeli");
    let mut reader = RecordReader::new(&fixture.bytes, ReaderOptions::new());
    let metadata = reader.read_metadata().unwrap().unwrap();
    assert_eq!(metadata, fixture.open().metadata().unwrap().unwrap());
    assert!(reader.read_record().unwrap().is_some());
    assert_eq!(
        reader.read_metadata().unwrap_err().kind(),
        ErrorKind::InvalidPosition
    );
    let without = Fixture::load("rs_multi_none.riegeli");
    let mut reader = RecordReader::from_read(&without.bytes[..], ReaderOptions::new());
    assert_eq!(reader.read_metadata().unwrap(), None);
    assert!(reader.read_record().unwrap().is_some());
}

#[test]
fn a_file_and_a_reader_say_the_same_of_what_a_file_begins_with() {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    writer.write_record(b"a record").unwrap();
    let bytes = writer.finish().unwrap();
    // The file begins with a chunk that is not a signature.
    let mut padding = Vec::new();
    push(&mut padding, &Frame::new(b'p', 0, 0, &[]));
    let mut cases = vec![(ErrorKind::NotARecordFile, padding)];
    let others: [&[u8]; 4] = [b"{", b"no record file", &[7; 64], &[0; 100_000]];
    cases.extend(others.map(|other| (ErrorKind::NotARecordFile, other.to_vec())));
    cases.extend((0..64).map(|at| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        (ErrorKind::NotARecordFile, flipped)
    }));
    cases.extend((1..64).map(|cut| (ErrorKind::Truncated, bytes[..cut].to_vec())));
    for (kind, bad) in cases {
        let options = ReaderOptions::new();
        let errors = [
            RecordFile::open(&bad, options).unwrap_err(),
            RecordReader::new(&bad, options).read_record().unwrap_err(),
            RecordReader::from_read(&bad[..], options)
                .read_record()
                .unwrap_err(),
        ];
        for error in &errors {
            assert_eq!((error.kind(), error.offset()), (kind, Some(0)), "{error}");
            assert_eq!(error.to_string(), errors[0].to_string());
        }
    }
}

#[test]
fn with_a_callback_a_damaged_beginning_of_a_file_is_skipped_as_any_damage() {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    for record in [&[7; 70_000][..], b"in the next block"] {
        writer
            .write_record_alone(record, Compression::None)
            .unwrap();
    }
    let bytes = writer.finish().unwrap();
    for at in 0..64 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        let mut reader = RecordReader::new(flipped, ReaderOptions::new()).on_damage(|region| {
            assert_eq!(region.error.kind(), ErrorKind::ChecksumMismatch);
            true
        });
        let record = reader.read_record().unwrap();
        assert_eq!(record, Some(&b"in the next block"[..]), "{at}");
        assert_eq!(reader.last_skipped().unwrap().begin, 0, "{at}");
    }
}
