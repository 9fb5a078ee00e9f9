//! Tests of reading records two at a time.
use std::io::Write;

use record_file::{
    Compression, ErrorKind, PairStep, ReadAt, ReaderOptions, RecordFile, RecordPair,
    RecordPosition, RecordWriter, WantedRecord, Watch, WriterOptions,
};

use crate::support::noise;

/// An observer that keeps all bytes, and the number of the record.
struct Seen(usize, Vec<u8>);

impl Watch for Seen {
    fn see(&mut self, bytes: &[u8]) {
        self.1.extend_from_slice(bytes);
    }
}

type Written = Vec<(RecordPosition, Vec<u8>)>;

/// Returns a file with records of many different lengths, with every compression, alone in their
/// chunks and together with others.
fn written() -> (Vec<u8>, Written) {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let mut written = Written::new();
    let ways = [
        Compression::None,
        Compression::zstd(1),
        Compression::SNAPPY,
        Compression::brotli(1),
    ];
    let lens = [
        0, 1, 255, 256, 257, 65_000, 65_536, 131_072, 131_073, 400_000,
    ];
    for (len, way) in lens.iter().flat_map(|len| ways.map(|way| (*len, way))) {
        for record in [noise(len, 7), vec![1; len]] {
            let position = writer.write_record_alone(&record, way).unwrap();
            written.push((position, record));
        }
        let record = noise(len % 300, 3);
        writer.write_record(&record).unwrap();
        written.push((writer.last_position().unwrap(), record));
    }
    (writer.finish().unwrap(), written)
}

/// Returns the result of each record, and the bytes of the record that were observed.
fn read_all<S: ReadAt>(
    file: &RecordFile<S>,
    written: &Written,
    places: &mut [Vec<u8>],
    lanes: usize,
) -> Vec<(Result<(), ErrorKind>, Vec<u8>)> {
    let mut wanted = written.iter().zip(places).enumerate();
    let mut ended: Vec<_> = written.iter().map(|_| None).collect();
    let mut pair = RecordPair::new();
    while let Some(step) = pair.step(|lane| {
        let (index, ((position, _), place)) = (lane < lanes).then(|| wanted.next()).flatten()?;
        Some(WantedRecord {
            file,
            position: *position,
            chunk: None,
            place,
            watch: Seen(index, Vec::new()),
        })
    }) {
        if let PairStep::Ended(Seen(index, seen), result) = step {
            let result = result.map_err(|error| error.kind());
            assert!(ended[index].replace((result, seen)).is_none());
        }
    }
    ended.into_iter().map(Option::unwrap).collect()
}

fn check<S: ReadAt>(source: S, options: ReaderOptions, written: &Written) {
    let file = RecordFile::open(source, options).unwrap();
    for lanes in [1, 2] {
        let mut places: Vec<_> = written.iter().map(|(_, r)| vec![9; r.len()]).collect();
        let ended = read_all(&file, written, &mut places, lanes);
        for (((_, record), place), (result, seen)) in written.iter().zip(places).zip(ended) {
            assert_eq!(result, Ok(()));
            assert!(place == *record, "{} bytes", record.len());
            assert!(seen == *record, "{} bytes were seen", seen.len());
        }
    }
}

#[test]
fn every_record_comes_to_its_place_and_is_seen_on_the_way() {
    let (bytes, written) = written();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let options = ReaderOptions::new();
    for options in [options, options.stream_from(0), options.stream_from(1000)] {
        check(&bytes, options, &written);
        check(&file, options, &written);
    }
}

#[test]
fn a_damaged_record_fails_alone() {
    let (mut bytes, written) = written();
    let damaged = |index: usize| index % 5 == 2;
    for (index, (position, record)) in written.iter().enumerate() {
        let begin = usize::try_from(position.chunk_begin().0).unwrap();
        // The damaged byte is the last byte of the chunk's data, which belongs to this record and
        // is not in a block header.
        let alone = index % 3 != 2;
        if damaged(index) && alone && !record.is_empty() {
            let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
            let chunk = file.chunk_header_at(position.chunk_begin()).unwrap();
            let last = usize::try_from(chunk.end().0).unwrap() - 1;
            assert!(last > begin + 40);
            bytes[last] ^= 1;
        }
    }
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let mut places: Vec<_> = written.iter().map(|(_, r)| vec![9; r.len()]).collect();
    let ended = read_all(&file, &written, &mut places, 2);
    let mut failed = 0;
    for (index, (result, _)) in ended.into_iter().enumerate() {
        let (_, record) = &written[index];
        if damaged(index) && index % 3 != 2 && !record.is_empty() {
            assert_eq!(result, Err(ErrorKind::ChecksumMismatch), "record {index}");
            failed += 1;
        } else {
            assert_eq!(result, Ok(()), "record {index}");
            assert!(places[index] == *record, "record {index}");
        }
    }
    assert!(failed > 10);
}

#[test]
fn a_place_of_another_length_and_a_position_of_no_record_are_refused() {
    let (bytes, written) = written();
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    let (position, record) = &written[9];
    let read = |position, len| {
        let wanted = WantedRecord {
            file: &file,
            position,
            chunk: None,
            place: &mut vec![0; len],
            watch: (),
        };
        wanted.read().unwrap_err().kind()
    };
    let len = record.len();
    assert_eq!(read(*position, len + 1), ErrorKind::InvalidConfig);
    let none = RecordPosition::new(position.chunk_begin().0, 1);
    assert_eq!(read(none, len), ErrorKind::InvalidPosition);
}
