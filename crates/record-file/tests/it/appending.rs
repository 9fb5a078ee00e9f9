//! Continuing an existing file.
use std::io::{Cursor, Read};

use record_file::{
    Compression, ErrorKind, ReaderOptions, RecordFile, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::noise;

const BLOCK: usize = 65_536;

fn plain() -> WriterOptions {
    WriterOptions::new().compression(Compression::None)
}

fn write(mut writer: RecordWriter<Vec<u8>>, records: &[&[u8]]) -> Vec<u8> {
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

fn read(file: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        records.push(record.to_vec());
    }
    records
}

fn append_at_end(file: Vec<u8>, options: WriterOptions) -> RecordWriter<Vec<u8>> {
    let end = file.len() as u64;
    RecordWriter::append_at(file, end, options).unwrap()
}

#[test]
fn a_file_continued_is_the_one_that_would_have_been_flushed_in_between() {
    let second = noise(100_000, 2);
    for len in (0..200).chain(BLOCK - 200..BLOCK) {
        let first = noise(len, 1);
        let mut whole = RecordWriter::new(Vec::new(), plain()).unwrap();
        whole.write_record(&first).unwrap();
        whole.flush().unwrap();
        let whole = write(whole, &[b"", &second]);
        let file = write(RecordWriter::new(Vec::new(), plain()).unwrap(), &[&first]);
        let file = write(append_at_end(file, plain()), &[b"", &second]);
        assert!(file == whole, "after a record of {len} bytes");
    }
}

#[test]
fn nothing_at_all_is_continued_as_a_new_file() {
    let new = write(RecordWriter::new(Vec::new(), plain()).unwrap(), &[b"one"]);
    let at_0 = RecordWriter::append_at(Vec::new(), 0, plain()).unwrap();
    assert_eq!(write(at_0, &[b"one"]), new);
    let mut seeking = RecordWriter::append(Cursor::new(Vec::new()), plain()).unwrap();
    seeking.write_record(b"one").unwrap();
    assert_eq!(seeking.finish().unwrap().into_inner(), new);
}

#[test]
fn padding_comes_before_what_is_appended_and_not_before_a_new_file() {
    for padding in [1, 50, 1000, BLOCK as u64] {
        let options = plain().initial_padding(padding);
        let file = write(
            RecordWriter::new(Vec::new(), options.clone()).unwrap(),
            &[b"one"],
        );
        assert!(file.len() < 200);
        let mut writer = append_at_end(file, options);
        writer.write_record(b"two").unwrap();
        let begin = writer.last_position().unwrap().chunk_begin();
        assert_eq!(begin.0 % padding, 0);
        assert_eq!(read(&writer.finish().unwrap()), [b"one", b"two"]);
    }
}

#[test]
fn where_no_chunk_can_begin_zeros_go_up_to_the_next_block() {
    let file = write(RecordWriter::new(Vec::new(), plain()).unwrap(), &[b"one"]);
    for extra in [1, 2, 23, 24] {
        let mut torn = file.clone();
        torn.resize(BLOCK + extra, 7);
        let mut writer = append_at_end(torn.clone(), plain());
        writer.write_record(b"two").unwrap();
        let position = writer.last_position().unwrap();
        assert_eq!(position.to_string(), format!("{}/0", 2 * BLOCK));
        let file = writer.finish().unwrap();
        assert!(file.starts_with(&torn));
        assert!(file[torn.len()..2 * BLOCK].iter().all(|&byte| byte == 0));
        let mut reader = RecordReader::new(file, ReaderOptions::new()).on_damage(|_| true);
        assert_eq!(reader.read_record().unwrap(), Some(&b"one"[..]));
        assert_eq!(reader.read_record().unwrap(), Some(&b"two"[..]));
        assert_eq!(reader.read_record().unwrap(), None);
    }
}

#[test]
fn a_file_on_disk_is_continued_at_its_end_with_streams_too() {
    let mut disk = tempfile::tempfile().unwrap();
    let record = noise(200_000, 5);
    for round in 0..3 {
        let mut writer = RecordWriter::append(&mut disk, WriterOptions::new()).unwrap();
        writer.write_record(&[round]).unwrap();
        writer
            .write_record_from(&mut &record[..], record.len() as u64, Compression::zstd(1))
            .unwrap();
        writer.sync().unwrap();
        writer.finish().unwrap();
    }
    let file = RecordFile::open(&disk, ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    let mut read = Vec::new();
    file.record_stream(last)
        .unwrap()
        .read_to_end(&mut read)
        .unwrap();
    assert!(read == record);
    let mut reader = RecordReader::new(&disk, ReaderOptions::new());
    for round in 0..3 {
        assert_eq!(reader.read_record().unwrap(), Some(&[round][..]));
        assert!(reader.read_record().unwrap() == Some(&record[..]));
    }
    assert_eq!(reader.read_record().unwrap(), None);
}

#[test]
fn a_position_beyond_all_files_is_refused_before_a_byte_is_written() {
    for position in [u64::MAX, u64::MAX - 70_000, 1 << 63] {
        let mut sink = Vec::new();
        let error = RecordWriter::append_at(&mut sink, position, plain()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(sink.is_empty());
    }
}
