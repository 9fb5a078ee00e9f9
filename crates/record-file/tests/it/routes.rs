//! Tests that writing one record in every possible way produces the same file.
use std::fs::{File, OpenOptions};
use std::io::{self, Cursor};

use record_file::{
    Compression, EncodedRecord, Error, ErrorKind, ReaderOptions, RecordFile, RecordReader,
    RecordWriter, WriterOptions,
};

use crate::support::io::io_kind;
use crate::support::noise;

fn compressions() -> Vec<Compression> {
    vec![
        Compression::None,
        Compression::zstd(-5),
        Compression::zstd(1),
        Compression::zstd(3),
        Compression::zstd(6),
        Compression::Zstd {
            level: 3,
            window_log: Some(10),
        },
        Compression::brotli(0),
        Compression::brotli(1),
        Compression::brotli(2),
        Compression::brotli(5),
        Compression::SNAPPY,
    ]
}

/// Returns bytes whose statistics change often, so that compressors search for block boundaries.
fn changing(len: usize) -> Vec<u8> {
    let noise = noise(len, 5);
    let mut bytes = Vec::with_capacity(len);
    for (index, part) in noise.chunks(50_001).enumerate() {
        match index % 3 {
            0 => bytes.extend_from_slice(part),
            1 => bytes.extend(part.iter().map(|byte| byte % 7)),
            _ => bytes.extend_from_within(..part.len()),
        }
    }
    bytes.resize(len, 1);
    bytes
}

/// Returns records with lengths near the boundaries of blocks and of compressors' fragments, and
/// beyond the windows of some compressors.
fn records() -> Vec<Vec<u8>> {
    [
        0,
        1,
        1 << 16,
        (1 << 17) - 1,
        1 << 17,
        (1 << 17) + 1,
        1 << 18,
        1 << 20,
        (1 << 20) + 70_000,
        2_777_777,
    ]
    .map(changing)
    .into()
}

/// Returns several ways to divide a record into parts.
fn cuts(record: &[u8]) -> Vec<Vec<&[u8]>> {
    let (front, back) = record.split_at(record.len() / 3);
    let mut cuts = vec![vec![record], vec![&[], front, &[], back, &[]]];
    for most in [1 << 17, 70_001] {
        cuts.push(record.chunks(most).collect());
    }
    // The last part begins where zstd's input buffer at level 1 is full.
    let at = record.len().min((1 << 19) + (1 << 17));
    cuts.push(vec![&record[..at], &record[at..]]);
    cuts
}

type Writer<'a> = RecordWriter<Cursor<&'a mut Vec<u8>>>;
/// A way to write a record to its own chunk.
type Way = (
    &'static str,
    fn(&mut Writer<'_>, &[u8], Compression) -> Result<(), Error>,
);

const WAYS: [Way; 3] = [
    ("write_record_from", |writer, record, compression| {
        let len = record.len() as u64;
        writer.write_record_from(&mut &record[..], len, compression)?;
        Ok(())
    }),
    (
        "write_record_from_seekable",
        |writer, record, compression| {
            let len = record.len() as u64;
            writer.write_record_from_seekable(&mut Cursor::new(record), len, compression)?;
            Ok(())
        },
    ),
    ("write_encoded_record", |writer, record, compression| {
        let (len, mut data) = (record.len() as u64, Vec::new());
        let encoded = EncodedRecord::encode(&mut &record[..], len, compression, &mut data)?;
        writer.write_encoded_record(&encoded, &mut &data[..])?;
        Ok(())
    }),
];

/// Returns a file with the record, in its own chunk, between two other records.
fn file(
    options: WriterOptions,
    seekable: bool,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(Cursor::new(&mut bytes), options).unwrap();
    if seekable {
        writer = writer.seekable();
    }
    writer.write_record(b"before").unwrap();
    write(&mut writer).unwrap();
    writer.write_record(b"after").unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn the_file_is_the_same_whichever_way_a_record_comes_to_it() {
    for compression in compressions() {
        // Every record has its own chunk, so that all ways of writing make the same chunks.
        let options = WriterOptions::new().compression(compression).chunk_size(1);
        let streaming = options.clone().stream_from(0);
        let beside = streaming.clone().threads(2).max_copied(1000);
        // The last item of each variant is the number of tested ways to divide a record.
        let variants = [
            ("held", options.clone(), false, usize::MAX),
            ("streamed", streaming, true, usize::MAX),
            ("seekable and smaller", options.clone(), true, 1),
            ("by a thread", options.clone().threads(2), false, 2),
            ("streamed beside threads", beside, true, 2),
        ];
        for record in records() {
            let what = format!("{compression}, {} bytes", record.len());
            let expected = file(options.clone(), false, |writer| {
                writer.write_record(&record)
            });
            let records = read_all(&expected);
            assert!(records[1] == record && records.len() == 3, "{what}");
            for (name, options, seekable, tried) in &variants {
                for (index, parts) in cuts(&record).into_iter().take(*tried).enumerate() {
                    let bytes = file(options.clone(), *seekable, |writer| {
                        if index % 2 == 0 {
                            return writer.write_record_slices(&parts);
                        }
                        writer.write_record_slices_alone(&parts, compression)?;
                        Ok(())
                    });
                    assert!(bytes == expected, "{what}, {name}, cut {index}");
                }
            }
            for (name, write) in WAYS {
                let bytes = file(options.clone(), false, |writer| {
                    write(writer, &record, compression)
                });
                assert!(bytes == expected, "{what}, {name}");
            }
        }
    }
}

fn read_all(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(bytes, ReaderOptions::new());
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        records.push(record.to_vec());
    }
    records
}

#[test]
fn only_records_from_the_size_of_the_option_on_are_streamed() {
    /// A sink that counts seeks.
    struct Sent(Cursor<Vec<u8>>, usize);
    impl io::Write for Sent {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.write(buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl io::Seek for Sent {
        fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
            self.1 += 1;
            self.0.seek(to)
        }
    }
    for (len, compression, seekable, streams) in [
        (1000, Compression::ZSTD, true, true),
        (999, Compression::ZSTD, true, false),
        (1000, Compression::ZSTD, false, false),
        (1000, Compression::brotli(3), true, true),
        (1000, Compression::SNAPPY, true, true),
        // An uncompressed record is never held.
        (1000, Compression::None, true, false),
    ] {
        let options = WriterOptions::new().stream_from(1000);
        let sink = Sent(Cursor::new(Vec::new()), 0);
        let mut writer = RecordWriter::new(sink, options).unwrap();
        if seekable {
            writer = writer.seekable();
        }
        writer
            .write_record_alone(&noise(len, 1), compression)
            .unwrap();
        let Sent(_, sent) = writer.finish().unwrap();
        assert_eq!(sent > 0, streams, "{len} bytes, {compression}, {seekable}");
    }
}

#[test]
fn appending_streams_behind_what_is_there() {
    let options = || {
        WriterOptions::new()
            .compression(Compression::ZSTD)
            .stream_from(0)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let record = changing(300_000);
    let mut expected = Vec::new();
    for _ in 0..3 {
        let held = RecordWriter::append_at(expected.clone(), expected.len() as u64, options());
        let mut held = held.unwrap();
        held.write_record_alone(&record, Compression::ZSTD).unwrap();
        expected = held.finish().unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .unwrap();
        let mut writer = RecordWriter::append(file, options()).unwrap().seekable();
        writer
            .write_record_alone(&record, Compression::ZSTD)
            .unwrap();
        writer.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
    }
}

#[test]
fn a_file_that_only_appends_is_an_error_where_a_header_is_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let record = changing(300_000);
    for from_source in [false, true] {
        let file: File = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        file.set_len(0).unwrap();
        let options = WriterOptions::new().stream_from(0);
        let mut writer = RecordWriter::new(file, options).unwrap().seekable();
        let written = if from_source {
            writer.write_record_from(&mut &record[..], 300_000, Compression::ZSTD)
        } else {
            writer.write_record_alone(&record, Compression::ZSTD)
        };
        let error = written.unwrap_err();
        assert_eq!(io_kind(&error), Some(io::ErrorKind::Unsupported), "{error}");
        let error = writer.write_record(b"more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    // If no headers have to be filled in, appending works.
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        let mut writer = RecordWriter::append(file, WriterOptions::new()).unwrap();
        writer
            .write_record_alone(&record, Compression::ZSTD)
            .unwrap();
        writer.finish().unwrap();
    }
    let file = RecordFile::open(File::open(&path).unwrap(), ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    assert!(file.read_record(last).unwrap() == record[..]);
}
