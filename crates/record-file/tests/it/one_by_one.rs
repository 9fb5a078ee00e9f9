//! Tests of records that a reader streams or skips, alone or between records that it reads.
use std::io::{self, Read};

use record_file::{
    Compression, Error, ErrorKind, ReaderOptions, RecordFile, RecordInput, RecordReader,
    RecordWriter, WriterOptions,
};

use crate::support::io::{Hostile, Manner};
use crate::support::message::bytes_field;
use crate::support::{Records, noise, records, valid};

/// Returns a file with chunks of one, many and no records, with every compression, both simple and
/// transposed.
fn mixed() -> Vec<u8> {
    let mut file = Vec::new();
    for (index, compression) in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(2),
        Compression::SNAPPY,
    ]
    .into_iter()
    .enumerate()
    {
        let options = WriterOptions::new()
            .compression(compression)
            .chunk_size(5000)
            .transpose(index % 2 == 1)
            .padding(1 << 16);
        let mut writer = RecordWriter::append(io::Cursor::new(file), options).unwrap();
        for (seed, len) in [(1, 0), (2, 70_000), (3, 1), (4, 40_000), (5, 0), (6, 0)] {
            writer
                .write_record_alone(&noise(len, seed), compression)
                .unwrap();
            for small in 0..(seed % 3) * 7 {
                writer
                    .write_record(&bytes_field(1, &noise(800, small)))
                    .unwrap();
            }
            writer.push().unwrap();
        }
        file = writer.finish().unwrap().into_inner();
    }
    file
}

fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("mixed".to_owned(), mixed())];
    files.extend(
        valid()
            .into_iter()
            .map(|fixture| (fixture.name, fixture.bytes)),
    );
    files
}

fn all_options() -> Vec<ReaderOptions> {
    let options = [ReaderOptions::new(), ReaderOptions::new().stream_from(0)];
    let threads = options.map(|options| [options, options.threads(2)]);
    threads.into_iter().flatten().collect()
}

/// Reads, streams and skips records in a sequence that `seed` selects, and compares the results.
fn by_turns<I: RecordInput>(
    mut reader: RecordReader<I>,
    expected: &Records,
    seed: usize,
    what: &str,
) {
    for (index, (position, record)) in expected.iter().enumerate() {
        // With an odd seed, runs of four records are handled in the same way. Otherwise, each record is
        // handled in another way than the previous one.
        let turn = if seed % 2 == 1 { index / 4 } else { index };
        match (turn + seed) * 7 / 3 % 5 {
            0 => assert!(reader.read_record().unwrap() == Some(&record[..]), "{what}"),
            1 => assert!(reader.skip_record().unwrap(), "{what}"),
            2 => {
                // The stream is dropped before it is read.
                let stream = reader.read_record_stream().unwrap().unwrap();
                assert_eq!(stream.remaining(), record.len() as u64, "{what}");
            }
            3 => {
                let mut stream = reader.read_record_stream().unwrap().unwrap();
                assert_eq!(stream.position(), *position, "{what}");
                let mut half = vec![0; record.len() / 2];
                stream.read_exact(&mut half).unwrap();
                assert!(record.starts_with(&half), "{what}");
            }
            _ => {
                let mut stream = reader.read_record_stream().unwrap().unwrap();
                let front = record.len() as u64 / 3;
                stream.skip(front).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(record.ends_with(&rest), "{what}");
                assert_eq!(rest.len() as u64 + front, record.len() as u64, "{what}");
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{what}");
            }
        }
        assert_eq!(reader.last_position(), Some(*position), "{what}");
    }
    assert!(!reader.skip_record().unwrap(), "{what}");
    assert!(reader.read_record_stream().unwrap().is_none(), "{what}");
    assert_eq!(reader.read_record().unwrap(), None, "{what}");
}

#[test]
fn records_are_the_same_read_streamed_or_skipped_by_turns() {
    for (name, bytes) in files() {
        let expected = records(&bytes);
        for options in all_options() {
            for seed in 0..3 {
                let what = format!("{name}, {options:?}, {seed}");
                by_turns(RecordReader::new(&bytes, options), &expected, seed, &what);
                let hidden = Hostile::new(&bytes[..], Manner::KIND);
                by_turns(RecordReader::new(hidden, options), &expected, seed, &what);
                let plain = RecordReader::from_read(&bytes[..], options);
                by_turns(plain, &expected, seed, &what);
            }
        }
    }
}

#[test]
fn one_can_seek_and_go_back_from_behind_a_record_that_was_not_loaded() {
    let bytes = mixed();
    let expected = records(&bytes);
    for options in all_options() {
        let mut reader = RecordReader::new(&bytes, options);
        for (index, (position, record)) in expected.iter().enumerate() {
            assert!(reader.skip_record().unwrap());
            let behind = reader.position();
            assert!(reader.seek_back().unwrap());
            assert_eq!(reader.position(), *position, "{options:?}");
            assert!(reader.read_record().unwrap() == Some(&record[..]));
            // The reader returns to the same place by seeking to its position.
            reader.seek(behind).unwrap();
            assert_eq!(reader.position(), behind, "{options:?}");
            let next = expected.get(index + 1).map(|(_, record)| &record[..]);
            assert!(reader.read_record().unwrap() == next, "{options:?}");
            reader.seek(behind).unwrap();
        }
    }
}

/// Returns a file with records that are too large for the limit, alone in their chunks or together
/// in one chunk.
fn too_large(compression: Compression) -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(compression)
        .chunk_size(400_000);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for _ in 0..2 {
        writer.write_record(b"small").unwrap();
        writer
            .write_record_alone(&noise(300_000, 8), compression)
            .unwrap();
        writer
            .write_record_alone(&vec![7; 5_000_000], compression)
            .unwrap();
        for seed in 0..3 {
            writer.write_record(&noise(100_000, seed)).unwrap();
        }
        writer.push().unwrap();
    }
    writer.write_record(b"last").unwrap();
    writer.finish().unwrap()
}

/// Reads records if possible, streams the records that are too large but can be streamed, and skips
/// all others.
fn around_limits<I: RecordInput>(
    mut reader: RecordReader<I>,
    ask_first: bool,
    what: &str,
) -> Vec<u64> {
    let mut lens = Vec::new();
    loop {
        assert!(lens.len() < 100, "{what}: {lens:?}");
        if ask_first {
            match reader.read_record() {
                Ok(Some(record)) => {
                    lens.push(record.len() as u64);
                    continue;
                }
                Ok(None) => return lens,
                Err(error) => assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{what}: {error}"),
            }
        }
        match reader.read_record_stream() {
            Ok(Some(mut stream)) => lens.push(io::copy(&mut stream, &mut io::sink()).unwrap()),
            Ok(None) => return lens,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{what}: {error}");
                let again = reader.read_record().unwrap_err();
                assert_eq!(again.kind(), ErrorKind::LimitExceeded, "{what}: {again}");
                assert!(reader.skip_record().unwrap());
                lens.push(u64::MAX);
            }
        }
    }
}

#[test]
fn one_can_seek_and_go_back_behind_a_record_that_is_too_large() {
    let bytes = too_large(Compression::None);
    let options = ReaderOptions::new().max_chunk_memory(200_000);
    let mut reader = RecordReader::new(&bytes, options);
    for _ in 0..2 {
        assert!(reader.skip_record().unwrap());
    }
    let behind = reader.position();
    assert_eq!(
        reader.read_record().unwrap_err().kind(),
        ErrorKind::LimitExceeded
    );
    reader.seek(behind).unwrap();
    assert_eq!(reader.position(), behind);
    assert!(reader.seek_back().unwrap());
    let stream = reader.read_record_stream().unwrap().unwrap();
    assert_eq!(stream.remaining(), 300_000);
}

#[test]
fn a_record_that_is_too_large_for_memory_is_streamed_or_skipped_from_every_source() {
    let alone = [300_000, 5_000_000];
    for compression in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(1),
        Compression::SNAPPY,
    ] {
        let bytes = too_large(compression);
        let once = [&[5][..], &alone, &[u64::MAX; 3]].concat();
        let expected = [&once[..], &once, &[4]].concat();
        for options in all_options() {
            let options = options.max_chunk_memory(200_000);
            for ask_first in [false, true] {
                let what = format!("{compression}, {options:?}, {ask_first}");
                let random = RecordReader::new(&bytes, options);
                assert_eq!(around_limits(random, ask_first, &what), expected, "{what}");
                let hidden = RecordReader::new(Hostile::new(&bytes[..], Manner::KIND), options);
                assert_eq!(around_limits(hidden, ask_first, &what), expected, "{what}");
                let plain = RecordReader::from_read(&bytes[..], options);
                assert_eq!(around_limits(plain, ask_first, &what), expected, "{what}");
            }
        }
    }
}

fn from_io(error: io::Error) -> Error {
    *error.into_inner().unwrap().downcast().unwrap()
}

/// Streams all records to their ends, and returns the errors, and the lengths of the records read.
fn streamed<I: RecordInput>(reader: &mut RecordReader<I>) -> (Vec<ErrorKind>, Vec<usize>) {
    let (mut errors, mut lens) = (Vec::new(), Vec::new());
    // The number of errors is limited, since an error may repeat forever.
    while errors.len() < 5 {
        match reader.read_record_stream() {
            Ok(Some(mut stream)) => {
                let mut record = Vec::new();
                match stream.read_to_end(&mut record) {
                    Ok(len) => lens.push(len),
                    Err(error) => {
                        errors.push(from_io(error).kind());
                        let again = from_io(stream.read(&mut [0]).unwrap_err());
                        assert_eq!(again.kind(), ErrorKind::Closed);
                    }
                }
            }
            Ok(None) => break,
            Err(error) => errors.push(error.kind()),
        }
    }
    (errors, lens)
}

#[test]
fn damage_in_a_streamed_record_is_an_error_of_its_stream_and_reading_goes_on_behind_it() {
    for compression in [
        Compression::None,
        Compression::zstd(1),
        Compression::brotli(2),
    ] {
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        let mut alone = |len, seed| {
            writer
                .write_record_alone(&noise(len, seed), compression)
                .unwrap()
        };
        let damaged = [alone(10, 1), alone(200_000, 2), alone(30, 3)][1];
        let mut bytes = writer.finish().unwrap();
        let begin = usize::try_from(damaged.chunk_begin().0).unwrap();
        bytes[begin + 150_000] ^= 1;
        for threads in [0, 2] {
            // After a record is read, threads would already have the next chunks, but here no
            // record is read.
            let options = ReaderOptions::new().threads(threads).stream_from(0);
            let expected = (vec![ErrorKind::ChecksumMismatch], vec![10, 30]);
            let mut random = RecordReader::new(&bytes, options);
            assert_eq!(streamed(&mut random), expected, "{compression}");
            let mut plain = RecordReader::from_read(&bytes[..], options);
            assert_eq!(streamed(&mut plain), expected, "{compression}");
            let mut plain = RecordReader::from_read(&bytes[..], options)
                .on_damage(|region| panic!("said before: {region:?}"));
            assert_eq!(streamed(&mut plain), expected, "{compression}");
        }
    }
}

#[test]
fn damage_in_a_record_that_is_not_streamed_is_recovered_from_as_in_reading() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for (len, seed) in [(10, 1), (2000, 2), (30, 3)] {
        writer
            .write_record_alone(&noise(len, seed), Compression::None)
            .unwrap();
    }
    let mut bytes = writer.finish().unwrap();
    bytes[500] ^= 1;
    for threads in [0, 2] {
        let options = ReaderOptions::new().threads(threads);
        let mut random = RecordReader::new(&bytes, options).on_damage(|_| true);
        assert_eq!(streamed(&mut random), (vec![], vec![10, 30]));
        assert!(random.last_skipped().is_some());
        let mut plain = RecordReader::from_read(&bytes[..], options).on_damage(|_| true);
        assert_eq!(streamed(&mut plain), (vec![], vec![10, 30]));
        // Without a callback the error repeats, unless the record is skipped.
        let mut random = RecordReader::new(&bytes, options);
        skip_the_second(&mut random);
        let mut plain = RecordReader::from_read(&bytes[..], options);
        skip_the_second(&mut plain);
    }
}

fn skip_the_second<I: RecordInput>(reader: &mut RecordReader<I>) {
    assert_eq!(reader.read_record().unwrap().unwrap().len(), 10);
    for _ in 0..2 {
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        let error = reader.read_record_stream().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    }
    assert!(reader.skip_record().unwrap());
    assert_eq!(reader.read_record().unwrap().unwrap().len(), 30);
    assert_eq!(reader.read_record().unwrap(), None);
}

#[test]
fn a_file_that_ends_inside_a_skipped_record_is_cut_short() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for seed in 0..2 {
        writer
            .write_record_alone(&noise(100_000, seed), Compression::None)
            .unwrap();
    }
    let bytes = writer.finish().unwrap();
    for cut in [100_200, 131_000, 150_000, bytes.len() - 1] {
        for options in all_options() {
            let mut random = RecordReader::new(&bytes[..cut], options);
            ends_inside_the_second(&mut random);
            let mut plain = RecordReader::from_read(&bytes[..cut], options);
            ends_inside_the_second(&mut plain);
            let mut plain = RecordReader::from_read(&bytes[..cut], options).on_damage(|_| true);
            while plain.skip_record().unwrap() {}
            let region = plain.last_skipped().unwrap();
            assert_eq!(region.error.kind(), ErrorKind::Truncated);
            assert_eq!(region.end, cut as u64);
        }
    }
}

fn ends_inside_the_second<I: RecordInput>(reader: &mut RecordReader<I>) {
    assert!(reader.skip_record().unwrap());
    // A plain stream detects the truncation only at the end of the record.
    let error = reader.skip_record().and_then(|_| reader.skip_record());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Truncated);
    let error = reader.read_record().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
}

#[test]
fn a_file_and_a_reader_stream_a_record_alike() {
    let bytes = mixed();
    let options = ReaderOptions::new().stream_from(0);
    let file = RecordFile::open(&bytes, options).unwrap();
    let mut reader = RecordReader::new(&bytes, options);
    let mut count = 0;
    while let Some(mut stream) = reader.read_record_stream().unwrap() {
        let mut other = file.record_stream(stream.position()).unwrap();
        assert_eq!(stream.remaining(), other.remaining());
        let (mut a, mut b) = (Vec::new(), Vec::new());
        stream.read_to_end(&mut a).unwrap();
        other.read_to_end(&mut b).unwrap();
        assert!(a == b);
        count += 1;
    }
    assert!(count > 100, "{count}");
}
