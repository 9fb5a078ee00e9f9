//! Tests with sources and sinks that have short reads and writes, interruptions, or a failure at
//! any byte.
use std::io::{self, Cursor};

use record_file::{
    Compression, EncodedRecord, ErrorKind, ReadAt, ReaderOptions, RecordFile, RecordPosition,
    RecordReader, RecordWriter, WriterOptions,
};

use crate::support::io::{Fault, Hostile, KIND, Manner, io_kind};
use crate::support::{Fixture, formats, noise};

type Records = Vec<(RecordPosition, Vec<u8>)>;

/// Returns files with several chunks, in every format, with block headers between and inside the
/// chunks.
fn files() -> Vec<Vec<u8>> {
    let mut files: Vec<_> = [
        "cpp_pad1000_flush.riegeli",
        "rs_small_zstd_chunk4k.riegeli",
        "cpp_meta_zstd3_transpose.riegeli",
    ]
    .iter()
    .map(|name| Fixture::load(name).bytes)
    .collect();
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(500);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for len in [0, 10, 600, 64_000, 300, 300, 1000, 5] {
        writer.write_record(&noise(len, 1)).unwrap();
    }
    files.push(writer.finish().unwrap());
    for options in formats() {
        files.push(write_on(Vec::new(), options).unwrap());
    }
    files
}

/// Returns the offsets to fail at: all offsets of a small file, or the offsets around the blocks
/// and chunks of a larger file.
pub(crate) fn offsets(bytes: &[u8]) -> Vec<u64> {
    let file = RecordFile::open(bytes, ReaderOptions::new()).unwrap();
    let edges: Vec<_> = file.chunks().map(|chunk| chunk.unwrap().end().0).collect();
    (0..bytes.len() as u64)
        .filter(|&at| {
            bytes.len() < 5000
                || at % 997 == 0
                || (65_536 - 3..65_536 + 70).contains(&at)
                || edges.iter().any(|&edge| edge.abs_diff(at) < 45)
        })
        .collect()
}

/// Reads all records, and returns them with the final result.
fn drain<I: record_file::RecordInput>(
    reader: &mut RecordReader<I>,
) -> (Records, Result<(), record_file::Error>) {
    let mut records = Vec::new();
    loop {
        match reader.read_record() {
            Ok(Some(record)) => {
                let record = record.to_vec();
                records.push((reader.last_position().unwrap(), record));
            }
            Ok(None) => return (records, Ok(())),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn chunk_end(bytes: &[u8], position: RecordPosition) -> u64 {
    let file = RecordFile::open(bytes, ReaderOptions::new()).unwrap();
    let chunk = file.chunk_header_at(position.chunk_begin()).unwrap();
    chunk.end().0
}

#[test]
fn little_at_a_time_and_interrupted_is_all_the_same() {
    for bytes in files() {
        let options = ReaderOptions::new();
        let (expected, end) = drain(&mut RecordReader::new(&bytes, options));
        end.unwrap();
        for manner in Manner::harmless() {
            let stream = Hostile::new(&bytes[..], manner);
            let (records, end) = drain(&mut RecordReader::from_read(stream, options));
            end.unwrap();
            assert!(records == expected, "{manner:?}");

            let (records, end) = drain(&mut RecordReader::new(
                Hostile::new(&bytes, manner),
                options,
            ));
            end.unwrap();
            assert!(records == expected, "{manner:?}");

            let file = RecordFile::open(Hostile::new(&bytes, manner), options).unwrap();
            for (position, record) in &expected {
                assert_eq!(file.read_record(*position).unwrap(), record[..]);
                let mut buf = vec![0; record.len()];
                file.read_record_into(*position, &mut buf).unwrap();
                assert!(buf == *record);
                buf.clear();
                let mut stream = file.record_stream(*position).unwrap();
                io::Read::read_to_end(&mut stream, &mut buf).unwrap();
                assert!(buf == *record);
            }
        }
    }
}

#[test]
fn a_stream_that_fails_at_any_byte_loses_nothing_before_it_and_hides_nothing() {
    for bytes in files() {
        let (all, _) = drain(&mut RecordReader::new(&bytes, ReaderOptions::new()));
        for at in offsets(&bytes) {
            let stream = Hostile::new(&bytes[..], Manner::failing(at, Fault::Error));
            let mut reader = RecordReader::from_read(stream, ReaderOptions::new());
            let (records, end) = drain(&mut reader);
            let error = end.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{at}: {error}");
            assert_eq!(io_kind(&error), Some(KIND), "{at}: {error}");
            assert!(error.offset().is_some_and(|offset| offset <= at), "{at}");
            assert!(all.starts_with(&records), "{at}");
            // Every complete chunk was read.
            let whole = all
                .iter()
                .filter(|(position, _)| chunk_end(&bytes, *position) <= at);
            assert_eq!(records.len(), whole.count(), "{at}");
            // A stream can't recover lost bytes.
            let again = reader.read_record().unwrap_err();
            assert_eq!(
                (again.kind(), again.offset(), io_kind(&again)),
                (error.kind(), error.offset(), Some(KIND))
            );
        }
    }
}

#[test]
fn damage_callbacks_are_not_asked_about_sources_that_fail() {
    for bytes in files() {
        for at in offsets(&bytes).into_iter().step_by(13) {
            let manner = Manner::failing(at, Fault::Error);
            let mut reader =
                RecordReader::from_read(Hostile::new(&bytes[..], manner), ReaderOptions::new())
                    .on_damage(|region| panic!("{region:?}"));
            assert_eq!(drain(&mut reader).1.unwrap_err().kind(), ErrorKind::Io);
            let mut reader = RecordReader::new(Hostile::new(&bytes, manner), ReaderOptions::new())
                .on_damage(|region| panic!("{region:?}"));
            assert_eq!(drain(&mut reader).1.unwrap_err().kind(), ErrorKind::Io);
        }
    }
}

#[test]
fn a_bad_place_in_a_file_costs_the_chunk_around_it_only() {
    /// A source with one unreadable byte, like a bad disk.
    #[derive(Debug)]
    struct BadSector<'a>(&'a [u8], u64);
    impl ReadAt for BadSector<'_> {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            if (offset..offset + buf.len() as u64).contains(&self.1) {
                return Err(io::Error::new(KIND, "bad sector"));
            }
            self.0.read_at(offset, buf)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }
    for bytes in files() {
        let (all, _) = drain(&mut RecordReader::new(&bytes, ReaderOptions::new()));
        let spans: Vec<_> = all
            .iter()
            .map(|(position, _)| position.chunk_begin().0..chunk_end(&bytes, *position))
            .collect();
        for at in offsets(&bytes) {
            let source = BadSector(&bytes, at);
            if at < 64 {
                let error = RecordFile::open(source, ReaderOptions::new()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io);
                continue;
            }
            let file = RecordFile::open(&source, ReaderOptions::new()).unwrap();
            for ((position, record), span) in all.iter().zip(&spans) {
                match file.read_record(*position) {
                    Ok(got) => assert_eq!(got, record[..]),
                    Err(error) => {
                        assert!(span.contains(&at), "{at}: {error}");
                        assert_eq!(io_kind(&error), Some(KIND), "{at}: {error}");
                        assert!(error.offset().is_some_and(|offset| span.contains(&offset)));
                    }
                }
            }
            // Reading in sequence returns all records before the bad chunk, which can be skipped.
            let mut reader = RecordReader::new(source, ReaderOptions::new());
            let (records, end) = drain(&mut reader);
            assert!(all.starts_with(&records), "{at}");
            if let Err(error) = end {
                assert_eq!(io_kind(&error), Some(KIND), "{at}: {error}");
                let before = spans.iter().filter(|span| span.end <= at).count();
                assert_eq!(records.len(), before, "{at}");
                let after = spans.iter().position(|span| span.start > at);
                if let Some(after) = after {
                    reader.seek(all[after].0).unwrap();
                    let (rest, end) = drain(&mut reader);
                    end.unwrap();
                    assert!(rest == all[after..], "{at}");
                }
            } else {
                assert_eq!(records.len(), all.len(), "{at}");
            }
        }
    }
}

#[test]
fn a_source_that_ends_before_its_size_is_cut_short() {
    #[derive(Debug)]
    struct Shrunk<'a>(&'a [u8], u64);
    impl ReadAt for Shrunk<'_> {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(offset, buf)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(self.1)
        }
    }
    for bytes in files() {
        let size = bytes.len() as u64;
        let (all, _) = drain(&mut RecordReader::new(&bytes, ReaderOptions::new()));
        for at in offsets(&bytes) {
            let there = &bytes[..usize::try_from(at).unwrap()];
            if let Ok(file) = RecordFile::open(Shrunk(there, size), ReaderOptions::new()) {
                for (position, record) in &all {
                    match file.read_record(*position) {
                        Ok(got) => assert_eq!(got, record[..]),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Truncated, "{error}"),
                    }
                }
            }
            let (records, end) = drain(&mut RecordReader::new(
                Shrunk(there, size),
                ReaderOptions::new(),
            ));
            assert!(all.starts_with(&records), "{at}");
            if let Err(error) = end {
                assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
            }
        }
    }
}

/// Writes records in all ways that a plain sink supports, and flushes once in the middle.
fn write<W: io::Write>(sink: W) -> Result<W, record_file::Error> {
    write_on(sink, WriterOptions::new().compression(Compression::zstd(1)))
}

fn write_on<W: io::Write>(sink: W, options: WriterOptions) -> Result<W, record_file::Error> {
    let options = options.chunk_size(200).final_padding(100);
    let mut writer = RecordWriter::new(sink, options)?;
    for index in 0..12 {
        writer.write_record(&noise(index * 9, 5))?;
    }
    writer.flush()?;
    let record = noise(70_000, 6);
    writer.write_record_slices_alone(&[&record[..100], &record[100..]], Compression::None)?;
    writer.write_record_slices(&[b"a", b"", &record[..40_000]])?;
    for compression in [Compression::None, Compression::zstd(1)] {
        let source = &mut Cursor::new(&record[..300]);
        writer.write_record_from_seekable(source, 300, compression)?;
    }
    let before =
        EncodedRecord::encode(&mut &record[..], 70_000, Compression::None, &mut io::sink())?;
    writer.write_plain_record(&before, &mut &record[..])?;
    writer.finish()
}

/// Writes records like [`write`], but in the ways that need a seekable sink.
fn write_streams<W: io::Write + io::Seek>(sink: W) -> Result<W, record_file::Error> {
    let mut writer = RecordWriter::new(sink, WriterOptions::new().chunk_size(100))?;
    for compression in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
    ] {
        writer.write_record(b"between")?;
        let record = noise(66_000, 8);
        writer.write_record_from(&mut &record[..], record.len() as u64, compression)?;
    }
    writer.finish()
}

#[test]
fn short_and_interrupted_writes_write_the_same_file() {
    let streamed = write_streams(Cursor::new(Vec::new())).unwrap().into_inner();
    for manner in Manner::harmless() {
        for options in formats() {
            let expected = write_on(Vec::new(), options.clone()).unwrap();
            let written = write_on(Hostile::new(Vec::new(), manner), options).unwrap();
            assert!(written.into_inner() == expected, "{manner:?}");
        }
        let written = write_streams(Hostile::new(Cursor::new(Vec::new()), manner)).unwrap();
        assert!(written.into_inner().into_inner() == streamed, "{manner:?}");
    }
}

#[test]
fn a_sink_that_fails_at_any_byte_is_an_error_with_its_place() {
    let plain = write(Vec::new()).unwrap();
    let streamed = write_streams(Cursor::new(Vec::new())).unwrap().into_inner();
    let check = |error: record_file::Error, fault: Fault, at: u64| {
        assert_eq!(error.kind(), ErrorKind::Io, "{at}: {error}");
        let expected = match fault {
            Fault::Error => KIND,
            Fault::Zero => io::ErrorKind::WriteZero,
        };
        assert_eq!(io_kind(&error), Some(expected), "{at}: {error}");
        assert!(error.offset().is_some(), "{at}: {error}");
    };
    for fault in [Fault::Error, Fault::Zero] {
        for at in offsets(&plain) {
            let sink = Hostile::new(Vec::new(), Manner::failing(at, fault));
            check(write(sink).unwrap_err(), fault, at);
        }
        for options in formats() {
            let whole = write_on(Vec::new(), options.clone()).unwrap();
            for at in offsets(&whole).into_iter().step_by(61) {
                let sink = Hostile::new(Vec::new(), Manner::failing(at, fault));
                check(write_on(sink, options.clone()).unwrap_err(), fault, at);
            }
        }
        for at in offsets(&streamed) {
            let sink = Hostile::new(Cursor::new(Vec::new()), Manner::failing(at, fault));
            check(write_streams(sink).unwrap_err(), fault, at);
        }
    }
}

#[test]
fn a_sink_that_fails_under_a_writer_with_threads_is_an_error_by_the_end() {
    for options in formats() {
        let options = options.threads(2);
        let expected = write_on(Vec::new(), options.clone()).unwrap();
        for at in offsets(&expected).into_iter().step_by(97) {
            let mut written = Vec::new();
            let sink = Hostile::new(&mut written, Manner::failing(at, Fault::Error));
            let error = write_on(sink, options.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{at}: {error}");
            assert_eq!(io_kind(&error), Some(KIND), "{at}: {error}");
            assert!(error.offset().is_some(), "{at}: {error}");
            assert!(expected.starts_with(&written), "{at}");
        }
    }
}

#[test]
fn a_sink_that_fails_while_a_thread_copies_a_large_record_is_an_error_by_the_end() {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .threads(2);
    let record = noise(1 << 20, 1);
    let write = |at| {
        let sink = Hostile::new(Vec::new(), Manner::failing(at, Fault::Error));
        let mut writer = RecordWriter::new(sink, options.clone())?;
        for _ in 0..3 {
            writer.write_record(&record)?;
        }
        writer.finish()
    };
    let len = write(u64::MAX).unwrap().into_inner().len() as u64;
    for at in [0, 63, 64, 110, len / 3, len / 2, len - 1] {
        let error = write(at).unwrap_err();
        assert_eq!(io_kind(&error), Some(KIND), "{at}: {error}");
        assert!(error.offset().is_some(), "{at}: {error}");
    }
}

#[test]
fn what_was_written_before_a_failure_is_the_beginning_of_the_file() {
    let expected = write(Vec::new()).unwrap();
    for at in offsets(&expected) {
        let mut written = Vec::new();
        let manner = Manner::failing(at, Fault::Error);
        write(Hostile::new(&mut written, manner)).unwrap_err();
        assert!(expected.starts_with(&written), "{at}");
        // The readable part consists of the written records up to the place of the failure.
        let mut reader = RecordReader::new(&written, ReaderOptions::new());
        let (records, end) = drain(&mut reader);
        if let Err(error) = end {
            assert_eq!(error.kind(), ErrorKind::Truncated, "{at}: {error}");
        }
        let (all, _) = drain(&mut RecordReader::new(&expected, ReaderOptions::new()));
        assert!(all.starts_with(&records));
    }
}

#[test]
fn a_writer_that_failed_writes_nothing_any_more() {
    for at in [0, 63, 64, 100, 500] {
        let sink = Hostile::new(Cursor::new(Vec::new()), Manner::failing(at, Fault::Error));
        let mut writer = RecordWriter::new(sink, WriterOptions::new().chunk_size(50)).unwrap();
        let error = loop {
            if let Err(error) = writer
                .write_record(&noise(60, 2))
                .and_then(|()| writer.flush())
            {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Io);
        for error in [
            writer.write_record(b"").unwrap_err(),
            writer.write_record_slices(&[]).unwrap_err(),
            writer
                .write_record_alone(b"", Compression::None)
                .unwrap_err(),
            writer
                .write_record_from(&mut &b""[..], 0, Compression::None)
                .unwrap_err(),
            writer.flush().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        let written = writer.get_ref().get_ref().get_ref().len() as u64;
        assert_eq!(written, at);
        assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_record_whose_source_fails_is_an_error_and_the_file_ends_before_it() {
    let record = noise(100_000, 4);
    for compression in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
        Compression::SNAPPY,
    ] {
        for at in [0, 1, 50_000, 99_999] {
            let mut file = Cursor::new(Vec::new());
            let mut writer = RecordWriter::new(&mut file, WriterOptions::new()).unwrap();
            writer.write_record(b"before").unwrap();
            writer.flush().unwrap();
            let mut source = Hostile::new(&record[..], Manner::failing(at, Fault::Error));
            let error = writer
                .write_record_from(&mut source, record.len() as u64, compression)
                .unwrap_err();
            assert_eq!(
                (error.kind(), io_kind(&error)),
                (ErrorKind::Io, Some(KIND)),
                "{error}"
            );
            assert_eq!(
                writer.write_record(b"").unwrap_err().kind(),
                ErrorKind::Closed
            );
            drop(writer);
            let mut reader = RecordReader::new(file.into_inner(), ReaderOptions::new());
            assert_eq!(reader.read_record().unwrap(), Some(&b"before"[..]));
            assert!(!matches!(reader.read_record(), Ok(Some(_))));
        }
        // A source that returns small pieces produces the same record.
        for manner in Manner::harmless() {
            let record = &record[..5000];
            let len = record.len() as u64;
            let mut writer =
                RecordWriter::new(Cursor::new(Vec::new()), WriterOptions::new()).unwrap();
            let position = writer
                .write_record_from(&mut Hostile::new(record, manner), len, compression)
                .unwrap();
            let file = writer.finish().unwrap().into_inner();
            let file = RecordFile::open(file, ReaderOptions::new()).unwrap();
            assert!(file.read_record(position).unwrap() == record[..]);
        }
    }
}

#[test]
fn a_sink_that_cannot_flush_or_seek_is_an_error_too() {
    #[derive(Debug, Default)]
    struct Stuck(Cursor<Vec<u8>>);
    impl io::Write for Stuck {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::new(KIND, "no flush"))
        }
    }
    impl io::Seek for Stuck {
        fn seek(&mut self, _: io::SeekFrom) -> io::Result<u64> {
            Err(io::Error::new(KIND, "no seek"))
        }
    }
    let writer = || RecordWriter::with_defaults(Stuck::default());
    let mut flushed = writer();
    let error = flushed.flush().unwrap_err();
    assert_eq!((error.kind(), io_kind(&error)), (ErrorKind::Io, Some(KIND)));
    assert_eq!(
        flushed.write_record(b"").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(writer().finish().unwrap_err().kind(), ErrorKind::Io);
    let mut streamed = writer();
    let error = streamed
        .write_record_from(&mut &b"x"[..], 1, Compression::None)
        .unwrap_err();
    assert_eq!((error.kind(), io_kind(&error)), (ErrorKind::Io, Some(KIND)));
    assert_eq!(streamed.flush().unwrap_err().kind(), ErrorKind::Closed);
}
