//! Tests that files are identical to those of other writers, and tests of failing writers.
use std::io::{self, Write};

use record_file::{
    Compression, ErrorKind, LARGEST_PADDING, ReaderOptions, RecordFile, RecordWriter, WriterOptions,
};

use crate::support::{Fixture, noise, valid};

/// Writes a fixture's records to a new file.
fn rewrite(fixture: &Fixture, options: WriterOptions, flush_every: usize) -> Vec<u8> {
    let file = fixture.open();
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    let mut count = 0;
    for chunk in file.chunks() {
        for record in file.read_chunk(chunk.unwrap().begin()).unwrap().records() {
            writer.write_record(record).unwrap();
            count += 1;
            if count % flush_every == 0 {
                writer.flush().unwrap();
            }
        }
    }
    writer.finish().unwrap()
}

#[test]
fn uncompressed_files_come_out_byte_by_byte() {
    let plain = WriterOptions::new().compression(Compression::None);
    let mut checked = 0;
    for fixture in valid() {
        let options = match fixture.name.as_str() {
            "cpp_small_uncompressed.riegeli" | "cpp_mixed_uncompressed_chunk1M.riegeli" => {
                plain.clone().chunk_size(1 << 20)
            }
            "cpp_mixed_uncompressed.riegeli" => plain.clone(),
            "cpp_mixed_uncompressed_chunk4k.riegeli"
            | "rs_small_none_chunk4k.riegeli"
            | "rs_multi_none.riegeli" => plain.clone().chunk_size(4096),
            "rs_mixed_none.riegeli"
            | "rs_big200k_none.riegeli"
            | "rs_zero_size_1000.riegeli"
            | "rs_empty.riegeli"
            | "cpp_empty.riegeli" => plain.clone().chunk_size(1 << 20),
            "rs_mixed_none_chunk1.riegeli" => plain.clone().chunk_size(1),
            "cpp_pad1000_flush.riegeli" => plain.clone().final_padding(1000),
            "cpp_pad64k_flush.riegeli" => plain.clone().final_padding(1 << 16),
            "rs_pad1000_none.riegeli" => plain.clone().chunk_size(1 << 20).final_padding(1000),
            "rs_empty_pad64k.riegeli" => plain.clone().final_padding(1 << 16),
            name if name.starts_with("rs_edge_") => plain.clone().chunk_size(1),
            _ => continue,
        };
        let written = rewrite(&fixture, options, fixture.flush_every());
        assert!(
            written == fixture.bytes,
            "{}: {} bytes, not {}",
            fixture.name,
            written.len(),
            fixture.bytes.len()
        );
        checked += 1;
    }
    assert!(checked >= 20, "{checked}");
}

#[test]
fn everything_read_back_with_every_compression() {
    let records: Vec<_> = (0..300)
        .map(|index| noise(index * index % 4000, index as u64))
        .collect();
    for compression in [
        Compression::None,
        Compression::ZSTD,
        Compression::brotli(5),
        Compression::SNAPPY,
    ] {
        for chunk_size in [1, 100, 5000, 1 << 20] {
            let options = WriterOptions::new()
                .compression(compression)
                .chunk_size(chunk_size);
            let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
            let mut positions = Vec::new();
            for record in &records {
                let (front, back) = record.split_at(record.len() / 2);
                writer.write_record_slices(&[front, b"", back]).unwrap();
                positions.push(writer.last_position().unwrap());
            }
            let bytes = writer.finish().unwrap();
            let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
            for (position, record) in positions.iter().zip(&records) {
                assert_eq!(file.locate(position.numeric()).unwrap(), *position);
                if position.record_index() < 2 {
                    assert_eq!(file.read_record(*position).unwrap(), record[..]);
                    assert_eq!(file.record_len(*position).unwrap(), record.len() as u64);
                }
            }
            let read: Vec<_> = file
                .chunks()
                .flat_map(|chunk| {
                    file.read_chunk(chunk.unwrap().begin())
                        .unwrap()
                        .records()
                        .map(<[u8]>::to_vec)
                        .collect::<Vec<_>>()
                })
                .collect();
            assert!(read == records);
        }
    }
}

#[test]
fn chunks_are_closed_by_the_rule() {
    // Each record counts as 8 bytes more than its length. A chunk is closed when the next record or
    // an empty record wouldn't fit.
    let layout = |lens: &[usize], chunk_size: u64| {
        let options = WriterOptions::new()
            .compression(Compression::None)
            .chunk_size(chunk_size);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for &len in lens {
            writer.write_record(&vec![0; len]).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let file = RecordFile::open(bytes, ReaderOptions::new()).unwrap();
        file.chunks()
            .skip(1)
            .map(|chunk| chunk.unwrap().header.num_records)
            .collect::<Vec<_>>()
    };
    assert_eq!(layout(&[92, 92], 200), [2]);
    assert_eq!(layout(&[92, 92, 0], 200), [2, 1]);
    assert_eq!(layout(&[92, 93], 200), [1, 1]);
    assert_eq!(layout(&[10, 1000, 10], 200), [1, 1, 1]);
    assert_eq!(layout(&[0; 100], 80), [10; 10]);
    assert_eq!(layout(&[5, 5], 1), [1, 1]);
    assert_eq!(layout(&[], 1), [0; 0]);
}

#[test]
fn bad_options_are_refused_before_anything_is_written() {
    for compression in [
        Compression::zstd(23),
        Compression::brotli(12),
        Compression::Snappy { level: 3 },
    ] {
        let error = RecordWriter::new(Vec::new(), WriterOptions::new().compression(compression))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let mut writer = RecordWriter::with_defaults(Vec::new());
        assert!(writer.write_record_alone(b"", compression).is_err());
        writer.write_record(b"still works").unwrap();
    }
    assert!(RecordWriter::new(Vec::new(), WriterOptions::new().chunk_size(0)).is_err());
}

/// A sink that accepts `left` bytes, at most 1000 at a time. Then it writes 0 bytes per call if
/// `zero` is set, and otherwise returns an error.
struct Failing {
    left: usize,
    zero: bool,
}

impl Write for Failing {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(self.left).min(1000);
        self.left -= n;
        match (n, self.zero, buf.len()) {
            (0, false, 1..) => Err(io::Error::other("full")),
            _ => Ok(n),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failed_writer_stays_failed() {
    for zero in [false, true] {
        for left in [0, 63, 64, 1000, 70_000] {
            let mut writer = RecordWriter::with_defaults(Failing { left, zero });
            let error = writer
                .write_record_alone(&noise(100_000, 1), Compression::None)
                .and_then(|_| writer.flush())
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            for error in [
                writer.write_record(b"").unwrap_err(),
                writer.flush().unwrap_err(),
                writer.finish().map(|_| ()).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Closed);
            }
        }
    }
}

#[test]
fn flush_makes_records_readable_and_is_nothing_without_records() {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    writer.flush().unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.estimated_size(), 64);
    assert_eq!(writer.get_ref().len(), 64);
    writer.write_record(b"a").unwrap();
    writer.flush().unwrap();
    let so_far = writer.get_ref().clone();
    let file = RecordFile::open(&so_far, ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    assert_eq!(file.read_record(last).unwrap(), b"a"[..]);
    writer.flush().unwrap();
    assert_eq!(writer.get_ref().len(), so_far.len());
}

#[test]
fn a_chunk_is_as_long_as_it_has_records_and_the_next_one_begins_behind() {
    // Each empty record takes one byte for its size, or less with compression. The remaining bytes
    // of the chunk are zeros.
    for (compression, count) in [
        (Compression::None, 200_000),
        (Compression::ZSTD, 65_536 - 64),
        (Compression::ZSTD, 65_536 - 64 + 1),
        (Compression::ZSTD, 65_536 - 64 + 24),
        (Compression::ZSTD, 65_536 - 64 + 25),
        (Compression::ZSTD, 200_000),
    ] {
        let options = WriterOptions::new()
            .compression(compression)
            .chunk_size(1 << 30);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for _ in 0..count {
            writer.write_record(b"").unwrap();
        }
        let last = writer.last_position().unwrap();
        writer.flush().unwrap();
        writer.write_record(b"after").unwrap();
        let after = writer.last_position().unwrap();
        let file = RecordFile::open(writer.finish().unwrap(), ReaderOptions::new()).unwrap();
        assert_eq!(last.numeric(), 64 + count - 1);
        assert!(after.numeric() >= 64 + count);
        assert!(!(1..=24).contains(&(after.numeric() % 65_536)));
        assert_eq!(file.locate(last.numeric()).unwrap(), last);
        assert_eq!(file.locate(after.numeric()).unwrap(), after);
        assert_eq!(file.read_record(after).unwrap(), b"after"[..]);
        let begins: Vec<_> = file
            .chunks()
            .map(|chunk| chunk.unwrap().begin().0)
            .collect();
        assert_eq!(begins, [0, 64, after.numeric()]);
    }
}

#[test]
fn a_padding_that_would_never_end_is_refused() {
    for padding in [LARGEST_PADDING + 1, u64::MAX - 1] {
        let options = WriterOptions::new().final_padding(padding);
        let error = RecordWriter::new(Vec::new(), options).unwrap_err();
        assert!(error.to_string().contains("final_padding"), "{error}");
    }
}
