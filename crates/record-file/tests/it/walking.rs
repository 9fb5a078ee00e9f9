//! Tests of navigation in a file: chunks without records, alternating kinds of chunks, and
//! positions before, between and after records.
use std::cmp::Ordering;
use std::io::Cursor;

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordFile, RecordPosition, RecordReader, RecordWriter,
    SearchResult, WriterOptions,
};

use crate::support::frame::{self, Frame};
use crate::support::noise;

/// Returns the data of a simple chunk with one record of less than 128 bytes.
fn one(record: &[u8]) -> Vec<u8> {
    let len = record.len().to_le_bytes()[0];
    [&[0, 1, len], record].concat()
}

/// Returns a file with records between chunks without records: padding, metadata in the middle, an
/// empty simple chunk, and a chunk of an unknown type.
fn with_gaps() -> (Vec<u8>, Vec<RecordPosition>) {
    let empty = [0, 0];
    let gaps = [
        Frame::new(b'p', 0, 0, &[0; 30]),
        Frame::new(b'r', 0, 0, &empty),
        Frame::new(b'?', 0, 9, b"later"),
        Frame::new(b's', 0, 0, b""),
    ];
    let mut file = frame::file(&gaps);
    let mut positions = Vec::new();
    for record in [&b"a"[..], b"b", b"c"] {
        let data = one(record);
        let frame = Frame::new(b'r', 1, record.len() as u64, &data);
        let begin = frame::push(&mut file, &frame);
        positions.push(RecordPosition::new(begin as u64, 0));
        for gap in &gaps {
            frame::push(&mut file, gap);
        }
    }
    (file, positions)
}

fn reader(file: &[u8]) -> RecordReader<&[u8]> {
    RecordReader::new(file, ReaderOptions::new())
}

#[test]
fn chunks_without_records_are_passed_over_in_both_directions() {
    let (file, positions) = with_gaps();
    let mut reader = reader(&file);
    for (position, record) in positions.iter().zip([b"a", b"b", b"c"]) {
        assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
        assert_eq!(reader.last_position(), Some(*position));
    }
    assert_eq!(reader.read_record().unwrap(), None);
    for (position, record) in positions.iter().zip([b"a", b"b", b"c"]).rev() {
        assert!(reader.seek_back().unwrap());
        assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
        assert_eq!(reader.last_position(), Some(*position));
        assert!(reader.seek_back().unwrap());
    }
    assert!(!reader.seek_back().unwrap());
    let random = RecordFile::open(&file, ReaderOptions::new()).unwrap();
    assert_eq!(random.last_record().unwrap(), positions.last().copied());
    assert_eq!(random.metadata().unwrap(), None);
}

#[test]
fn seeking_to_a_chunk_without_records_leads_to_the_next_one_with() {
    let (file, positions) = with_gaps();
    let random = RecordFile::open(&file, ReaderOptions::new()).unwrap();
    let mut reader = reader(&file);
    for chunk in random.chunks().map(Result::unwrap) {
        let begin = chunk.begin();
        let next = positions
            .iter()
            .find(|position| position.chunk_begin() >= begin)
            .copied();
        for index in [0, 1] {
            if index == 1 && chunk.header.num_records == 1 {
                continue;
            }
            reader.seek(RecordPosition::new(begin.0, index)).unwrap();
            reader.read_record().unwrap();
            assert_eq!(reader.last_position(), next, "{begin}/{index}");
        }
    }
}

#[test]
fn very_many_chunks_without_records_cost_no_stack() {
    let padding = Frame::new(b'p', 0, 0, b"");
    let data = one(b"x");
    let record = Frame::new(b'r', 1, 1, &data);
    let mut file = frame::file(std::slice::from_ref(&record));
    for _ in 0..20_000 {
        frame::push(&mut file, &padding);
    }
    let begin = frame::push(&mut file, &record) as u64;
    let end = file.len() as u64;
    let mut reader = reader(&file);
    assert!(reader.read_record().unwrap().is_some());
    assert!(reader.read_record().unwrap().is_some());
    assert_eq!(reader.last_position(), Some(RecordPosition::new(begin, 0)));
    assert!(reader.seek_back().unwrap() && reader.seek_back().unwrap());
    assert_eq!(reader.position(), RecordPosition::new(64, 0));
    reader.seek_numeric(end / 2).unwrap();
    assert!(reader.read_record().unwrap().is_some());
    assert_eq!(reader.last_position(), Some(RecordPosition::new(begin, 0)));
    let found = reader.search(|_| Ordering::Less.into()).unwrap();
    assert_eq!(found, SearchResult::Nothing);
    let last = RecordFile::open(
        &file[..usize::try_from(begin).unwrap()],
        ReaderOptions::new(),
    );
    assert_eq!(
        last.unwrap().last_record().unwrap(),
        Some(RecordPosition::new(64, 0))
    );
}

#[test]
fn ten_thousand_records_in_simple_and_transposed_chunks_by_turns() {
    let record = |index: u64| {
        let mut message = vec![0x08];
        frame::varint(&mut message, index);
        // Some records are not messages.
        message.extend(if index.is_multiple_of(7) {
            &b"\xff"[..]
        } else {
            b"\x12\x02hi"
        });
        message
    };
    let mut file = Cursor::new(Vec::new());
    for part in 0..10 {
        let options = WriterOptions::new()
            .compression(Compression::zstd(1))
            .chunk_size(3000)
            .transpose(part % 2 == 1);
        let mut writer = RecordWriter::append(file, options).unwrap();
        for index in 0..1000 {
            writer.write_record(&record(part * 1000 + index)).unwrap();
        }
        file = writer.finish().unwrap();
    }
    let file = file.into_inner();
    let mut reader = reader(&file);
    let mut count = 0;
    while let Some(read) = reader.read_record().unwrap() {
        assert_eq!(read, record(count));
        count += 1;
    }
    assert_eq!(count, 10_000);
    for _ in 0..3 {
        assert_eq!(reader.read_record().unwrap(), None);
    }
}

#[test]
fn the_beginning_has_two_names_and_the_last_position_is_that_of_what_was_read() {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    writer.write_record(b"first").unwrap();
    writer.write_record(b"second").unwrap();
    let file = writer.finish().unwrap();
    let mut reader = reader(&file);
    assert_eq!(reader.position(), RecordPosition::new(0, 0));
    assert_eq!(reader.last_position(), None);
    for begin in [0, 64] {
        reader.seek(RecordPosition::new(begin, 0)).unwrap();
        assert_eq!(reader.last_position(), None);
        assert_eq!(reader.read_record().unwrap(), Some(&b"first"[..]));
        assert_eq!(reader.last_position(), Some(RecordPosition::new(64, 0)));
        assert_eq!(reader.position(), RecordPosition::new(64, 1));
    }
    assert_eq!(reader.read_record().unwrap(), Some(&b"second"[..]));
    // The end of the chunk is where any later chunk would begin.
    let end = reader.position();
    assert_eq!(end, RecordPosition::new(64, 2));
    assert_eq!(reader.read_record().unwrap(), None);
    assert_eq!(reader.last_position(), Some(RecordPosition::new(64, 1)));
    reader.seek(end).unwrap();
    assert_eq!(reader.read_record().unwrap(), None);
    assert_eq!(reader.last_position(), None);
    // The reader goes from the end back to records that were read before.
    reader.seek_numeric(65).unwrap();
    assert_eq!(reader.read_record().unwrap(), Some(&b"second"[..]));
    let beyond = RecordPosition::new(file.len() as u64 + 1, 0);
    assert_eq!(
        reader.seek(beyond).unwrap_err().kind(),
        ErrorKind::InvalidPosition
    );
    reader.seek(RecordPosition::new(64, 0)).unwrap();
    assert_eq!(reader.read_record().unwrap(), Some(&b"first"[..]));
}

/// Returns a file with metadata, and numbers in chunks of three.
fn numbers(count: u32) -> Vec<u8> {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(36)
        .serialized_metadata(b"\x0a\x03sum".to_vec());
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for number in 0..count {
        writer.write_record(&number.to_be_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn numbers_lead_to_records_past_damage_that_lies_elsewhere() {
    let mut file = numbers(8000);
    let random = RecordFile::open(&file, ReaderOptions::new()).unwrap();
    let begins: Vec<_> = random
        .chunks()
        .map(|chunk| usize::try_from(chunk.unwrap().begin().0).unwrap())
        .collect();
    // Damages the data of a chunk near the beginning, and the header of a later chunk. Both are in
    // blocks before the block of the last chunks.
    file[begins[3] + 41] ^= 1;
    file[begins[20] + 3] ^= 1;
    let mut reader = reader(&file);
    let last = *begins.last().unwrap() as u64;
    for numeric in [last, last + 1, last - 40] {
        reader.seek_numeric(numeric).unwrap();
        assert!(reader.read_record().unwrap().is_some());
    }
    reader.seek_numeric(begins[2] as u64).unwrap();
    for _ in 0..3 {
        assert!(reader.read_record().unwrap().is_some());
    }
    let error = reader.read_record().unwrap_err();
    assert_eq!(error.offset(), Some(begins[3] as u64));
}

#[test]
fn searching_goes_on_from_any_state_and_as_often_as_wanted() {
    let file = numbers(1000);
    let mut reader = reader(&file);
    let find = |reader: &mut RecordReader<&[u8]>, number: u32| {
        let found = reader
            .search(|record| record.cmp(&number.to_be_bytes()[..]).into())
            .unwrap();
        assert_eq!(reader.last_position(), None);
        let read = reader.read_record().unwrap().map(<[u8]>::to_vec);
        (
            found,
            read.map(|read| u32::from_be_bytes(read.try_into().unwrap())),
        )
    };
    // Searches at the beginning (with metadata), after reading some records, after reading all
    // records, and for the same record twice.
    assert_eq!(find(&mut reader, 0), (SearchResult::Equal, Some(0)));
    assert_eq!(find(&mut reader, 999), (SearchResult::Equal, Some(999)));
    assert_eq!(reader.read_record().unwrap(), None);
    for number in [500, 500, 1, 998, 333] {
        assert_eq!(
            find(&mut reader, number),
            (SearchResult::Equal, Some(number))
        );
    }
    assert_eq!(find(&mut reader, 1000), (SearchResult::Nothing, None));
    // The reader goes back from the record found.
    assert_eq!(find(&mut reader, 300).0, SearchResult::Equal);
    assert!(reader.seek_back().unwrap() && reader.seek_back().unwrap());
    assert_eq!(
        reader.read_record().unwrap(),
        Some(&299u32.to_be_bytes()[..])
    );
}

#[test]
fn of_records_that_are_equal_one_is_found_and_all_are_around_it() {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .chunk_size(30);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for number in 0..300u32 {
        writer
            .write_record(&[(number / 100).to_le_bytes()[0]])
            .unwrap();
    }
    let file = writer.finish().unwrap();
    let mut reader = reader(&file);
    for value in 0..3 {
        let found = reader
            .search(|record| record.cmp(&[value][..]).into())
            .unwrap();
        assert_eq!(found, SearchResult::Equal);
        while reader.seek_back().unwrap() {
            if reader.read_record().unwrap() != Some(&[value][..]) {
                break;
            }
            assert!(reader.seek_back().unwrap());
        }
        let mut count = 0;
        while reader.read_record().unwrap() == Some(&[value][..]) {
            count += 1;
        }
        assert_eq!(count, 100, "{value}");
    }
}

#[test]
fn files_padded_to_blocks_are_one_file_when_put_together() {
    let mut all = Vec::new();
    let mut expected = Vec::new();
    for part in 0..3u64 {
        let options = WriterOptions::new()
            .transpose(part == 1)
            .final_padding(1 << 16)
            .serialized_metadata(vec![0x0a, 0]);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for index in 0..5 {
            let record = noise(1000 * index, part);
            writer.write_record(&record).unwrap();
            expected.push(record);
        }
        all.extend(writer.finish().unwrap());
    }
    let mut reader = reader(&all);
    assert_eq!(
        reader.read_metadata().unwrap().as_deref(),
        Some(&[0x0a, 0][..])
    );
    for record in &expected {
        assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
    }
    assert_eq!(reader.read_record().unwrap(), None);
    for record in expected.iter().rev() {
        assert!(reader.seek_back().unwrap());
        assert_eq!(reader.read_record().unwrap(), Some(&record[..]));
        assert!(reader.seek_back().unwrap());
    }
    assert!(!reader.seek_back().unwrap());
}
