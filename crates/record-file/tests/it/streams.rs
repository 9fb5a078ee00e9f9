//! Tests of writing and reading records as streams.
use std::io::{self, Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use record_file::{
    Compression, EncodedRecord, Error, ErrorKind, ReadAt, ReaderOptions, RecordFile,
    RecordPosition, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::noise;

fn compressions() -> [Compression; 4] {
    [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
        Compression::SNAPPY,
    ]
}

fn records() -> Vec<Vec<u8>> {
    let mut records: Vec<_> = [
        0, 1, 127, 128, 65_000, 65_430, 65_472, 65_512, 65_536, 131_072, 300_000,
    ]
    .iter()
    .map(|&len| noise(len, 7))
    .collect();
    records.push(vec![1; 3_000_000]);
    records
}

/// Returns a file in which every record is written as a stream. Other records are written before
/// each record, so that its chunk can begin anywhere in a block.
fn streamed(compression: Compression) -> (Vec<u8>, Vec<(RecordPosition, Vec<u8>)>) {
    let mut writer = RecordWriter::new(Cursor::new(Vec::new()), WriterOptions::new()).unwrap();
    let mut written = Vec::new();
    for (index, record) in records().into_iter().enumerate() {
        writer.write_record(&noise(index * 11, 3)).unwrap();
        let mut source = Cursor::new([&record[..], b"not read"].concat());
        let position = writer
            .write_record_from(&mut source, record.len() as u64, compression)
            .unwrap();
        assert_eq!(source.position(), record.len() as u64);
        assert_eq!(writer.last_position(), Some(position));
        written.push((position, record));
    }
    (writer.finish().unwrap().into_inner(), written)
}

#[test]
fn written_as_streams_and_read_in_every_way() {
    for compression in compressions() {
        let (bytes, written) = streamed(compression);
        for options in [ReaderOptions::new(), ReaderOptions::new().stream_from(0)] {
            let file = RecordFile::open(&bytes, options).unwrap();
            for (position, record) in &written {
                assert_eq!(file.locate(position.numeric()).unwrap(), *position);
                assert_eq!(file.record_len(*position).unwrap(), record.len() as u64);
                assert!(file.read_record(*position).unwrap() == record[..]);
                let mut buf = vec![9; record.len()];
                file.read_record_into(*position, &mut buf).unwrap();
                assert!(buf == *record);
                let mut stream = file.record_stream(*position).unwrap();
                buf.clear();
                stream.read_to_end(&mut buf).unwrap();
                assert!(buf == *record);
                assert_eq!(stream.remaining(), 0);
                let mut stream = file.record_stream(*position).unwrap();
                let half = record.len() / 2;
                stream.skip(half as u64).unwrap();
                assert_eq!(stream.remaining(), (record.len() - half) as u64);
                buf.clear();
                stream.read_to_end(&mut buf).unwrap();
                assert!(buf == record[half..]);
            }
        }
    }
}

#[test]
fn a_stream_and_a_slice_give_the_same_bytes_uncompressed() {
    let (bytes, written) = streamed(Compression::None);
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for (index, (position, record)) in written.iter().enumerate() {
        writer.write_record(&noise(index * 11, 3)).unwrap();
        let parts: Vec<_> = record.chunks(1 + record.len() / 3).collect();
        let alone = writer
            .write_record_slices_alone(&parts, Compression::None)
            .unwrap();
        assert_eq!(alone, *position);
    }
    assert!(writer.finish().unwrap() == bytes);
}

#[test]
fn a_sink_that_cannot_seek_gets_the_same_bytes_from_a_source_that_is_read_twice() {
    for compression in compressions() {
        let (bytes, written) = streamed(compression);
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        for (index, (position, record)) in written.iter().enumerate() {
            writer.write_record(&noise(index * 11, 3)).unwrap();
            // The record begins at the current position of the source.
            let mut source = Cursor::new([b"before", &record[..], b"behind"].concat());
            source.set_position(6);
            let len = record.len() as u64;
            let again = writer
                .write_record_from_seekable(&mut source, len, compression)
                .unwrap();
            assert_eq!(again, *position);
            assert_eq!(source.position(), 6 + len);
        }
        assert!(writer.finish().unwrap() == bytes, "{compression}");
    }
}

/// Encodes a record of `len` bytes without keeping its data.
fn read_before(mut record: &[u8], len: u64) -> Result<EncodedRecord, Error> {
    EncodedRecord::encode(&mut record, len, Compression::None, &mut std::io::sink())
}

#[test]
fn a_plain_record_that_was_read_before_gives_the_same_bytes() {
    let (bytes, written) = streamed(Compression::None);
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for (index, (position, record)) in written.iter().enumerate() {
        writer.write_record(&noise(index * 11, 3)).unwrap();
        let len = record.len() as u64;
        let before = read_before(record, len).unwrap();
        assert!(before.data_size() > len);
        // The bytes after the record are not read.
        let mut source = &[&record[..], b"behind"].concat()[..];
        let again = writer.write_plain_record(&before, &mut source).unwrap();
        assert_eq!(again, *position);
        assert_eq!(source, b"behind");
    }
    assert!(writer.finish().unwrap() == bytes);
}

#[test]
fn a_plain_record_is_read_from_the_source_that_it_was_read_from_before() {
    let (record, other) = (noise(100_000, 1), noise(100_000, 2));
    let before = read_before(&record, 100_000).unwrap();
    for (source, expected) in [
        (&other[..], ErrorKind::ChecksumMismatch),
        (&record[..99_999], ErrorKind::SourceEnded),
    ] {
        let mut writer = RecordWriter::with_defaults(Vec::new());
        let error = writer
            .write_plain_record(&before, &mut &source[..])
            .unwrap_err();
        assert_eq!(error.kind(), expected);
        let error = writer.write_record(b"more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    let (zstd, mut data) = (Compression::zstd(1), Vec::new());
    let compressed = EncodedRecord::encode(&mut &record[..], 100_000, zstd, &mut data).unwrap();
    let error = RecordWriter::with_defaults(Vec::new())
        .write_plain_record(&compressed, &mut &record[..])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    let error = read_before(&record, 100_001).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceEnded);
    let error = read_before(&record, u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn a_source_that_changes_while_it_is_read_twice_is_an_error() {
    /// A source whose bytes differ once it has been rewound.
    struct Changing(Cursor<Vec<u8>>, Vec<u8>);
    impl Read for Changing {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buf)
        }
    }
    impl std::io::Seek for Changing {
        fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
            if to != std::io::SeekFrom::Current(0) {
                *self.0.get_mut() = std::mem::take(&mut self.1);
            }
            self.0.seek(to)
        }
    }
    let len = 100_000;
    let samples = [noise(len, 1), noise(len, 2), vec![0; len]];
    for compression in compressions() {
        for (first, second) in [(0, 1), (0, 2), (2, 0)] {
            let mut source = Changing(Cursor::new(samples[first].clone()), samples[second].clone());
            let mut writer = RecordWriter::with_defaults(Vec::new());
            let error = writer
                .write_record_from_seekable(&mut source, len as u64, compression)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{compression}");
            let error = writer.write_record(b"more").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn files_and_memory_read_alike() {
    let (bytes, written) = streamed(Compression::zstd(1));
    let mut temporary = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut temporary, &bytes).unwrap();
    let file = RecordFile::open(temporary, ReaderOptions::new()).unwrap();
    for (position, record) in &written {
        assert!(file.read_record(*position).unwrap() == record[..]);
        let mut buf = vec![0; record.len()];
        file.read_record_into(*position, &mut buf).unwrap();
        assert!(buf == *record);
    }
}

/// A source that counts the bytes read.
struct Counted<'a>(&'a [u8], AtomicUsize);

impl ReadAt for Counted<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        self.1.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

#[test]
fn the_front_of_a_record_takes_little_of_it_however_it_is_read() {
    let record = noise(2_000_000, 5);
    for compression in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
    ] {
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        let position = writer.write_record_alone(&record, compression).unwrap();
        let bytes = writer.finish().unwrap();
        let source = Counted(&bytes, AtomicUsize::new(0));
        let file = RecordFile::open(source, ReaderOptions::new()).unwrap();
        let mut stream = file.record_stream(position).unwrap();
        let mut read = Vec::new();
        for len in [1, 7, 32, 500, 1, 32] {
            stream.by_ref().take(len).read_to_end(&mut read).unwrap();
        }
        assert!(record.starts_with(&read) && read.len() == 573);
        let taken = file.get_ref().1.load(Ordering::Relaxed);
        assert!(taken < 300_000, "{compression}: {taken}");
    }
}

#[test]
fn a_short_source_is_an_error_of_its_own() {
    for compression in compressions() {
        let mut writer = RecordWriter::new(Cursor::new(Vec::new()), WriterOptions::new()).unwrap();
        let error = writer
            .write_record_from(&mut &b"12345"[..], 6, compression)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceEnded);
        let error = writer.write_record(b"more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}

#[test]
fn damage_shows_at_the_last_read() {
    let (bytes, written) = streamed(Compression::None);
    let (position, record) = &written[10];
    let at = usize::try_from(position.chunk_begin().0).unwrap() + 200;
    let mut bad = bytes.clone();
    bad[at] ^= 1;
    let file = RecordFile::open(&bad, ReaderOptions::new()).unwrap();
    let mut stream = file.record_stream(*position).unwrap();
    let mut buf = vec![0; record.len() - 1];
    stream.read_exact(&mut buf).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    let error = error.get_ref().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert_eq!(error.offset(), Some(position.chunk_begin().0));
    assert!(stream.read(&mut [0]).is_err());
    let error = file
        .read_record_into(*position, &mut vec![0; record.len()])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert!(
        file.record_stream(*position)
            .unwrap()
            .skip(u64::MAX)
            .is_err()
    );
}

#[test]
fn limits_hold_for_what_must_be_in_memory() {
    let (bytes, written) = streamed(Compression::zstd(1));
    let (position, record) = written.last().unwrap();
    let tight = ReaderOptions::new().max_chunk_memory(1 << 20);
    let file = RecordFile::open(&bytes, tight).unwrap();
    let error = file.read_record(*position).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("max_chunk_memory"));
    // A record that is read into a buffer or streamed isn't held.
    let mut buf = vec![0; record.len()];
    file.read_record_into(*position, &mut buf).unwrap();
    assert!(buf == *record);
    let mut stream = file.record_stream(*position).unwrap();
    assert_eq!(
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap(),
        record.len() as u64
    );
    let error = file.read_record_into(*position, &mut [0; 3]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn memory_for_exactly_the_record_is_enough() {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    let position = writer
        .write_record_alone(&[1; 1000], Compression::zstd(1))
        .unwrap();
    let bytes = writer.finish().unwrap();
    for (memory, fault) in [(1000, None), (999, Some(ErrorKind::LimitExceeded))] {
        let options = ReaderOptions::new().max_chunk_memory(memory);
        let file = RecordFile::open(&bytes, options).unwrap();
        let read = file.read_record(position);
        assert_eq!(read.err().map(|error| error.kind()), fault);
        let mut reader = RecordReader::new(&bytes, options);
        assert_eq!(reader.read_record().err().map(|error| error.kind()), fault);
    }
}

#[test]
fn windows_are_limited_only_for_streams() {
    let compression = Compression::Zstd {
        level: 1,
        window_log: Some(21),
    };
    let record = vec![1; 5 << 20];
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let position = writer.write_record_alone(&record, compression).unwrap();
    let bytes = writer.finish().unwrap();
    let file = RecordFile::open(
        &bytes,
        ReaderOptions::new().max_window_log(20).stream_from(0),
    )
    .unwrap();
    let mut buf = vec![0; record.len()];
    file.read_record_into(position, &mut buf).unwrap();
    assert!(buf == record);
    let mut stream = file.record_stream(position).unwrap();
    let error = stream.read(&mut buf[..100]).unwrap_err();
    let error = error.get_ref().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("max_window_log"));
}
