//! Tests of seeking in a file and searching it.
use std::cmp::Ordering;

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordFile, RecordPosition, RecordReader, RecordWriter,
    SearchGuide, SearchResult, WriterOptions,
};

use crate::support::{Fixture, sha256, valid};

#[test]
fn every_number_leads_to_its_record_or_the_next() {
    for name in [
        "cpp_pad1000_flush.riegeli",
        "rs_zero_size_1000.riegeli",
        "cpp_transpose_mixed_zstd3.riegeli",
        "rs_meta_none.riegeli",
    ] {
        let fixture = Fixture::load(name);
        let records = fixture.records();
        let mut reader = RecordReader::new(&fixture.bytes, ReaderOptions::new());
        for numeric in 0..=fixture.bytes.len() as u64 {
            reader.seek_numeric(numeric).unwrap();
            assert_eq!(reader.last_position(), None);
            let next = records
                .iter()
                .find(|record| record.position.numeric() >= numeric);
            let read = reader.read_record().unwrap().map(sha256);
            assert_eq!(
                read.as_ref(),
                next.map(|record| &record.sha256),
                "{name} {numeric}"
            );
            assert_eq!(
                reader.last_position(),
                next.map(|record| record.position),
                "{name} {numeric}"
            );
        }
        let beyond = reader
            .seek_numeric(fixture.bytes.len() as u64 + 1)
            .unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::InvalidPosition);
        // The reader still works.
        reader.seek_numeric(0).unwrap();
        assert!(reader.read_record().unwrap().is_some());
    }
}

#[test]
fn positions_seek_to_their_records_and_back_over_all() {
    for fixture in valid() {
        let name = &fixture.name;
        let records = fixture.records();
        if records.len() > 500 || fixture.sidecar["trailer_records"] != 0 {
            continue;
        }
        let mut reader = RecordReader::new(&fixture.bytes, ReaderOptions::new());
        for record in records.iter().rev().step_by(5) {
            reader.seek(record.position).unwrap();
            assert_eq!(reader.position(), record.position);
            assert_eq!(
                sha256(reader.read_record().unwrap().unwrap()),
                record.sha256,
                "{name}"
            );
        }
        // The reader goes back from the end to the beginning.
        reader.seek_numeric(fixture.bytes.len() as u64).unwrap();
        assert_eq!(reader.read_record().unwrap(), None);
        for record in records.iter().rev() {
            assert!(reader.seek_back().unwrap(), "{name}");
            assert_eq!(
                sha256(reader.read_record().unwrap().unwrap()),
                record.sha256,
                "{name}"
            );
            assert_eq!(reader.last_position(), Some(record.position), "{name}");
            assert!(reader.seek_back().unwrap());
        }
        assert!(!reader.seek_back().unwrap(), "{name}");
        assert!(!reader.seek_back().unwrap(), "{name}");
        let first = records.first().map(|record| record.sha256.clone());
        assert_eq!(reader.read_record().unwrap().map(sha256), first, "{name}");
    }
}

#[test]
fn an_index_beyond_the_chunk_is_its_end() {
    let fixture = Fixture::load("rs_multi_none.riegeli");
    let records = fixture.records();
    let mut reader = RecordReader::new(&fixture.bytes, ReaderOptions::new());
    reader.seek(RecordPosition::new(64, 1000)).unwrap();
    assert_eq!(reader.position(), RecordPosition::new(64, 5));
    assert_eq!(
        sha256(reader.read_record().unwrap().unwrap()),
        records[5].sha256
    );
    assert_eq!(
        reader
            .seek(RecordPosition::new(65537, 0))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidPosition
    );
}

fn numbers(numbers: impl IntoIterator<Item = u32>, chunk_size: u64) -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(chunk_size);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for number in numbers {
        writer.write_record(&number.to_be_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

fn value(record: &[u8]) -> u32 {
    u32::from_be_bytes(record.try_into().unwrap())
}

#[test]
fn search_finds_what_is_there_and_where_the_rest_would_be() {
    for count in [0, 1, 2, 3, 10, 1000] {
        for chunk_size in [1, 40, 1 << 20] {
            let bytes = numbers((0..count).map(|number| number * 2 + 1), chunk_size);
            let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
            for target in (0..=2 * count + 1).step_by(if count > 100 { 37 } else { 1 }) {
                let found = reader
                    .search(|record| value(record).cmp(&target).into())
                    .unwrap();
                let next = reader.read_record().unwrap().map(value);
                if target > 2 * count || count == 0 || target == 2 * count {
                    assert_eq!(
                        (found, next),
                        (SearchResult::Nothing, None),
                        "{count} {target}"
                    );
                } else if target % 2 == 1 {
                    assert_eq!((found, next), (SearchResult::Equal, Some(target)));
                } else {
                    assert_eq!((found, next), (SearchResult::Greater, Some(target + 1)));
                }
            }
        }
    }
}

#[test]
fn search_is_logarithmic_and_can_be_stopped() {
    let bytes = numbers(0..20_000, 40);
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    let mut calls = 0;
    let found = reader
        .search(|record| {
            calls += 1;
            value(record).cmp(&12_345).into()
        })
        .unwrap();
    assert_eq!(found, SearchResult::Equal);
    assert!(calls < 40, "{calls}");
    let mut calls = 0;
    let found = reader
        .search(|_| {
            calls += 1;
            if calls == 3 {
                SearchGuide::Stop
            } else {
                Ordering::Less.into()
            }
        })
        .unwrap();
    assert_eq!((found, calls), (SearchResult::Stopped, 3));
    assert!(reader.read_record().unwrap().is_some());
}

#[test]
fn search_in_a_file_cut_inside_a_block_header_ends_where_the_file_does() {
    let bytes = numbers(0..100_000, 1000);
    for end in [65_536, 65_537, 65_539, 65_559, 65_560, 65_561, 131_075] {
        let mut reader = RecordReader::new(&bytes[..end], ReaderOptions::new());
        let found = reader.search(|_| Ordering::Less.into()).unwrap();
        assert_eq!(found, SearchResult::Nothing, "{end}");
        assert_eq!(reader.read_record().unwrap(), None, "{end}");
        assert_eq!(
            reader
                .search(|record| value(record).cmp(&77).into())
                .unwrap(),
            SearchResult::Equal
        );
        assert_eq!(reader.read_record().unwrap().map(value), Some(77));
    }
}

#[test]
fn search_passes_over_what_it_cannot_compare() {
    let clean = numbers(0..3000, 100);
    let mut damaged = clean.clone();
    let file = RecordFile::open(&clean, ReaderOptions::new()).unwrap();
    for chunk in file.chunks().skip(50).step_by(3).take(100) {
        let end = usize::try_from(chunk.unwrap().end().0).unwrap();
        damaged[end - 1] ^= 1;
    }
    for bytes in [clean, damaged] {
        for target in (0..3000).step_by(97) {
            let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
            let found = reader
                .search(|record| match value(record) {
                    500..1500 => SearchGuide::Unordered,
                    number => number.cmp(&target).into(),
                })
                .unwrap();
            match (found, reader.read_record().map(|record| record.map(value))) {
                (SearchResult::Equal, Ok(Some(number))) => assert_eq!(number, target),
                (SearchResult::Greater, Ok(Some(number))) => assert!(number > target),
                (found, next) => panic!("{target}: {found:?} {next:?}"),
            }
        }
    }
}

#[test]
fn search_does_not_pass_over_a_chunk_that_is_too_large() {
    let bytes = numbers(0..100, 1 << 20);
    for threads in [0, 2] {
        let options = ReaderOptions::new().threads(threads).max_chunk_memory(300);
        let mut reader = RecordReader::new(&bytes, options);
        for target in [0, 77, 100] {
            let error = reader
                .search(|record| value(record).cmp(&target).into())
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        }
    }
}
