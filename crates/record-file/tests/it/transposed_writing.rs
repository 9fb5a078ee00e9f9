//! Tests that transposed chunks are identical to those of other writers, and are read back
//! unchanged.
use proptest::prelude::*;
use record_file::{
    Compression, FieldProjection, ReaderOptions, RecordFile, RecordReader, RecordWriter,
    WriterOptions,
};

use crate::support::message::{bytes_field, group, messages, serialize, tag, varint_field};
use crate::support::{Fixture, noise, valid};

/// Returns all records in a file.
fn records(file: &RecordFile<&[u8]>) -> Vec<Vec<u8>> {
    file.chunks()
        .map(|chunk| chunk.unwrap())
        .filter(|chunk| chunk.header.num_records > 0)
        .flat_map(|chunk| {
            let decoded = file.read_chunk(chunk.begin()).unwrap();
            decoded.records().map(<[u8]>::to_vec).collect::<Vec<_>>()
        })
        .collect()
}

fn write<R: AsRef<[u8]>>(records: &[R], options: &WriterOptions) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), options.clone().transpose(true)).unwrap();
    for record in records {
        writer.write_record(record.as_ref()).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_message_of_very_many_fields_is_stored_in_one_piece() {
    // The first record is a message with more than 4 Mi fields. The second record contains the same
    // message as a nested message.
    let fields = varint_field(1, 1).repeat(5 << 20);
    let outer = [varint_field(2, 2), bytes_field(3, &fields)].concat();
    let records = [fields, outer];
    let written = write(&records, &WriterOptions::new());
    let file = RecordFile::open(&written[..], ReaderOptions::new()).unwrap();
    assert!(self::records(&file) == records);
}

fn rewrite(fixture: &Fixture, options: &WriterOptions) -> Vec<u8> {
    let file = fixture.open();
    let mut options = options.clone();
    if let Some(metadata) = file.metadata().unwrap() {
        options = options.serialized_metadata(metadata);
    }
    write(&records(&file), &options)
}

#[test]
fn transposed_files_come_out_byte_by_byte() {
    let plain = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(1 << 20);
    let brotli = WriterOptions::new().compression(Compression::BROTLI);
    let mut checked = 0;
    for fixture in valid() {
        let options = match fixture.name.as_str() {
            "cpp_transpose_proto_uncompressed.riegeli"
            | "rs_transpose_proto_none.riegeli"
            | "rs_transpose_empty_records.riegeli" => plain.clone(),
            "cpp_transpose_mixed_uncompressed.riegeli" | "rs_transpose_mixed_none.riegeli" => {
                plain.clone().chunk_size(4096)
            }
            "cpp_transpose_proto_brotli6.riegeli" | "rs_transpose_proto_brotli.riegeli" => {
                brotli.clone()
            }
            "rs_transpose_mixed_brotli.riegeli" => brotli.clone().chunk_size(4096),
            _ => continue,
        };
        let written = rewrite(&fixture, &options);
        assert!(
            written == fixture.bytes,
            "{}: {} bytes, not {}",
            fixture.name,
            written.len(),
            fixture.bytes.len()
        );
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn transposed_files_of_every_compression_are_read_back() {
    let mut checked = 0;
    for fixture in valid().iter().filter(|fixture| fixture.has_transposed()) {
        let expected = records(&fixture.open());
        for compression in [
            Compression::None,
            Compression::ZSTD,
            Compression::brotli(3),
            Compression::SNAPPY,
        ] {
            for (chunk_size, bucket_fraction) in [(1, 1.0), (1000, 0.5), (1 << 20, 0.0)] {
                let options = WriterOptions::new()
                    .compression(compression)
                    .chunk_size(chunk_size)
                    .bucket_fraction(bucket_fraction);
                let written = write(&expected, &options);
                let file = RecordFile::open(&written[..], ReaderOptions::new()).unwrap();
                assert!(records(&file) == expected, "{} {options}", fixture.name);
                checked += 1;
            }
        }
    }
    assert!(checked >= 300, "{checked}");
}

fn plain() -> WriterOptions {
    WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(1 << 20)
}

/// Writes records in several ways, and reads them back.
fn check<R: AsRef<[u8]>>(written: &[R]) {
    for options in [
        plain(),
        plain().chunk_size(1),
        WriterOptions::new()
            .compression(Compression::zstd(1))
            .bucket_fraction(0.01),
    ] {
        let file = write(written, &options);
        let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
        for (index, record) in written.iter().enumerate() {
            let read = reader.read_record().unwrap().unwrap();
            assert!(record.as_ref() == read, "record {index}, {options}");
        }
        assert_eq!(reader.read_record().unwrap(), None);
    }
}

/// Returns true if a record is split into fields. Such a record is empty if it is read without any
/// fields.
fn is_taken_apart(record: &[u8]) -> bool {
    let file = write(&[record], &WriterOptions::new());
    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    assert_eq!(reader.read_record().unwrap(), Some(record));
    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    reader.set_field_projection(FieldProjection::none());
    reader.read_record().unwrap() == Some(&b""[..])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn any_messages_are_read_back(messages in messages()) {
        check(&messages.iter().map(serialize).collect::<Vec<_>>());
    }

    #[test]
    fn messages_with_any_byte_changed_are_read_back(
        messages in messages(),
        at in any::<prop::sample::Index>(),
        changed in any::<u8>(),
    ) {
        let mut records: Vec<_> = messages.iter().map(serialize).collect();
        for record in records.iter_mut().filter(|record| !record.is_empty()) {
            let at = at.index(record.len());
            record[at] = changed;
        }
        check(&records);
    }
}

#[test]
fn varints_of_every_length_are_read_back() {
    let values = (0..=127).chain((7..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]));
    let records: Vec<_> = values
        .chain([u64::MAX])
        .map(|value| varint_field(1, value))
        .collect();
    assert_eq!(records.last().map(Vec::len), Some(11));
    check(&records);
}

#[test]
fn values_at_the_beginning_of_a_record_are_read_back() {
    // No bytes precede the values, so none can be moved together with them.
    let records: Vec<_> = (0..130)
        .flat_map(|len| {
            let text = [&b"\x07"[..], &noise(len, 1)].concat();
            [bytes_field(1, &text), bytes_field(1 << 28, &text)]
        })
        .collect();
    check(&records);
    for record in &records {
        check(&[record.as_slice()]);
    }
}

#[test]
fn empty_records_values_and_messages_are_read_back() {
    let records = [
        Vec::new(),
        bytes_field(1, b""),
        bytes_field(1, &bytes_field(2, b"")),
        group(1, b""),
        Vec::new(),
        group(1, &group(1, b"")),
    ];
    check(&records);
    assert!(records.iter().all(|record| is_taken_apart(record)));
}

#[test]
fn messages_and_groups_of_any_depth_are_read_back() {
    let mut records = vec![varint_field(1, 300)];
    let mut groups = vec![varint_field(1, 300)];
    for depth in 0..250 {
        let inner = &records[depth];
        records.push(match depth % 5 {
            0 => group(2, inner),
            _ => bytes_field(3, &[&inner[..], &varint_field(1, 4)].concat()),
        });
        groups.push(group(2, &groups[depth]));
    }
    check(&records);
    check(&groups);
    assert!(
        records
            .iter()
            .chain(&groups)
            .all(|record| is_taken_apart(record))
    );
}

#[test]
fn what_a_message_would_not_be_serialized_to_is_no_message() {
    let mut long_varint = varint_field(1, u64::MAX);
    *long_varint.last_mut().unwrap() = 2;
    let mut field_zero = Vec::new();
    tag(&mut field_zero, 0, 0);
    field_zero.push(1);
    let cases: [(&str, &[u8]); 13] = [
        ("a varint with a byte too many", b"\x08\x80\x00"),
        ("a tag with a byte too many", b"\x88\x00\x01"),
        ("a length with a byte too many", b"\x0a\x81\x00a"),
        ("a varint of 65 bits", &long_varint),
        ("a tag of 33 bits", b"\x88\x80\x80\x80\x10\x01"),
        ("field 0", &field_zero),
        ("type 6 on the wire", b"\x0e"),
        ("type 7 on the wire", b"\x0f"),
        ("a group that doesn't end", b"\x0b"),
        ("a group that doesn't begin", b"\x0c"),
        ("a group that ends as another", b"\x0b\x14"),
        ("bytes cut short", b"\x0a\x02a"),
        ("a number cut short", b"\x0d\x01\x02\x03"),
    ];
    for (what, record) in cases {
        assert!(!is_taken_apart(record), "{what}");
        // As the value of a field, the record is stored as bytes.
        let field = bytes_field(1, record);
        assert!(is_taken_apart(&field), "{what}");
        check(&[record, &field, b"", record]);
    }
}

#[test]
fn a_group_around_a_message_does_not_end_in_it() {
    let record = [&b"\x0b"[..], &bytes_field(2, b"\x0c"), b"\x0c"].concat();
    assert!(is_taken_apart(&record));
    check(&[record]);
}

#[test]
fn equal_records_take_next_to_no_transitions() {
    let record = [
        varint_field(1, 1),
        bytes_field(2, &varint_field(1, 0)),
        varint_field(3, 2),
    ]
    .concat();
    let records = vec![record.as_slice(); 10_000];
    check(&records);
    let file = write(&records, &plain());
    // No value needs a buffer, and each state except one leads to only one other state, so a record
    // takes a quarter of a byte.
    let padding = 10_000;
    assert!(file.len() < 64 + 200 + padding, "{}", file.len());
}

#[test]
fn records_of_thousands_of_fields_in_any_order_are_read_back() {
    for (fields, records, per_record) in [
        (64, 3000, 5),
        (65, 3000, 5),
        (200, 2000, 20),
        (5000, 300, 60),
    ] {
        let mut bytes = noise(records * per_record * 4, fields).into_iter();
        let mut number = || {
            let four = [(); 4].map(|()| bytes.next().unwrap_or(0));
            u64::from(u32::from_le_bytes(four))
        };
        let records: Vec<_> = (0..records)
            .map(|_| {
                let field = |_| {
                    let field = u32::try_from(number() % fields).unwrap() + 1;
                    varint_field(field, 200)
                };
                (0..per_record).flat_map(field).collect::<Vec<u8>>()
            })
            .collect();
        let file = write(&records, &plain());
        let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
        for record in &records {
            assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
        }
        assert_eq!(reader.read_record().unwrap(), None);
    }
}

#[test]
fn records_that_are_larger_than_a_chunk_are_read_back_taken_apart() {
    let text = [&b"\x07"[..], &noise(200_000, 1)].concat();
    let record = [varint_field(1, 1), bytes_field(2, &text)].concat();
    check(&[&record[..], b"", &record, &noise(300_000, 2), &record]);
    let file = write(&[&record], &plain().chunk_size(1000));
    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    reader.set_field_projection(FieldProjection::none().field(&[1]));
    assert_eq!(reader.read_record().unwrap(), Some(&record[..2]));
}

#[test]
fn a_record_in_slices_is_the_same_file() {
    let record = [varint_field(1, 300), bytes_field(2, b"\x07text")].concat();
    for chunk_size in [1, 1 << 20] {
        let options = plain().chunk_size(chunk_size).transpose(true);
        let mut writer = RecordWriter::new(Vec::new(), options.clone()).unwrap();
        let (front, back) = record.split_at(2);
        writer.write_record_slices(&[front, b"", back]).unwrap();
        assert!(writer.finish().unwrap() == write(&[&record], &options));
    }
}

#[test]
fn smaller_buckets_make_more_of_them() {
    let records: Vec<_> = (0..200u64)
        .map(|seed| {
            let field = |field| varint_field(field, seed * 1000 + 128);
            (1..20).flat_map(field).collect::<Vec<u8>>()
        })
        .collect();
    let frames = |fraction: f64| {
        let options = WriterOptions::new()
            .compression(Compression::ZSTD)
            .chunk_size(64 << 10)
            .bucket_fraction(fraction);
        let file = write(&records, &options);
        let magic = b"\x28\xb5\x2f\xfd";
        file.windows(4).filter(|window| window == magic).count()
    };
    // The header and the transitions are also compressed.
    assert_eq!(frames(1.0), 3);
    assert_eq!(frames(0.0), 19 + 2);
    assert!((4..21).contains(&frames(0.05)));
}
