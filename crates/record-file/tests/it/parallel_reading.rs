//! Tests of reading with several threads.
use std::io::Read;
use std::sync::{Arc, Mutex};

use record_file::{
    Compression, ErrorKind, FieldProjection, ReaderOptions, RecordFile, RecordInput,
    RecordPosition, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::{all, noise};

/// A result from a reader.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Record(RecordPosition, Vec<u8>),
    Skipped(u64, u64, String),
    Failed(ErrorKind, Option<u64>, String),
}

/// Returns the results of reading, up to the end of the file or to a repeated error.
fn events<I: RecordInput>(mut reader: RecordReader<I>, recover: bool) -> Vec<Event> {
    let events = Arc::new(Mutex::new(Vec::new()));
    if recover {
        let events = Arc::clone(&events);
        reader = reader.on_damage(move |region| {
            let error = region.error.to_string();
            let event = Event::Skipped(region.begin, region.end, error);
            events.lock().unwrap().push(event);
            true
        });
    }
    loop {
        let event = match reader.read_record() {
            Ok(None) => break,
            Ok(Some(record)) => {
                let record = record.to_vec();
                Event::Record(reader.last_position().unwrap(), record)
            }
            Err(error) => {
                let again = reader.read_record().unwrap_err();
                assert_eq!(again.to_string(), error.to_string());
                events.lock().unwrap().push(Event::Failed(
                    error.kind(),
                    error.offset(),
                    error.to_string(),
                ));
                break;
            }
        };
        events.lock().unwrap().push(event);
    }
    drop(reader);
    Arc::into_inner(events).unwrap().into_inner().unwrap()
}

fn options(threads: u32) -> ReaderOptions {
    ReaderOptions::new().threads(threads)
}

#[test]
fn every_file_reads_alike_on_any_number_of_threads_and_piece_by_piece_damaged_ones_too() {
    for fixture in all() {
        let bytes = &fixture.bytes[..];
        for recover in [false, true] {
            let random = |threads| events(RecordReader::new(bytes, options(threads)), recover);
            let stream =
                |threads| events(RecordReader::from_read(bytes, options(threads)), recover);
            let (serial, serial_stream) = (random(0), stream(0));
            // Decoding chunks while they are read must have the same results.
            let streamed = options(0).stream_from(0);
            let pieces = events(RecordReader::new(bytes, streamed), recover);
            assert!(pieces == serial, "{} {recover}", fixture.name);
            for threads in [1, 3] {
                assert!(random(threads) == serial, "{} {recover}", fixture.name);
                let left = options(threads).stream_from(2000);
                let left = events(RecordReader::new(bytes, left), recover);
                assert!(left == serial, "{} {recover}", fixture.name);
                assert!(
                    stream(threads) == serial_stream,
                    "{} {recover}",
                    fixture.name
                );
            }
        }
    }
}

/// Returns a file with many chunks, and the positions of its records.
fn written(text: &str) -> (Vec<u8>, Vec<(RecordPosition, Vec<u8>)>) {
    let mut writer = RecordWriter::new(Vec::new(), text.parse().unwrap()).unwrap();
    let mut records = Vec::new();
    for seed in 0..200 {
        let record = noise(usize::try_from(seed * seed % 3001).unwrap(), seed);
        writer.write_record(&record).unwrap();
        records.push((writer.last_position().unwrap(), record));
    }
    (writer.finish().unwrap(), records)
}

#[test]
fn seeking_drops_what_was_read_ahead() {
    let (file, records) = written("zstd:1,chunk_size:5000");
    let mut reader = RecordReader::new(&file, options(3));
    for (index, (position, _)) in records.iter().enumerate().rev().step_by(7) {
        reader.seek(*position).unwrap();
        for (_, record) in records.iter().skip(index).take(21) {
            assert!(reader.read_record().unwrap() == Some(&record[..]));
        }
    }
}

#[test]
fn a_projection_counts_at_once_for_what_was_read_ahead_with_another() {
    let options_of_file: WriterOptions = "transpose,zstd:1,chunk_size:100".parse().unwrap();
    let mut writer = RecordWriter::new(Vec::new(), options_of_file).unwrap();
    for number in 0..100 {
        writer.write_record(&[0x08, number, 0x10, number]).unwrap();
    }
    let mut reader = RecordReader::new(writer.finish().unwrap(), options(3));
    for number in 0..100 {
        let record = reader.read_record().unwrap().unwrap();
        match number / 30 % 2 {
            0 => assert_eq!(record, [0x08, number, 0x10, number]),
            _ => assert_eq!(record, [0x08, number]),
        }
        match number {
            29 | 89 => reader.set_field_projection(FieldProjection::none().field(&[1])),
            59 => reader.set_field_projection(FieldProjection::all()),
            _ => {}
        }
    }
}

/// Returns a file of small chunks. After every third small chunk, it has a large chunk with one
/// record.
fn mixed(text: &str) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), text.parse().unwrap()).unwrap();
    for seed in 0..24 {
        let large = seed % 4 == 3;
        let record = noise(if large { 70_000 } else { 900 }, seed);
        if large {
            writer.flush().unwrap();
        }
        writer.write_record(&record).unwrap();
        if large {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

/// Alternately reads, streams and skips records.
fn in_every_way<I: RecordInput>(
    mut reader: RecordReader<I>,
) -> Vec<(Option<RecordPosition>, Vec<u8>)> {
    let mut found = Vec::new();
    for way in 0.. {
        let mut record = Vec::new();
        let read = match way % 5 {
            0 => reader.skip_record().unwrap(),
            1 | 2 => {
                let stream = reader.read_record_stream().unwrap();
                stream
                    .map(|mut stream| stream.read_to_end(&mut record).unwrap())
                    .is_some()
            }
            _ => {
                let whole = reader.read_record().unwrap();
                whole.map(|whole| record.extend_from_slice(whole)).is_some()
            }
        };
        if !read {
            break;
        }
        found.push((reader.last_position(), record));
    }
    found
}

#[test]
fn chunks_large_and_small_are_read_alike_on_any_number_of_threads() {
    for text in [
        "uncompressed,chunk_size:2000",
        "zstd:1,chunk_size:2000",
        "snappy,chunk_size:2000",
        "transpose,brotli:1,chunk_size:2000",
    ] {
        let file = mixed(text);
        for stream_from in [1500, 10_000, 1 << 20] {
            let options = |threads| options(threads).stream_from(stream_from);
            let random = |threads| RecordReader::new(&file, options(threads));
            let stream = |threads| RecordReader::from_read(&file[..], options(threads));
            let (serial, ways) = (events(random(0), false), in_every_way(random(0)));
            assert_eq!(serial.len(), 24);
            for threads in [1, 2, 7] {
                let what = format!("{text}, {stream_from} on {threads}");
                assert!(events(random(threads), false) == serial, "{what}");
                assert!(events(stream(threads), false) == serial, "{what}");
                assert!(in_every_way(random(threads)) == ways, "{what}");
                assert!(in_every_way(stream(threads)) == ways, "{what}");
            }
        }
    }
}

#[test]
fn a_file_that_grew_is_read_on() {
    let (whole, records) = written("zstd:1,chunk_size:5000");
    let growing = Growing(Arc::new(Mutex::new(Vec::new())));
    let mut reader = RecordReader::new(growing.clone(), options(3));
    let mut read = Vec::new();
    // The file grows by a few chunks at a time.
    let file = RecordFile::open(&whole, ReaderOptions::new()).unwrap();
    let ends: Vec<_> = file.chunks().map(|chunk| chunk.unwrap().end().0).collect();
    for end in ends.iter().step_by(2).chain(ends.last()) {
        let end = usize::try_from(*end).unwrap();
        *growing.0.lock().unwrap() = whole[..end].to_vec();
        while let Some(record) = reader.read_record().unwrap() {
            read.push(record.to_vec());
        }
    }
    assert!(read.iter().eq(records.iter().map(|(_, record)| record)));
}

/// A source in memory that grows while it is read.
#[derive(Clone)]
struct Growing(Arc<Mutex<Vec<u8>>>);

impl record_file::ReadAt for Growing {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().read_at(offset, buf)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
}

#[test]
fn records_are_read_each_to_its_own_place() {
    for text in [
        "uncompressed",
        "zstd:1,chunk_size:10K",
        "brotli:1,chunk_size:1",
        "snappy,transpose",
    ] {
        let (file, records) = written(text);
        for threads in [0, 1, 4] {
            let file = RecordFile::open(&file, options(threads)).unwrap();
            let total = records.iter().map(|(_, record)| record.len()).sum();
            let mut memory = vec![0; total];
            let mut rest = &mut memory[..];
            let mut wanted = Vec::new();
            for (position, record) in &records {
                let (place, behind) = rest.split_at_mut(record.len());
                wanted.push((*position, place));
                rest = behind;
            }
            // The records may be requested in any order.
            wanted.reverse();
            file.read_records_into(wanted).unwrap();
            let expected: Vec<u8> = records.iter().flat_map(|(_, r)| r.clone()).collect();
            assert!(memory == expected, "{text} on {threads} threads");
        }
    }
}

#[test]
fn the_error_is_that_of_the_first_record_that_cannot_be_read() {
    let (mut file, records) = written("zstd:1,chunk_size:1");
    for (position, _) in records.iter().skip(100).step_by(10) {
        let begin = usize::try_from(position.chunk_begin().0).unwrap();
        file[begin + 80] ^= 1;
    }
    for threads in [0, 1, 4] {
        let file = RecordFile::open(&file, options(threads)).unwrap();
        let mut places: Vec<_> = records.iter().map(|(_, r)| vec![0; r.len()]).collect();
        let wanted = records.iter().zip(&mut places);
        let wanted = wanted.map(|((position, _), place)| (*position, &mut place[..]));
        let error = file.read_records_into(wanted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        assert_eq!(error.offset(), Some(records[100].0.chunk_begin().0));
    }
}

#[test]
fn the_error_is_that_of_the_first_record_whichever_fails_first() {
    let (small, large) = (1000, 8 << 20);
    for sizes in [[small, large], [large, small]] {
        let mut writer = RecordWriter::with_defaults(Vec::new());
        let positions = sizes.map(|size| {
            let record = vec![1; size];
            let position = writer.write_record_alone(&record, Compression::None);
            position.unwrap()
        });
        let mut file = writer.finish().unwrap();
        for position in positions {
            file[usize::try_from(position.chunk_begin().0).unwrap() + 80] ^= 1;
        }
        for threads in [1, 2] {
            let file = RecordFile::open(&file, options(threads)).unwrap();
            let mut places = sizes.map(|size| vec![0; size]);
            let wanted = places.iter_mut().map(|place| &mut place[..]);
            let error = file.read_records_into(positions.into_iter().zip(wanted));
            let begin = error.unwrap_err().offset();
            assert_eq!(begin, Some(positions[0].chunk_begin().0), "{sizes:?}");
        }
    }
}

#[test]
fn places_of_another_length_and_positions_of_no_record_are_refused() {
    let mut writer = RecordWriter::new(
        Vec::new(),
        WriterOptions::new().compression(Compression::None),
    )
    .unwrap();
    for record in [b"one", b"two"] {
        writer.write_record(record).unwrap();
    }
    let file = RecordFile::open(writer.finish().unwrap(), options(2)).unwrap();
    let (first, second) = (RecordPosition::new(64, 0), RecordPosition::new(64, 1));
    let mut places = [[0; 3]; 2];
    let [a, b] = &mut places;
    let wanted = [(first, &mut a[..]), (second, &mut b[..2])];
    let error = file.read_records_into(wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let none = RecordPosition::new(64, 2);
    let [a, b] = &mut places;
    let wanted = [(first, &mut a[..]), (none, &mut b[..])];
    let error = file.read_records_into(wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPosition);
    file.read_records_into([]).unwrap();
}

#[test]
fn every_flip_of_a_byte_is_found_alike_in_pieces_and_by_threads() {
    for text in ["zstd:3,chunk_size:300", "brotli:5,chunk_size:300", "snappy"] {
        let mut writer = RecordWriter::new(Vec::new(), text.parse().unwrap()).unwrap();
        for len in [0, 1, 150, 200, 3] {
            writer.write_record(&vec![b'x'; len]).unwrap();
        }
        let file = writer.finish().unwrap();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x10;
            for recover in [false, true] {
                let read = |options| events(RecordReader::new(&bad, options), recover);
                let whole = read(options(0));
                assert_eq!(read(options(0).stream_from(0)), whole, "{text} at {at}");
                assert_eq!(read(options(2)), whole, "{text} at {at}");
                let left = options(2).stream_from(160);
                assert_eq!(read(left), whole, "{text} at {at}");
            }
        }
    }
}
