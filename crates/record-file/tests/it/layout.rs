//! Tests of the layout around block boundaries, which compare files with files assembled byte by
//! byte.
use record_file::{
    Compression, ReaderOptions, RecordFile, RecordPosition, RecordReader, RecordWriter,
    WriterOptions,
};

use crate::support::frame::{self, Frame, varint_of};
use crate::support::noise;

const BLOCK: usize = 1 << 16;

/// Returns the data of a simple chunk with one record.
fn data(record: &[u8]) -> Vec<u8> {
    let size = varint_of(record.len() as u64);
    [&[0], &varint_of(size.len() as u64)[..], &size, record].concat()
}

fn check(records: &[&[u8]]) {
    let chunks: Vec<_> = records.iter().map(|record| data(record)).collect();
    let frames: Vec<_> = records
        .iter()
        .zip(&chunks)
        .map(|(record, data)| Frame::new(b'r', 1, record.len() as u64, data))
        .collect();
    let expected = frame::file(&frames);
    let options = WriterOptions::new().compression(Compression::None);
    let mut writer = RecordWriter::new(Vec::new(), options.chunk_size(1)).unwrap();
    let mut positions = Vec::new();
    for record in records {
        writer.write_record(record).unwrap();
        positions.extend(writer.last_position());
    }
    let len = records[0].len();
    assert!(writer.finish().unwrap() == expected, "{len}");

    let file = RecordFile::open(&expected, ReaderOptions::new()).unwrap();
    let mut reader = RecordReader::new(&expected, ReaderOptions::new());
    let mut stream = RecordReader::from_read(&expected[..], ReaderOptions::new());
    for (position, record) in positions.iter().zip(records) {
        assert!(file.read_record(*position).unwrap() == *record, "{len}");
        assert!(reader.read_record().unwrap() == Some(record), "{len}");
        assert!(stream.read_record().unwrap() == Some(record), "{len}");
        assert_eq!(reader.last_position(), Some(*position));
        // The record is found by its number, through the header of its block.
        assert_eq!(file.locate(position.numeric()).unwrap(), *position);
    }
    // A chunk never begins within a block header or at its end.
    let begins = positions.iter().map(|position| position.chunk_begin().0);
    assert!(
        begins
            .into_iter()
            .all(|begin| !(1..=24).contains(&(begin % BLOCK as u64)))
    );
}

#[test]
fn chunks_end_and_headers_are_cut_at_every_place_around_a_boundary() {
    let noise = noise(2 * BLOCK, 1);
    // The end of the first chunk moves from 130 bytes before the end of the first block to 100
    // bytes after it, including the block's exact end, and 1, 24 and 25 bytes after it. Thus, the
    // boundary is at every place in the header of the next chunk, and then in that chunk's data.
    let front = 64 + 40 + data(b"").len() + 2;
    for end in BLOCK - 130..BLOCK + 100 {
        check(&[
            &noise[..end - front],
            b"the next one, whose data may be cut as well",
            b"",
        ]);
    }
}

#[test]
fn a_chunk_that_begins_with_a_block_begins_in_front_of_its_header() {
    let front = 64 + 40 + data(b"").len() + 2;
    let first = noise(BLOCK - front, 1);
    let long = noise(3 * BLOCK, 2);
    for second in [&b""[..], b"short", &long] {
        check(&[&first, second, b"last"]);
        let options = WriterOptions::new().compression(Compression::None);
        let mut writer = RecordWriter::new(Vec::new(), options.chunk_size(1)).unwrap();
        writer.write_record(&first).unwrap();
        assert_eq!(writer.position(), RecordPosition::new(BLOCK as u64, 0));
    }
}
