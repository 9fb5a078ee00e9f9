//! Tests of writing with several threads.
use std::io::Cursor;

use record_file::{
    Compression, LaterPosition, ReaderOptions, RecordFile, RecordPosition, RecordWriter,
    WriterOptions,
};

use crate::support::noise;

/// Returns small and large records, some of them compressible.
fn records() -> Vec<Vec<u8>> {
    (0..250)
        .map(|seed| match seed % 10 {
            0 => Vec::new(),
            1 => vec![7; 20_000],
            2 => noise(70_000, seed),
            n => noise(usize::try_from(n * 300).unwrap(), seed),
        })
        .collect()
}

/// Writes a file with every method of a writer. Returns the file, and the positions that the writer
/// returned.
fn written(options: WriterOptions) -> (Vec<u8>, Vec<RecordPosition>) {
    let mut writer = RecordWriter::new(Cursor::new(Vec::new()), options).unwrap();
    let mut positions: Vec<LaterPosition> = Vec::new();
    for (index, record) in records().iter().enumerate() {
        match index {
            50 => {
                writer
                    .write_record_alone(record, Compression::SNAPPY)
                    .unwrap();
            }
            100 => {
                let len = record.len() as u64;
                writer
                    .write_record_from(&mut &record[..], len, Compression::None)
                    .unwrap();
            }
            _ => {
                let (front, back) = record.split_at(record.len() / 3);
                writer.write_record_slices(&[front, back]).unwrap();
            }
        }
        positions.extend(writer.last_position_later());
        match index {
            70 | 71 => writer.flush().unwrap(),
            140 => writer.push().unwrap(),
            _ => {}
        }
    }
    let bytes = writer.finish().unwrap().into_inner();
    let known = positions.iter().map(|later| later.get().unwrap());
    (bytes, known.collect())
}

#[test]
fn a_file_and_its_positions_do_not_depend_on_the_number_of_threads() {
    for text in [
        "uncompressed",
        "uncompressed,chunk_size:100K",
        "zstd:1",
        "zstd:3,chunk_size:1",
        "brotli:1,chunk_size:50K",
        "snappy,chunk_size:4K,padding:1000",
        "transpose,uncompressed",
        "transpose,zstd:1,chunk_size:20K,bucket_fraction:0.3",
    ] {
        let options: WriterOptions = text.parse().unwrap();
        let (serial, positions) = written(options.clone());
        for threads in [1, 2, 5] {
            let parallel = written(options.clone().threads(threads));
            assert!(parallel.0 == serial, "{text} on {threads} threads");
            assert_eq!(parallel.1, positions, "{text} on {threads} threads");
        }
        // A record that is too large to be copied is compressed in place, with the same result.
        let in_place = written(options.threads(2).max_copied(10_000));
        assert!(in_place.0 == serial, "{text} with few records copied");
        let file = RecordFile::open(serial, ReaderOptions::new()).unwrap();
        for (position, record) in positions.iter().zip(records()) {
            assert_eq!(file.locate(position.numeric()).unwrap(), *position);
            assert!(file.read_record(*position).unwrap() == record[..]);
        }
    }
}

/// Returns uncompressed records that threads copy and hash, records that threads only hash, and
/// records that are too small for threads.
fn large_records() -> Vec<Vec<u8>> {
    const MIB: usize = 1 << 20;
    let lens = [
        3 * MIB,
        10,
        MIB - 1,
        MIB,
        2 * MIB,
        0,
        100_000,
        MIB + 1,
        70_000,
        70_000,
        2 * MIB,
    ];
    let seeds = 0..lens.len() as u64;
    lens.iter()
        .zip(seeds)
        .map(|(&len, seed)| noise(len, seed))
        .collect()
}

#[test]
fn large_uncompressed_records_make_the_same_file_at_the_same_positions() {
    for chunk_size in ["1", "4K", "1M"] {
        let options: WriterOptions = format!("uncompressed,chunk_size:{chunk_size},padding:1000")
            .parse()
            .unwrap();
        let mut serial = RecordWriter::new(Vec::new(), options.clone()).unwrap();
        let mut expected = Vec::new();
        for record in large_records() {
            serial.write_record(&record).unwrap();
            expected.push(serial.last_position().unwrap());
        }
        let serial = serial.finish().unwrap();
        for (threads, asked, max_copied) in [
            (1, false, 1 << 30),
            (2, true, 1 << 30),
            (2, false, 2_000_000),
            (5, false, 1 << 30),
        ] {
            let options = options.clone().threads(threads).max_copied(max_copied);
            let what = format!("{options}, max_copied {max_copied}");
            let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
            let mut later = Vec::new();
            for (record, &position) in large_records().iter().zip(&expected) {
                let (front, back) = record.split_at(record.len() / 3);
                writer.write_record_slices(&[front, &[], back]).unwrap();
                if asked {
                    assert_eq!(writer.last_position(), Some(position), "{what}");
                }
                later.extend(writer.last_position_later());
            }
            assert!(writer.finish().unwrap() == serial, "{what}");
            let known: Vec<_> = later.iter().map(|later| later.get().unwrap()).collect();
            assert_eq!(known, expected, "{what}");
        }
    }
}

#[test]
fn positions_asked_for_while_chunks_are_encoded_are_those_the_records_get() {
    let options = WriterOptions::new()
        .compression(Compression::zstd(1))
        .chunk_size(10_000);
    let mut serial = RecordWriter::new(Vec::new(), options.clone()).unwrap();
    let mut parallel = RecordWriter::new(Vec::new(), options.threads(3)).unwrap();
    assert_eq!(parallel.last_position(), None);
    for (index, record) in records().iter().enumerate() {
        let next = serial.position();
        serial.write_record(record).unwrap();
        if index % 7 == 0 {
            assert_eq!(parallel.position(), next);
        }
        parallel.write_record(record).unwrap();
        if index % 3 == 0 {
            assert_eq!(parallel.last_position(), serial.last_position());
        }
    }
    assert_eq!(parallel.finish().unwrap(), serial.finish().unwrap());
}

#[test]
fn no_more_chunks_are_held_than_there_are_threads() {
    for threads in [1, 2, 4] {
        let options = WriterOptions::new()
            .compression(Compression::zstd(1))
            .chunk_size(1)
            .threads(threads);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        let mut positions = Vec::new();
        for record in records() {
            writer.write_record(&record).unwrap();
            positions.extend(writer.last_position_later());
            let held = positions.iter().filter(|later| later.get().is_none());
            assert!(held.count() <= threads as usize);
        }
    }
}

#[test]
fn of_large_uncompressed_records_one_is_held_back() {
    let options = WriterOptions::new()
        .compression(Compression::None)
        .threads(4);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let record = noise(2 << 20, 1);
    for written in 0..4 {
        assert_eq!(
            writer.get_ref().len() >> 21,
            usize::saturating_sub(written, 1)
        );
        writer.write_record(&record).unwrap();
    }
    writer.push().unwrap();
    assert_eq!(writer.get_ref().len() >> 21, 4);
}

#[test]
fn a_writer_dropped_early_ends_its_threads() {
    let options = WriterOptions::new().chunk_size(1).threads(4);
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for record in &records()[..20] {
        writer.write_record(record).unwrap();
    }
    drop(writer);
}
