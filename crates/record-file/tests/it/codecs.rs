//! Tests of the compressors at the limits of their parameters.
use std::io::Read;

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordFile, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::noise;

fn zstd(level: i32, window_log: Option<u32>) -> Compression {
    Compression::Zstd { level, window_log }
}

fn brotli(level: u32, window_log: Option<u32>) -> Compression {
    Compression::Brotli { level, window_log }
}

/// Returns a record that begins and ends with the same bytes.
fn record() -> Vec<u8> {
    let block = noise(70_000, 1);
    [&block[..], &[7; 50_000], &block].concat()
}

#[test]
fn every_level_and_window_is_read_back_with_the_default_limits() {
    let mut all: Vec<_> = [-131_072, -7, 1, 3, 12, 22]
        .map(|level| zstd(level, None))
        .into();
    all.extend((0..=11).map(|level| brotli(level, None)));
    all.extend([1, 2].map(|level| Compression::Snappy { level }));
    let largest = if usize::BITS == 32 {
        [30, 26]
    } else {
        [31, 30]
    };
    all.extend([10, 17, 24, largest[0]].map(|log| zstd(3, Some(log))));
    all.extend([10, 16, 24, 25, largest[1]].map(|log| brotli(5, Some(log))));
    let record = record();
    for compression in all {
        let options = WriterOptions::new().compression(compression).chunk_size(1);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        writer.write_record(b"").unwrap();
        writer.write_record(&record).unwrap();
        let position = writer.last_position().unwrap();
        let bytes = writer.finish().unwrap();
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
        assert_eq!(reader.read_record().unwrap(), Some(&b""[..]));
        assert!(
            reader.read_record().unwrap() == Some(&record[..]),
            "{compression:?}"
        );
        let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
        let mut read = vec![0; record.len()];
        file.read_record_into(position, &mut read).unwrap();
        assert!(read == record, "{compression:?}");
    }
}

#[test]
fn a_window_beyond_the_limit_is_refused_by_streams_alone_and_the_error_names_the_option() {
    // Windows are no larger than the data needs.
    let record = vec![1; (16 << 20) + 1];
    for compression in [zstd(1, Some(25)), brotli(5, Some(25))] {
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        let position = writer.write_record_alone(&record, compression).unwrap();
        let bytes = writer.finish().unwrap();
        for (max_window_log, fine) in [(24, false), (25, true)] {
            let options = ReaderOptions::new().max_window_log(max_window_log);
            let file = RecordFile::open(&bytes, options).unwrap();
            let mut stream = file.record_stream(position).unwrap();
            let read = stream.read(&mut [0; 100]);
            assert_eq!(read.is_ok(), fine, "{compression:?}");
            if let Err(error) = read {
                let error: record_file::Error =
                    error.into_inner().unwrap().downcast().map(|e| *e).unwrap();
                assert_eq!(error.kind(), ErrorKind::LimitExceeded);
                assert!(error.to_string().contains("max_window_log"), "{error}");
            }
        }
        // Decoding a record as a whole needs no window.
        let options = ReaderOptions::new().max_window_log(10);
        let file = RecordFile::open(&bytes, options).unwrap();
        let mut read = vec![0; record.len()];
        file.read_record_into(position, &mut read).unwrap();
        assert!(read == record);
    }
}

#[test]
fn what_is_decoded_whole_needs_no_window_however_much_it_expands() {
    // The record is larger than the memory that may be allocated for a chunk's declared size, and
    // far larger than its stored form.
    let record = [&[0x12, 0x80, 0x80, 0x80, 0x0c][..], &vec![1; 24 << 20]].concat();
    let compression = zstd(1, Some(25));
    for transpose in [false, true] {
        let options = WriterOptions::new()
            .compression(compression)
            .transpose(transpose);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        writer.write_record(&record).unwrap();
        let position = writer.last_position().unwrap();
        let bytes = writer.finish().unwrap();
        assert!(bytes.len() < record.len() / 100);
        for stream_from in [0, 8 << 20] {
            for threads in [0, 2] {
                let options = ReaderOptions::new()
                    .max_window_log(10)
                    .stream_from(stream_from)
                    .threads(threads);
                let mut reader = RecordReader::new(&bytes, options);
                assert!(reader.read_record().unwrap() == Some(&record[..]));
                let mut reader = RecordReader::from_read(&bytes[..], options);
                assert!(reader.read_record().unwrap() == Some(&record[..]));
                let file = RecordFile::open(&bytes, options).unwrap();
                assert!(file.read_record(position).unwrap() == record);
                let mut read = vec![0; record.len()];
                file.read_record_into(position, &mut read).unwrap();
                assert!(read == record);
            }
        }
    }
}
