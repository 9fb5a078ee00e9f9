//! Tests that every bit flip and every truncation of small files results in an error or the same
//! records.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use record_file::{
    ChunkType, Compression, ErrorKind, ReaderOptions, RecordFile, RecordPosition, RecordReader,
    RecordWriter, WriterOptions,
};

use crate::support::message::{bytes_field, group, varint_field};
use crate::support::{Fixture, formats, noise};

type Records = Vec<(RecordPosition, Vec<u8>)>;

struct Subject {
    name: String,
    bytes: Vec<u8>,
    records: Records,
    /// Ends of the chunks, and the beginning of the file.
    ends: BTreeSet<u64>,
}

impl Subject {
    fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
        let ends = file.chunks().map(|chunk| chunk.unwrap().end().0);
        Subject {
            name: name.into(),
            ends: ends.chain([0]).collect(),
            records: in_sequence(&bytes).unwrap(),
            bytes,
        }
    }
}

/// Returns files with simple and transposed chunks in each codec, with metadata and with padding.
fn small_files() -> Vec<Subject> {
    let mut subjects: Vec<_> = [
        "cpp_meta_zstd3_transpose.riegeli",
        "cpp_meta_uncompressed.riegeli",
        "cpp_transpose_proto_brotli11.riegeli",
        "rs_transpose_empty_records.riegeli",
        "rs_transpose_proto_zstd.riegeli",
        "cpp_small_brotli6.riegeli",
        "cpp_empty.riegeli",
    ]
    .into_iter()
    .map(|name| Subject::new(name, Fixture::load(name).bytes))
    .collect();
    for options in formats() {
        let name = format!("written with {options}");
        let options = options.chunk_size(60).final_padding(120);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for len in [0, 3, 50, 0, 0, 100, 1] {
            writer.write_record(&noise(len, 9)).unwrap();
        }
        writer.flush().unwrap();
        // These records are messages, which are split into fields in transposed chunks.
        for index in 0..3 {
            let inner = [varint_field(1, index * 1000), bytes_field(2, b"\x07text")].concat();
            let message = [bytes_field(1, &inner), group(2, &inner)].concat();
            writer.write_record(&message).unwrap();
        }
        subjects.push(Subject::new(name, writer.finish().unwrap()));
    }
    subjects
}

/// Returns files with block headers in the middle of data, in padding, and in the zeros that give
/// empty records their positions.
fn large_files() -> Vec<Subject> {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(30_000)
        .final_padding(1 << 16);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for len in [10, 20_000, 50_000, 10] {
        writer.write_record(&noise(len, 9)).unwrap();
    }
    let two_blocks = writer.finish().unwrap();
    let options = WriterOptions::new()
        .compression(Compression::zstd(1))
        .chunk_size(8 * 6000);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    writer
        .write_record_alone(&noise(63_000, 9), Compression::None)
        .unwrap();
    for _ in 0..6001 {
        writer.write_record(b"").unwrap();
    }
    vec![
        Subject::new("two blocks, padded", two_blocks),
        Subject::new("empty records", writer.finish().unwrap()),
        Subject::new(
            "transposed, uncompressed",
            Fixture::load("cpp_transpose_mixed_uncompressed.riegeli").bytes,
        ),
    ]
}

/// Returns all records in order or, after an error, the records before the damage and the error.
fn in_sequence(bytes: &[u8]) -> Result<Records, (Records, record_file::Error)> {
    in_sequence_on(bytes, 0)
}

fn in_sequence_on(bytes: &[u8], threads: u32) -> Result<Records, (Records, record_file::Error)> {
    let options = ReaderOptions::new().threads(threads);
    read_to_end(&mut RecordReader::new(bytes, options))
}

fn read_to_end<I: record_file::RecordInput>(
    reader: &mut RecordReader<I>,
) -> Result<Records, (Records, record_file::Error)> {
    let mut records = Vec::new();
    loop {
        match reader.read_record() {
            Ok(Some(record)) => {
                let record = record.to_vec();
                records.push((reader.last_position().unwrap(), record));
            }
            Ok(None) => return Ok(records),
            Err(error) => return Err((records, error)),
        }
    }
}

/// Checks every way to read the records, without recovery.
fn check_strict(bad: &[u8], subject: &Subject, what: &str) {
    let name = &subject.name;
    let mut streamed = RecordReader::from_read(bad, ReaderOptions::new());
    for result in [in_sequence(bad), read_to_end(&mut streamed)] {
        match result {
            Ok(records) => assert!(records == subject.records, "{name}, {what}"),
            Err((records, error)) => {
                assert!(subject.records.starts_with(&records), "{name}, {what}");
                assert!(
                    error.is_corrupt() || error.kind() == ErrorKind::Unsupported,
                    "{name}, {what}: {error}"
                );
                assert!(error.offset().is_some(), "{name}, {what}: {error}");
            }
        }
    }
    let Ok(file) = RecordFile::open(bad, ReaderOptions::new()) else {
        return;
    };
    let mut chunks = BTreeSet::new();
    for (position, record) in &subject.records {
        // Only some records of large chunks are checked.
        if subject.records.len() > 1000 && position.record_index() % 997 != 0 {
            continue;
        }
        if let Ok(read) = file.read_record(*position) {
            assert!(read == record[..], "{name}, {what}");
        }
        chunks.insert(position.chunk_begin());
    }
    for begin in chunks {
        if let Ok(chunk) = file.read_chunk(begin) {
            let expected = subject
                .records
                .iter()
                .filter(|(position, _)| position.chunk_begin() == begin)
                .map(|(_, record)| &record[..]);
            assert!(chunk.records().eq(expected), "{name}, {what}");
        }
    }
}

type Regions = Vec<(u64, u64)>;

/// Returns the records that recovery finds, and the regions that it skips.
fn recover_on(bad: &[u8], threads: u32) -> (Records, Regions) {
    let regions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&regions);
    let options = ReaderOptions::new().threads(threads);
    let mut reader = RecordReader::new(bad, options).on_damage(move |region| {
        seen.lock().unwrap().push((region.begin, region.end));
        true
    });
    let records = read_to_end(&mut reader).unwrap();
    let regions = regions.lock().unwrap().clone();
    (records, regions)
}

/// Checks that recovery finds some of the records, unchanged and at their positions, and that the
/// other records are in reported regions.
fn check_recovery(bad: &[u8], subject: &Subject, what: &str) {
    let (records, regions) = recover_on(bad, 0);
    let name = &subject.name;
    let mut reached = 0;
    for &(begin, end) in &regions {
        assert!(
            reached <= begin && begin < end,
            "{name}, {what}: {regions:?}"
        );
        reached = end;
    }
    assert!(reached <= bad.len() as u64, "{name}, {what}: {regions:?}");
    let mut kept = records.iter().peekable();
    for record in &subject.records {
        let at = record.0.chunk_begin().0;
        let lost = regions
            .iter()
            .any(|&(begin, end)| (begin..end).contains(&at));
        let beyond = at >= bad.len() as u64;
        let found = kept.next_if_eq(&record).is_some();
        assert_eq!(found, !lost && !beyond, "{name}, {what}: {:?}", record.0);
    }
    assert_eq!(kept.next(), None, "{name}, {what}");
}

#[test]
fn every_flip_is_found_or_does_no_harm() {
    for subject in small_files() {
        let mut bad = subject.bytes.clone();
        for at in 0..bad.len() {
            // Flips one bit of each byte, and in the smallest files every bit.
            let bits = if bad.len() < 700 {
                0..8
            } else {
                at % 8..at % 8 + 1
            };
            for bit in bits {
                bad[at] ^= 1 << bit;
                check_strict(&bad, &subject, &format!("bit {bit} of byte {at}"));
                bad[at] ^= 1 << bit;
            }
            bad[at] ^= 0xff;
            check_recovery(&bad, &subject, &format!("byte {at}"));
            bad[at] ^= 0xff;
        }
    }
}

#[test]
fn threads_find_the_same_damage() {
    for subject in small_files() {
        let size = subject.bytes.len();
        let mut bad = subject.bytes.clone();
        for at in (0..size).step_by(1 + size / 60) {
            bad[at] ^= 0x40;
            match (in_sequence(&bad), in_sequence_on(&bad, 3)) {
                (Ok(records), Ok(on_threads)) => assert!(records == on_threads),
                (Err((records, error)), Err((on_threads, other))) => {
                    assert!(records == on_threads, "{} {at}", subject.name);
                    assert_eq!(error.to_string(), other.to_string());
                }
                (serial, parallel) => panic!("{} {at}: {serial:?}, {parallel:?}", subject.name),
            }
            assert!(recover_on(&bad, 0) == recover_on(&bad, 3));
            bad[at] ^= 0x40;
        }
    }
}

#[test]
fn every_cut_is_found_unless_it_is_between_chunks() {
    for subject in small_files().iter().chain(&large_files()) {
        let step = if subject.bytes.len() > 20_000 { 509 } else { 1 };
        let cuts = (0..subject.bytes.len()).step_by(step);
        let edges = subject
            .ends
            .iter()
            .flat_map(|&end| [end.saturating_sub(1), end, end + 1])
            .map(|cut| usize::try_from(cut).unwrap())
            .filter(|&cut| cut <= subject.bytes.len());
        for cut in cuts.chain(edges) {
            check_cut(subject, cut);
        }
    }
}

fn check_cut(subject: &Subject, cut: usize) {
    let name = &subject.name;
    let bad = &subject.bytes[..cut];
    let whole = subject
        .records
        .iter()
        .filter(|(position, _)| {
            let begin = position.chunk_begin().0;
            let end = subject.ends.range(begin + 1..).next().unwrap();
            *end <= cut as u64
        })
        .count();
    let mut streamed = RecordReader::from_read(bad, ReaderOptions::new());
    for result in [in_sequence(bad), read_to_end(&mut streamed)] {
        let records = match result {
            Ok(records) => {
                assert!(subject.ends.contains(&(cut as u64)), "{name} cut at {cut}");
                records
            }
            Err((records, error)) => {
                assert!(!subject.ends.contains(&(cut as u64)), "{name} cut at {cut}");
                assert_eq!(error.kind(), ErrorKind::Truncated, "{name} cut at {cut}");
                // The error's offset is the beginning of the truncated chunk.
                let begin = subject.ends.range(..cut as u64).next_back().unwrap();
                assert_eq!(error.offset(), Some(*begin), "{name} cut at {cut}: {error}");
                records
            }
        };
        assert!(records == subject.records[..whole], "{name} cut at {cut}");
    }
    check_recovery(bad, subject, &format!("cut at {cut}"));
}

#[test]
fn flips_around_blocks_and_chunks_of_larger_files() {
    for subject in large_files() {
        let mut bad = subject.bytes.clone();
        let near = |at: usize| {
            let at = at as u64;
            let header = |begin: u64| (begin..begin + 41).contains(&(at + 1));
            at % 65_536 < 26
                || subject.ends.iter().any(|&end| header(end))
                || at.is_multiple_of(6007)
        };
        for at in (0..bad.len()).filter(|&at| near(at)) {
            bad[at] ^= 0x10;
            check_strict(&bad, &subject, &format!("byte {at}"));
            check_recovery(&bad, &subject, &format!("byte {at}"));
            bad[at] ^= 0x10;
        }
    }
}

#[test]
fn damage_in_a_chunk_costs_that_chunk_only() {
    for subject in small_files() {
        let file = RecordFile::open(&subject.bytes, ReaderOptions::new()).unwrap();
        for chunk in file.chunks().map(Result::unwrap) {
            if chunk.header.data_size == 0 || chunk.header.kind == ChunkType::Padding {
                continue;
            }
            let mut bad = subject.bytes.clone();
            bad[usize::try_from(chunk.begin().0).unwrap() + 40] ^= 1;
            let (begin, end) = (chunk.begin().0, chunk.end().0);
            let mut reader =
                RecordReader::new(&bad, ReaderOptions::new()).on_damage(move |region| {
                    assert_eq!((region.begin, region.end), (begin, end));
                    assert_eq!(region.error.kind(), ErrorKind::ChecksumMismatch);
                    true
                });
            let records = read_to_end(&mut reader).unwrap();
            let expected = subject
                .records
                .iter()
                .filter(|(position, _)| position.chunk_begin() != chunk.begin());
            assert!(records.iter().eq(expected), "{}", subject.name);
        }
    }
}

#[test]
fn nothing_but_an_error_or_the_same_metadata() {
    for name in [
        "cpp_meta_uncompressed.riegeli",
        "cpp_meta_zstd3_transpose.riegeli",
    ] {
        let Fixture { mut bytes, .. } = Fixture::load(name);
        let expected = RecordFile::open(&bytes, ReaderOptions::new())
            .and_then(|file| file.metadata())
            .unwrap();
        let read = |bytes: &[u8]| {
            let file = RecordFile::open(bytes, ReaderOptions::new())?;
            file.metadata()
        };
        let in_sequence =
            |bytes: &[u8]| RecordReader::new(bytes, ReaderOptions::new()).read_metadata();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                for result in [read(&bytes), in_sequence(&bytes)] {
                    match result {
                        Ok(metadata) => assert_eq!(metadata, expected, "{name} {at} {bit}"),
                        Err(error) => assert!(error.is_corrupt(), "{name} {at} {bit}: {error}"),
                    }
                }
                bytes[at] ^= 1 << bit;
            }
        }
        for cut in 65..bytes.len() {
            let cut = &bytes[..cut];
            for result in [read(cut), in_sequence(cut)] {
                match result {
                    Ok(metadata) => assert_eq!(metadata, expected),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Truncated, "{error}"),
                }
            }
        }
    }
}
