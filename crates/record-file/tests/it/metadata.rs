//! Tests of the metadata of files.
use std::io::{self, Cursor};
use std::sync::atomic::{AtomicU64, Ordering};

use record_file::{
    Chunk, ChunkType, Compression, ErrorKind, ReadAt, ReaderOptions, RecordFile, RecordInput,
    RecordReader, RecordWriter, RecordsMetadata, WriterOptions,
};

use crate::support::{Fixture, noise};

fn example() -> RecordsMetadata {
    RecordsMetadata {
        file_comment: Some("measured on a Tuesday".into()),
        record_type_name: Some("acme.Measurement".into()),
        file_descriptors: vec![b"\x0a\x06a.proto".to_vec(), Vec::new(), noise(3000, 1)],
        record_writer_options: Some("transpose".into()),
        num_records: Some(-1),
        // The unknown fields are extension 1000 with the varint 150, and a group with a field.
        unknown: b"\xc0\x3e\x96\x01\xc3\x3e\x0a\x01a\xc4\x3e".to_vec(),
    }
}

fn write(options: WriterOptions, records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn files_with_metadata_come_out_byte_by_byte() {
    for name in ["cpp_meta_uncompressed.riegeli", "rs_meta_none.riegeli"] {
        let fixture = Fixture::load(name);
        let file = fixture.open();
        let options = WriterOptions::new()
            .compression(Compression::None)
            .chunk_size(1 << 20)
            .serialized_metadata(file.metadata().unwrap().unwrap());
        let decoded: Vec<_> = file
            .chunks()
            .skip(2)
            .map(|chunk| file.read_chunk(chunk.unwrap().begin()).unwrap())
            .collect();
        let records: Vec<_> = decoded.iter().flat_map(|chunk| chunk.records()).collect();
        assert!(write(options, &records) == fixture.bytes, "{name}");
    }
}

#[test]
fn metadata_is_read_back_whatever_compresses_it() {
    for compression in [
        Compression::None,
        Compression::ZSTD,
        Compression::BROTLI,
        Compression::SNAPPY,
    ] {
        for transpose in [false, true] {
            let options = WriterOptions::new()
                .compression(compression)
                .transpose(transpose)
                .metadata(&example());
            let written = write(options, &[b"a record"]);
            let file = RecordFile::open(&written, ReaderOptions::new()).unwrap();
            let serialized = file.metadata().unwrap().unwrap();
            assert_eq!(RecordsMetadata::parse(&serialized).unwrap(), example());
        }
    }
}

#[test]
fn metadata_is_no_record() {
    let written = write(WriterOptions::new().metadata(&example()), &[b"a", b"b"]);
    let file = RecordFile::open(&written, ReaderOptions::new()).unwrap();
    let kinds: Vec<_> = file
        .chunks()
        .map(|chunk| {
            let header = chunk.unwrap().header;
            (header.kind, header.num_records)
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (ChunkType::Signature, 0),
            (ChunkType::Metadata, 0),
            (ChunkType::Simple, 2)
        ]
    );
    let mut reader = RecordReader::new(&written[..], ReaderOptions::new());
    assert_eq!(reader.read_record().unwrap(), Some(&b"a"[..]));
    assert_eq!(reader.read_record().unwrap(), Some(&b"b"[..]));
    assert_eq!(reader.read_record().unwrap(), None);
}

#[test]
fn a_file_without_metadata_has_none_and_one_with_an_empty_message_has_that() {
    let plain = write(WriterOptions::new(), &[b"a"]);
    let file = RecordFile::open(&plain, ReaderOptions::new()).unwrap();
    assert_eq!(file.metadata().unwrap(), None);

    let empty = RecordsMetadata::default();
    let written = write(WriterOptions::new().metadata(&empty), &[b"a"]);
    let file = RecordFile::open(&written, ReaderOptions::new()).unwrap();
    assert_eq!(file.metadata().unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(RecordsMetadata::parse(b"").unwrap(), empty);
}

#[test]
fn bytes_that_are_no_message_are_metadata_too() {
    let options = WriterOptions::new().serialized_metadata(b"\xff\xff no message".as_slice());
    let written = write(options, &[]);
    let file = RecordFile::open(&written, ReaderOptions::new()).unwrap();
    let metadata = file.metadata().unwrap().unwrap();
    assert_eq!(metadata, b"\xff\xff no message"[..]);
    assert!(RecordsMetadata::parse(&metadata).is_err());
}

#[test]
fn fields_that_are_not_known_are_kept_as_they_were() {
    let kept: [&[u8]; 5] = [
        // These are fields 1 and 5 with wrong types, an extension, a group in a group, fixed-length
        // fields, and an overlong varint.
        b"\x08\x01\x2a\x02hi",
        b"\xc2\x3e\x03abc",
        b"\x33\x3b\x3c\x34",
        b"\x31\x01\x02\x03\x04\x05\x06\x07\x08\x35\x01\x02\x03\x04",
        b"\x38\x81\x00",
    ];
    for unknown in kept {
        let mut message = b"\x0a\x01x".to_vec();
        message.extend_from_slice(unknown);
        message.extend_from_slice(b"\x28\x07\x0a\x01y");
        let metadata = RecordsMetadata::parse(&message).unwrap();
        assert_eq!(metadata.file_comment.as_deref(), Some("y"));
        assert_eq!(metadata.num_records, Some(7));
        assert_eq!(metadata.unknown, unknown);
        let again = RecordsMetadata::parse(&metadata.serialize()).unwrap();
        assert_eq!(again, metadata);
    }
}

#[test]
fn what_is_no_message_is_an_error() {
    let cases: [&[u8]; 10] = [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\x01\xff",
        b"\x00\x01",
        b"\x0e",
        b"\x33",
        b"\x33\x3c",
        b"\x34",
        b"\x31\x00",
        b"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    ];
    for case in cases {
        let error = RecordsMetadata::parse(case).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{case:?}");
        assert!(error.to_string().contains("metadata"), "{error}");
    }
}

#[test]
fn metadata_is_written_at_the_beginning_of_a_file_only() {
    let options = WriterOptions::new().metadata(&example());
    let mut file = Vec::new();
    for record in [b"a", b"b"] {
        let mut writer = RecordWriter::append(Cursor::new(file), options.clone()).unwrap();
        writer.write_record(record).unwrap();
        file = writer.finish().unwrap().into_inner();
    }
    let opened = RecordFile::open(&file, ReaderOptions::new()).unwrap();
    let is_metadata = |chunk: &Chunk| chunk.header.kind == ChunkType::Metadata;
    let chunks: Vec<_> = opened.chunks().map(|chunk| chunk.unwrap()).collect();
    assert_eq!(chunks.iter().filter(|chunk| is_metadata(chunk)).count(), 1);

    let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
    let metadata = reader.read_metadata().unwrap().unwrap();
    assert_eq!(RecordsMetadata::parse(&metadata).unwrap(), example());
    assert_eq!(reader.read_record().unwrap(), Some(&b"a"[..]));
    assert_eq!(reader.read_record().unwrap(), Some(&b"b"[..]));
    let error = reader.read_metadata().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPosition);
}

#[test]
fn metadata_that_can_not_be_read_is_the_same_error_again() {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .serialized_metadata(noise(100_000, 1));
    let good = write(options, &[b"a record"]);
    let mut bad = good.clone();
    bad[64 + 50_000] ^= 1;
    let whole = ReaderOptions::new();
    let small = whole.max_chunk_memory(1000);
    // The stored data is within the limit, but more than a stream keeps.
    let mixed = [noise(600, 1), vec![7; 100_000]].concat();
    let mixed = WriterOptions::new().serialized_metadata(mixed);
    let shrunk = write(mixed, &[b"a record"]);
    assert!(shrunk.len() < 1000);
    for (file, options, kind) in [
        (&shrunk, small, ErrorKind::LimitExceeded),
        (&bad, whole, ErrorKind::ChecksumMismatch),
        (&good, small, ErrorKind::LimitExceeded),
    ] {
        fails_twice(RecordReader::new(&file[..], options), kind);
        fails_twice(RecordReader::from_read(&file[..], options), kind);
    }
}

/// Checks that reading the metadata fails in the same way twice, and that the records can still be
/// read unless the metadata is damaged.
fn fails_twice<I: RecordInput>(mut reader: RecordReader<I>, kind: ErrorKind) {
    let errors = [(); 2].map(|()| reader.read_metadata().unwrap_err());
    assert_eq!(errors[0].kind(), kind);
    assert_eq!(errors[0].to_string(), errors[1].to_string());
    assert_eq!(reader.position().numeric(), 0);
    match reader.read_record() {
        Ok(record) => assert_eq!(
            (record, kind),
            (Some(&b"a record"[..]), ErrorKind::LimitExceeded)
        ),
        Err(error) => {
            assert_eq!((error.kind(), error.offset()), (kind, errors[0].offset()));
            assert!(reader.skip_record().is_err());
        }
    }
}

#[test]
fn metadata_is_read_after_a_failure_that_passes() {
    /// A source in which one call fails.
    struct Failing {
        bytes: Vec<u8>,
        call: AtomicU64,
        failing: u64,
    }
    impl ReadAt for Failing {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            if self.call.fetch_add(1, Ordering::Relaxed) == self.failing {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.bytes.read_at(offset, buf)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
    }
    let metadata = noise(400_000, 1);
    let options = WriterOptions::new().serialized_metadata(metadata.clone());
    let bytes = write(options, &[b"a record"]);
    let mut failures = 0;
    for failing in 0..10 {
        let source = Failing {
            bytes: bytes.clone(),
            call: AtomicU64::new(0),
            failing,
        };
        let mut reader = RecordReader::new(source, ReaderOptions::new());
        let mut read = reader.read_metadata();
        if let Err(error) = &read {
            assert_eq!(error.kind(), ErrorKind::Io);
            failures += 1;
            read = reader.read_metadata();
        }
        assert!(read.unwrap().as_deref() == Some(&metadata[..]), "{failing}");
        assert_eq!(reader.read_record().unwrap(), Some(&b"a record"[..]));
    }
    assert!(failures > 0);
}

#[test]
fn the_first_record_stands_behind_the_metadata() {
    let options = WriterOptions::new().metadata(&example());
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let begin = writer.position();
    assert!(begin.chunk_begin().0 > 3000, "{begin}");
    writer.write_record(b"a").unwrap();
    assert_eq!(writer.last_position(), Some(begin));
    let file = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
    assert_eq!(file.read_record(begin).unwrap(), b"a"[..]);
}

#[test]
fn a_reader_is_an_iterator_and_knows_its_count_where_the_file_does() {
    let metadata = RecordsMetadata {
        num_records: Some(3),
        ..RecordsMetadata::default()
    };
    let says = WriterOptions::new().serialized_metadata(metadata.serialize());
    for (options, count) in [(says, Some(3)), (WriterOptions::new(), None)] {
        let file = write(options, &[b"a", b"b", b"c"]);
        let mut reader = RecordReader::new(file, ReaderOptions::new());
        assert_eq!(reader.record_count().unwrap(), count);
        let first = (&mut reader).into_iter().next().unwrap().unwrap();
        assert_eq!(first, "a");
        let rest: Vec<_> = reader.into_iter().map(Result::unwrap).collect();
        assert_eq!(rest, ["b", "c"]);
    }
}
