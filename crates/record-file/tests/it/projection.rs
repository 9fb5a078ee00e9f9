//! Tests of reading only some fields of records in transposed chunks.
use proptest::prelude::*;
use record_file::{
    Compression, FieldProjection, ReaderOptions, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::frame::mend;
use crate::support::message::{
    Wanted, bytes_field, group, messages, serialize, varint_field, wanted,
};

fn write<R: AsRef<[u8]>>(records: &[R], options: WriterOptions) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), options.transpose(true)).unwrap();
    for record in records {
        writer.write_record(record.as_ref()).unwrap();
    }
    writer.finish().unwrap()
}

fn read(file: &[u8], projection: FieldProjection) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    reader.set_field_projection(projection);
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        records.push(record.to_vec());
    }
    records
}

/// Returns a single record as read through the projection.
fn project(record: &[u8], projection: FieldProjection) -> Vec<u8> {
    let file = write(&[record], WriterOptions::new());
    read(&file, projection).remove(0)
}

fn projection(wanted: &Wanted) -> FieldProjection {
    let none = FieldProjection::none();
    wanted.paths.iter().fold(none, |projection, (path, whole)| {
        if *whole {
            projection.field(path)
        } else {
            projection.existence(path)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn what_is_read_is_what_was_wanted(messages in messages(), wanted in wanted(), bucket_fraction in 0.0..=1.0) {
        let records: Vec<_> = messages.iter().map(serialize).collect();
        let options = WriterOptions::new()
            .compression(Compression::zstd(1))
            .chunk_size(4000)
            .bucket_fraction(bucket_fraction);
        let file = write(&records, options);
        let expected: Vec<_> = messages.iter().map(|message| wanted.serialize(message)).collect();
        prop_assert!(read(&file, projection(&wanted)) == expected);
        prop_assert!(read(&file, FieldProjection::all()) == records);
    }
}

#[test]
fn nothing_wanted_leaves_empty_records() {
    let record = [varint_field(1, 7), bytes_field(2, b"\x07text")].concat();
    assert_eq!(project(&record, FieldProjection::none()), b"");
}

#[test]
fn a_field_that_is_only_there_reads_as_zero_or_empty() {
    let inner = [varint_field(1, 300), varint_field(2, 5)].concat();
    let record = [
        varint_field(1, 300),
        varint_field(1, 2),
        b"\x15\x01\x02\x03\x04".to_vec(),
        b"\x19\x01\x02\x03\x04\x05\x06\x07\x08".to_vec(),
        bytes_field(4, b"\x07text"),
        bytes_field(5, &inner),
        group(6, &inner),
        varint_field(7, 1),
    ];
    let projection = (1..=6).fold(FieldProjection::none(), |projection, field| {
        projection.existence(&[field])
    });
    let expected = [
        varint_field(1, 0),
        varint_field(1, 0),
        b"\x15\0\0\0\0".to_vec(),
        b"\x19\0\0\0\0\0\0\0\0".to_vec(),
        bytes_field(4, b""),
        bytes_field(5, b""),
        group(6, b""),
    ];
    assert_eq!(project(&record.concat(), projection), expected.concat());
}

#[test]
fn fields_of_messages_in_messages_and_groups_are_wanted_by_path() {
    let inner = [varint_field(1, 300), varint_field(2, 5)].concat();
    let record = [bytes_field(5, &inner), group(5, &inner), inner.clone()].concat();
    let of_both = FieldProjection::none().field(&[5, 2]);
    let expected = [
        bytes_field(5, &varint_field(2, 5)),
        group(5, &varint_field(2, 5)),
    ];
    assert_eq!(project(&record, of_both), expected.concat());
    let of_record = FieldProjection::none().field(&[2]);
    assert_eq!(project(&record, of_record), varint_field(2, 5));
}

#[test]
fn records_that_are_no_messages_come_whole() {
    for record in [&b"\xff"[..], b"\x08\x80\x00", b"no message"] {
        assert_eq!(project(record, FieldProjection::none()), record);
    }
}

#[test]
fn records_of_simple_chunks_come_whole() {
    let record = varint_field(1, 7);
    let mut writer = RecordWriter::with_defaults(Vec::new());
    writer.write_record(&record).unwrap();
    let file = writer.finish().unwrap();
    assert_eq!(read(&file, FieldProjection::none()), [record]);
}

#[test]
fn another_projection_holds_from_the_next_record_on() {
    let record = [varint_field(1, 7), varint_field(2, 8)].concat();
    let file = write(&[&record; 6], WriterOptions::new().chunk_size(30));
    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    for (projection, expected) in [
        (FieldProjection::all(), record.clone()),
        (FieldProjection::none(), Vec::new()),
        (FieldProjection::none().field(&[2]), varint_field(2, 8)),
        (FieldProjection::none().field(&[1]), varint_field(1, 7)),
        (FieldProjection::none().existence(&[1]), varint_field(1, 0)),
        (FieldProjection::all(), record.clone()),
    ] {
        reader.set_field_projection(projection);
        assert_eq!(reader.read_record().unwrap(), Some(&expected[..]));
    }
    assert_eq!(reader.read_record().unwrap(), None);
}

#[test]
fn buckets_of_fields_that_are_not_wanted_are_not_even_looked_at() {
    // Field 2 is incompressible, and large enough for a separate bucket.
    let noise: Vec<_> = (0..50)
        .map(|seed| [&b"\x07"[..], &crate::support::noise(200, seed + 1)].concat())
        .collect();
    let records: Vec<_> = noise
        .iter()
        .map(|noise| [bytes_field(1, b"\x07text"), bytes_field(2, noise)].concat())
        .collect();
    let options = WriterOptions::new()
        .compression(Compression::ZSTD)
        .bucket_fraction(0.0);
    let mut file = write(&records, options);
    // The frame of field 2's bucket is broken, and the chunk is hashed again.
    let magic = b"\x28\xb5\x2f\xfd";
    let frames: Vec<_> = (0..file.len())
        .filter(|&at| file[at..].starts_with(magic))
        .collect();
    let largest = frames.windows(2).max_by_key(|pair| pair[1] - pair[0]);
    file[largest.unwrap()[0]] ^= 1;
    mend(&mut file);

    let wanted = read(&file, FieldProjection::none().field(&[1]));
    assert!(
        wanted
            .iter()
            .all(|record| *record == bytes_field(1, b"\x07text"))
    );
    assert_eq!(wanted.len(), 50);
    let mut whole = RecordReader::new(&file[..], ReaderOptions::new());
    assert!(whole.read_record().unwrap_err().is_corrupt());
}

#[test]
fn a_reader_can_go_back_to_the_last_record_with_another_projection() {
    let records = [b"\x08\x07\x12\x01a", b"\x08\x09\x12\x01b"];
    for threads in [0, 2] {
        let file = write(&records, WriterOptions::new());
        let mut reader = RecordReader::new(file, ReaderOptions::new().threads(threads));
        for record in records {
            assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
        }
        reader.set_field_projection(FieldProjection::none().field(&[1]));
        assert!(reader.seek_back().unwrap());
        assert_eq!(reader.read_record().unwrap(), Some(&b"\x08\x09"[..]));
        assert_eq!(reader.read_record().unwrap(), None);
    }
}
