//! Tests of the positions of records, and of invalid positions.
use record_file::{
    ChunkOffset, Compression, ErrorKind, ReaderOptions, RecordFile, RecordWriter, WriterOptions,
};

use crate::support::{Fixture, noise, valid};

#[test]
fn every_number_is_a_record_or_an_error() {
    for name in [
        "rs_multi_none.riegeli",
        "rs_edge_+24.riegeli",
        "cpp_pad1000_flush.riegeli",
        "rs_zero_size_1000.riegeli",
        "rs_edge_-40.riegeli",
    ] {
        let fixture = Fixture::load(name);
        let file = fixture.open();
        let mut expected = fixture.records().into_iter().peekable();
        for numeric in 0..file.size() + 100 {
            let located = file.locate(numeric);
            match expected.next_if(|record| record.position.numeric() == numeric) {
                Some(record) => assert_eq!(located.unwrap(), record.position, "{name}"),
                None => assert_eq!(
                    located.unwrap_err().kind(),
                    ErrorKind::InvalidPosition,
                    "{name} {numeric}"
                ),
            }
        }
        assert_eq!(expected.next(), None);
    }
}

#[test]
fn all_records_of_all_files_are_located() {
    for fixture in valid() {
        let file = fixture.open();
        for record in fixture.records().iter().step_by(7) {
            assert_eq!(
                file.locate(record.position.numeric()).unwrap(),
                record.position,
                "{}",
                fixture.name
            );
            assert_eq!(
                file.stored(record.position).unwrap().chunk.begin(),
                record.position.chunk_begin()
            );
        }
    }
}

#[test]
fn unrelated_damage_is_not_seen() {
    let fixture = Fixture::load("rs_multi_none.riegeli");
    let records = fixture.records();
    let last = records.last().unwrap().position;
    let mut bytes = fixture.bytes.clone();
    bytes[200] ^= 1;
    bytes[4000] ^= 1;
    let file = RecordFile::open(bytes, ReaderOptions::new()).unwrap();
    assert_eq!(file.locate(last.numeric()).unwrap(), last);
    assert_eq!(file.last_record().unwrap(), Some(last));
    assert!(file.read_record(records[0].position).is_err());
    assert!(file.read_record(last).is_ok());
}

#[test]
fn wrong_positions_are_errors() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let position = writer.write_record_alone(b"x", Compression::None).unwrap();
    assert_eq!(writer.last_position(), Some(position));
    let bytes = writer.finish().unwrap();
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let begin = position.chunk_begin().0;
    for wrong in [begin + 1, begin - 1, 1, 24, file.size(), u64::MAX] {
        assert!(file.chunk_header_at(ChunkOffset(wrong)).is_err());
    }
    let beyond = record_file::RecordPosition::new(begin, 1);
    assert_eq!(
        file.read_record(beyond).unwrap_err().kind(),
        ErrorKind::InvalidPosition
    );
    assert_eq!(
        file.read_record(record_file::RecordPosition::new(0, 0))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidPosition
    );
}

#[test]
fn the_last_record_is_looked_for_past_padding_only() {
    let fixture = Fixture::load("rs_pad64k_zstd.riegeli");
    let last = fixture.records().last().unwrap().position;
    assert_eq!(fixture.open().last_record().unwrap(), Some(last));
    for bad in [&b"junk"[..], &noise(100, 1)] {
        let bytes = [&fixture.bytes[..], bad].concat();
        let file = RecordFile::open(bytes, ReaderOptions::new()).unwrap();
        assert!(file.last_record().unwrap_err().is_corrupt());
    }
    let cut = &fixture.bytes[..fixture.bytes.len() - 1];
    let file = RecordFile::open(cut, ReaderOptions::new()).unwrap();
    assert_eq!(file.last_record().unwrap_err().kind(), ErrorKind::Truncated);
    let empty = RecordFile::open(&b""[..], ReaderOptions::new()).unwrap();
    assert_eq!(empty.last_record().unwrap(), None);
    assert_eq!(empty.chunks().count(), 0);
    assert!(empty.locate(0).is_err());
}
