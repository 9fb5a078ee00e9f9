//! Tests in which each call to the underlying source or sink fails, for every way to write or read
//! a file.
use std::cmp::Ordering;
use std::io::{self, Cursor};

use record_file::{
    Compression, EncodedRecord, Error, ErrorKind, ReaderOptions, RecordFile, RecordReader,
    RecordWriter, SearchGuide, WriterOptions, plain_record_end,
};

use crate::hostile_io::offsets;
use crate::support::io::{Fault, From, Hostile, KIND, Manner, io_kind};
use crate::support::{noise, records};

type Sink = Hostile<Cursor<Vec<u8>>>;

fn compressions() -> [Compression; 3] {
    [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
    ]
}

/// Returns a file to copy from or to continue.
fn existing() -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for compression in compressions() {
        writer.write_record(b"between").unwrap();
        writer
            .write_record_alone(&noise(66_000, 4), compression)
            .unwrap();
    }
    writer.finish().unwrap()
}

/// The name of a way to write a file, and the function that does it.
type Way = (&'static str, fn(Sink) -> Result<Sink, Error>);

/// Writes streamed records, whose headers are filled in afterwards.
fn streams(sink: Sink) -> Result<Sink, Error> {
    let mut writer = RecordWriter::new(sink, WriterOptions::new().chunk_size(100))?;
    for compression in compressions() {
        writer.write_record(b"between")?;
        let record = noise(140_000, 8);
        writer.write_record_from(&mut &record[..], record.len() as u64, compression)?;
    }
    writer.finish()
}

/// Writes records that are in memory with a seekable writer, which streams them.
fn streams_slices(sink: Sink) -> Result<Sink, Error> {
    let options = WriterOptions::new()
        .compression(Compression::zstd(1))
        .chunk_size(100)
        .stream_from(0);
    let mut writer = RecordWriter::new(sink, options)?.seekable();
    for compression in compressions() {
        writer.write_record(b"between")?;
        let record = noise(140_000, 8);
        writer.write_record_slices(&[&record[..7], &record[7..]])?;
        writer.write_record_alone(&record, compression)?;
    }
    writer.finish()
}

fn copied(sink: Sink) -> Result<Sink, Error> {
    let bytes = existing();
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let mut writer = RecordWriter::new(sink, WriterOptions::new())?;
    for chunk in file.chunks().skip(1) {
        writer.copy_chunk(&file, &chunk.unwrap())?;
    }
    writer.finish()
}

fn appended(mut sink: Sink) -> Result<Sink, Error> {
    // Creating the existing file isn't part of the test.
    let bytes = existing();
    sink.inner_mut().get_mut().extend_from_slice(&bytes);
    let options = WriterOptions::new().padding(1 << 16);
    let mut writer = RecordWriter::append(sink, options)?;
    writer.write_record(b"more")?;
    writer.finish()
}

fn appended_where_no_chunk_can_begin(sink: Sink) -> Result<Sink, Error> {
    let mut writer = RecordWriter::append_at(sink, (1 << 16) + 10, WriterOptions::new())?;
    writer.write_record(b"more")?;
    writer.finish()
}

fn encoded(sink: Sink) -> Result<Sink, Error> {
    let mut writer = RecordWriter::new(sink, WriterOptions::new())?;
    for compression in compressions() {
        let (record, mut data) = (noise(140_000, 8), Vec::new());
        let len = record.len() as u64;
        let encoded = EncodedRecord::encode(&mut &record[..], len, compression, &mut data)?;
        assert_eq!(encoded.data_size(), data.len() as u64);
        let position = writer.write_encoded_record(&encoded, &mut &data[..])?;
        let end = encoded.end(position.chunk_begin().0)?;
        assert_eq!(writer.position().numeric(), end);
    }
    writer.finish()
}

fn read_before(sink: Sink) -> Result<Sink, Error> {
    let mut writer = RecordWriter::new(sink, WriterOptions::new())?;
    let record = noise(140_000, 8);
    let (len, none) = (record.len() as u64, Compression::None);
    let before = EncodedRecord::encode(&mut &record[..], len, none, &mut std::io::sink())?;
    writer.write_plain_record(&before, &mut &record[..])?;
    writer.finish()
}

fn encoded_data(mut sink: Sink) -> Result<Sink, Error> {
    for compression in compressions() {
        let record = noise(140_000, 8);
        let len = record.len() as u64;
        EncodedRecord::encode(&mut &record[..], len, compression, &mut sink)?;
    }
    Ok(sink)
}

fn placed(sink: Sink) -> Result<Sink, Error> {
    let begin = plain_record_end(64, 140_000)?;
    let mut writer = RecordWriter::starting_at(sink, begin)?;
    let record = noise(140_000, 8);
    writer.write_record_from(&mut &record[..], record.len() as u64, Compression::None)?;
    writer.finish()
}

const WAYS: [Way; 9] = [
    ("write_record_from", streams),
    ("seekable", streams_slices),
    ("copy_chunk", copied),
    ("append", appended),
    ("append_at", appended_where_no_chunk_can_begin),
    ("write_encoded_record", encoded),
    ("EncodedRecord::encode", encoded_data),
    ("write_plain_record", read_before),
    ("starting_at", placed),
];

fn sink(from: From, fault: Fault) -> Sink {
    Hostile::new(Cursor::new(Vec::new()), Manner::failing_from(from, fault))
}

fn check(error: &Error, fault: Fault, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Io, "{what}: {error}");
    let expected = match fault {
        Fault::Error => KIND,
        Fault::Zero => io::ErrorKind::WriteZero,
    };
    assert_eq!(io_kind(error), Some(expected), "{what}: {error}");
}

#[test]
fn a_sink_that_fails_at_any_call_is_an_error_in_every_way_of_writing() {
    for (name, write) in WAYS {
        let whole = write(sink(From::Calls(u64::MAX), Fault::Error)).unwrap();
        let (calls, _) = whole.counts();
        assert!(calls >= 2, "{name}: {calls}");
        for call in 0..calls {
            let what = format!("{name}, call {call} of {calls}");
            check(
                &write(sink(From::Calls(call), Fault::Error)).unwrap_err(),
                Fault::Error,
                &what,
            );
            // A full disk still allows seeks and flushes, so a run in which only such calls are
            // left succeeds.
            if let Err(error) = write(sink(From::Calls(call), Fault::Zero)) {
                check(&error, Fault::Zero, &what);
            }
        }
    }
}

#[test]
fn a_sink_that_fails_after_any_number_of_bytes_is_an_error_in_every_way_of_writing() {
    for (name, write) in WAYS {
        let whole = write(sink(From::Bytes(u64::MAX), Fault::Error)).unwrap();
        let (_, bytes) = whole.counts();
        // Headers are filled in at the end of each record, so some tested numbers of bytes are
        // consecutive, and others are far apart.
        let few = (0..120).chain(bytes.saturating_sub(200)..bytes);
        for bytes in few.chain((0..bytes).step_by(1999)) {
            for fault in [Fault::Error, Fault::Zero] {
                let what = format!("{name}, after {bytes} bytes");
                check(
                    &write(sink(From::Bytes(bytes), fault)).unwrap_err(),
                    fault,
                    &what,
                );
            }
        }
    }
}

#[test]
fn a_header_that_could_not_be_written_back_leads_to_no_other_record() {
    let record = noise(140_000, 8);
    let ways = compressions()
        .into_iter()
        .flat_map(|compression| [(compression, true), (compression, false)]);
    // The header of an uncompressed record in memory is known before the record is written, so it
    // isn't filled in later.
    for (compression, from_source) in ways.filter(|way| *way != (Compression::None, false)) {
        let write = |from| {
            let mut file = Cursor::new(Vec::new());
            let sink = Hostile::new(&mut file, Manner::failing_from(from, Fault::Error));
            let options = WriterOptions::new().stream_from(0);
            let mut writer = RecordWriter::new(sink, options).unwrap().seekable();
            writer.write_record(b"before").unwrap();
            writer.flush().unwrap();
            let written = if from_source {
                writer.write_record_from(&mut &record[..], 140_000, compression)
            } else {
                writer.write_record_alone(&record, compression)
            };
            let counts = writer.get_ref().counts();
            if written.is_err() {
                let error = writer.flush().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed);
            }
            drop(writer);
            (counts, written, file.into_inner())
        };
        let ((_, all), _, whole) = write(From::Bytes(u64::MAX));
        let written_back = all - whole.len() as u64;
        // The header is filled in later and, if the length wasn't known, so are the block headers
        // in the record.
        let blocks = if compression == Compression::None {
            0
        } else {
            2
        };
        assert_eq!(written_back, 40 + 24 * blocks);
        for left in 1..=written_back {
            let (_, written, file) = write(From::Bytes(all - left));
            assert_eq!(io_kind(&written.unwrap_err()), Some(KIND), "{left}");
            let mut reader = RecordReader::new(file, ReaderOptions::new());
            assert_eq!(reader.read_record().unwrap(), Some(&b"before"[..]));
            match reader.read_record() {
                Err(error) => assert!(error.is_corrupt(), "{left}: {error}"),
                // The missing bytes were already in place: they are zeros in a length, or the end
                // of a header after its hashes.
                Ok(read) => {
                    let same = if blocks == 0 { 16 } else { 7 };
                    assert!(left <= same && read == Some(&record[..]), "{left}");
                }
            }
        }
    }
}

#[test]
fn a_copied_chunk_whose_source_fails_or_is_damaged_is_an_error() {
    let bytes = existing();
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let chunks: Vec<_> = file.chunks().map(Result::unwrap).collect();
    for chunk in &chunks[1..] {
        let copy = |source: &dyn record_file::ReadAt| {
            let file = RecordFile::open(source, ReaderOptions::new()).unwrap();
            let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
            let copied = writer.copy_chunk(&file, chunk);
            let after = writer.write_record(b"");
            assert_eq!(after.is_err(), copied.is_err());
            copied.map(drop)
        };
        copy(&bytes).unwrap();
        let data = chunk.begin().0 + 40;
        for at in [data, data + chunk.header.data_size / 2] {
            let failing = Hostile::new(&bytes[..], Manner::failing(at, Fault::Error));
            let error = copy(&failing).unwrap_err();
            assert_eq!(io_kind(&error), Some(KIND), "{error}");
            let mut bad = bytes.clone();
            bad[usize::try_from(at).unwrap()] ^= 1;
            let error = copy(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{error}");
        }
    }
}

/// Returns sorted records in small chunks, with large records between them.
fn sorted() -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(Compression::zstd(1))
        .chunk_size(60);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for index in 0..60u32 {
        let mut record = index.to_be_bytes().to_vec();
        if index % 10 == 0 {
            record.extend(noise(20_000, 3));
        }
        writer.write_record(&record).unwrap();
    }
    writer.finish().unwrap()
}

type Source<'a> = Hostile<&'a [u8]>;
type Reading = (&'static str, fn(&Source<'_>) -> Result<String, Error>);

const READINGS: [Reading; 9] = [
    ("seek", |source| {
        let (last, _) = records(source.get_ref()).pop().unwrap();
        let mut reader = RecordReader::new(source, ReaderOptions::new());
        reader.seek(last)?;
        Ok(format!("{:?}", reader.read_record()?))
    }),
    ("seek_numeric", |source| {
        let mut reader = RecordReader::new(source, ReaderOptions::new());
        reader.seek_numeric(60_000)?;
        Ok(format!(
            "{:?} at {}",
            reader.read_record()?.map(<[u8]>::len),
            reader.position()
        ))
    }),
    ("seek_back", |source| {
        let mut reader = RecordReader::new(source, ReaderOptions::new());
        reader.seek_numeric(source.get_ref().len() as u64)?;
        let mut count = 0;
        while reader.seek_back()? {
            count += 1;
        }
        Ok(count.to_string())
    }),
    ("search", |source| {
        let mut reader = RecordReader::new(source, ReaderOptions::new());
        let found = reader.search(|record| match record.first_chunk() {
            Some(key) => SearchGuide::Order(u32::from_be_bytes(*key).cmp(&41)),
            None => SearchGuide::Order(Ordering::Less),
        })?;
        Ok(format!("{found:?} {:?}", reader.read_record()?))
    }),
    ("last_record", |source| {
        let file = RecordFile::open(source, ReaderOptions::new())?;
        Ok(format!("{:?}", file.last_record()?))
    }),
    ("locate", |source| {
        let file = RecordFile::open(source, ReaderOptions::new())?;
        let (last, _) = records(source.get_ref()).pop().unwrap();
        Ok(format!("{:?}", file.locate(last.numeric())?))
    }),
    ("a reader with threads", |source| {
        let mut reader = RecordReader::new(source, ReaderOptions::new().threads(2));
        let mut lens = Vec::new();
        while let Some(record) = reader.read_record()? {
            lens.push(record.len());
        }
        Ok(format!("{lens:?}"))
    }),
    ("read_records_into", |source| into(source, 0)),
    ("read_records_into on threads", |source| into(source, 2)),
];

fn into(source: &Source<'_>, threads: u32) -> Result<String, Error> {
    let expected = records(source.get_ref());
    let options = ReaderOptions::new().threads(threads);
    let file = RecordFile::open(source, options)?;
    let mut all: Vec<_> = expected
        .iter()
        .map(|(_, record)| vec![0; record.len()])
        .collect();
    let positions = expected.iter().map(|(position, _)| *position);
    file.read_records_into(positions.zip(all.iter_mut().map(Vec::as_mut_slice)))?;
    Ok(format!(
        "{}",
        all.into_iter()
            .eq(expected.into_iter().map(|(_, record)| record))
    ))
}

#[test]
fn a_source_that_fails_at_any_call_is_an_error_in_every_way_of_reading_or_hides_nothing() {
    let bytes = sorted();
    for (name, read) in READINGS {
        let whole = Hostile::new(&bytes[..], Manner::KIND);
        let expected = read(&whole).unwrap();
        let (calls, _) = whole.counts();
        let mut errors = 0;
        for call in 0..calls {
            let manner = Manner::failing_from(From::Calls(call), Fault::Error);
            match read(&Hostile::new(&bytes[..], manner)) {
                Err(error) => {
                    assert_eq!(io_kind(&error), Some(KIND), "{name}, call {call}: {error}");
                    errors += 1;
                }
                // Reading ahead may fail without effect.
                Ok(result) => assert_eq!(result, expected, "{name}, call {call}"),
            }
        }
        assert!(errors > 0, "{name}: {calls} calls");
    }
}

#[test]
fn a_source_that_fails_at_any_byte_is_an_error_in_every_way_of_reading_or_hides_nothing() {
    let bytes = sorted();
    for (name, read) in READINGS {
        let expected = read(&Hostile::new(&bytes[..], Manner::KIND)).unwrap();
        for at in offsets(&bytes).into_iter().step_by(29) {
            let manner = Manner::failing(at, Fault::Error);
            match read(&Hostile::new(&bytes[..], manner)) {
                Err(error) => assert_eq!(io_kind(&error), Some(KIND), "{name}, {at}: {error}"),
                Ok(result) => assert_eq!(result, expected, "{name}, {at}"),
            }
        }
    }
}
