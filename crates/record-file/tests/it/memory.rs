//! Tests of the peak memory of readers and writers. Each test has its own process, since the
//! allocator counts all allocations. The allocations that zstd and brotli make in C aren't counted:
//! a context for each thread, and a window, whose size an option limits.

mod claims;
mod transposed;

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

use peak_alloc::PeakAlloc;
use record_file::{
    Compression, ReaderOptions, RecordFile, RecordInput, RecordReader, RecordWriter, WriterOptions,
};

use crate::elsewhere::Elsewhere;
use crate::noise::noise;
use crate::own_process::in_own_process;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;
/// Memory for the buffers for input, output and streams, in bytes. It doesn't depend on the sizes
/// of chunks and records.
const FIXED: usize = 3 * MIB;
const CHUNK: usize = 4 * MIB;
const LARGE: usize = 72 * MIB;

/// Returns the peak of allocated memory while `work` runs.
fn most(work: impl FnOnce()) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    work();
    MEMORY.peak_usage() - before
}

/// A sink that counts bytes and drops them.
#[derive(Default)]
struct Counted {
    pos: u64,
    size: u64,
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.pos += buf.len() as u64;
        self.size = self.size.max(self.pos);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if let SeekFrom::Current(by) = to {
            self.pos = self.pos.checked_add_signed(by).unwrap();
        }
        Ok(self.pos)
    }
}

#[test]
fn memory_is_bounded_by_chunks_and_threads_and_large_records_stream() {
    in_own_process(|| {
        let noise = noise(LARGE, 1);
        for compression in [Compression::None, Compression::zstd(1)] {
            for transpose in [false, true] {
                small_records(&noise, compression, transpose);
            }
            large_record(&noise, compression);
            copied_records(&noise, compression);
        }
        // The stored size of these chunks is a tenth of their decoded size.
        let repeated = noise[..LARGE / 10].chunks(100);
        let repeated: Vec<u8> = repeated.flat_map(|bytes| bytes.repeat(10)).collect();
        for transpose in [false, true] {
            small_records(&repeated, Compression::zstd(1), transpose);
        }
    });
}

/// Tests records in their own chunks that are copied for threads.
fn copied_records(noise: &[u8], compression: Compression) {
    for threads in [1, 2, 3] {
        let options = WriterOptions::new()
            .compression(compression)
            .threads(threads);
        let used = most(|| {
            let mut writer = RecordWriter::new(Counted::default(), options.clone()).unwrap();
            for record in noise.chunks(CHUNK) {
                writer.write_record(record).unwrap();
            }
            writer.finish().unwrap();
        });
        let bound = if compression == Compression::None {
            // One record is written while the next one is copied.
            2 * CHUNK
        } else {
            (threads as usize + 1) * 2 * CHUNK
        };
        let what = format!("writing records of a chunk, {options}");
        check(&what, used, bound + FIXED);
    }
}

/// Checks that a record in memory is compressed without copying it or holding its compressed form.
#[test]
fn large_records_in_memory_stream_to_what_can_seek() {
    in_own_process(|| {
        let noise = noise(LARGE, 1);
        for compression in [
            Compression::zstd(1),
            Compression::brotli(1),
            Compression::brotli(2),
            Compression::SNAPPY,
        ] {
            for threads in [0, 2] {
                let options = WriterOptions::new()
                    .compression(compression)
                    .threads(threads)
                    .max_copied(CHUNK as u64);
                for parts in [1, 3] {
                    let parts: Vec<_> = noise.chunks(LARGE / parts).collect();
                    let used = most(|| {
                        let writer = RecordWriter::new(Counted::default(), options.clone());
                        let mut writer = writer.unwrap().seekable();
                        writer.write_record_slices(&parts).unwrap();
                        writer
                            .write_record_slices_alone(&parts, compression)
                            .unwrap();
                        writer.finish().unwrap();
                    });
                    let what = format!("streaming {} parts, {options}", parts.len());
                    check(&what, used, FIXED);
                }
            }
        }
    });
}

/// Checks that threads hold only small chunks, and that a large record is held once, or not at all
/// if it is streamed.
#[test]
fn a_reader_with_threads_holds_one_large_record_or_none() {
    in_own_process(|| {
        const RECORD: usize = 24 * MIB;
        let noise = noise(RECORD, 1);
        for compression in [Compression::None, Compression::zstd(1)] {
            let options = WriterOptions::new()
                .compression(compression)
                .chunk_size(CHUNK as u64);
            let mut writer = RecordWriter::new(Vec::new(), options.clone()).unwrap();
            for _ in 0..3 {
                for record in noise.chunks(MIB / 2) {
                    writer.write_record(record).unwrap();
                }
                for _ in 0..2 {
                    writer.write_record_alone(&noise, compression).unwrap();
                }
            }
            let file = writer.finish().unwrap();
            for threads in [1, 3] {
                let options = ReaderOptions::new().threads(threads);
                let small = threads as usize * 2 * CHUNK + FIXED;
                let what = format!("on {threads} threads, {compression}");
                let of_file = || RecordReader::new(Elsewhere(&file), options);
                let of_stream = || RecordReader::from_read(&file[..], options);
                let used = most(|| read(of_file()));
                check(&format!("reading {what}"), used, RECORD + small);
                // The size of a plain stream is unknown before the stream is read, so memory is
                // doubled as needed.
                let used = most(|| read(of_stream()));
                check(
                    &format!("reading a stream {what}"),
                    used,
                    2 * RECORD + small,
                );
                let used = most(|| stream_all(of_file()));
                check(&format!("streaming {what}"), used, small);
                let used = most(|| stream_all(of_stream()));
                check(&format!("streaming a stream {what}"), used, small);
            }
        }
    });
}

fn stream_all<I: RecordInput>(mut reader: RecordReader<I>) {
    while let Some(mut record) = reader.read_record_stream().unwrap() {
        io::copy(&mut record, &mut io::sink()).unwrap();
    }
}

fn check(what: &str, used: usize, bound: usize) {
    assert!(used <= bound, "{what}: {used} bytes, not {bound}");
}

/// Returns messages with two fields of 1000 bytes each.
fn messages(noise: &[u8]) -> Vec<Vec<u8>> {
    let field = |tag: u8, bytes: &[u8]| [&[tag, 0xf4, 0x03], bytes].concat();
    let message = |bytes: &[u8]| [field(0x0a, &bytes[..500]), field(0x12, &bytes[500..])].concat();
    noise.chunks_exact(1000).map(message).collect()
}

/// Tests chunks with many records.
fn small_records(noise: &[u8], compression: Compression, transpose: bool) {
    let records = messages(noise);
    let options = WriterOptions::new()
        .compression(compression)
        .transpose(transpose)
        .chunk_size(CHUNK as u64);
    let write = |threads: u32| {
        let options = options.clone().threads(threads);
        let mut writer = RecordWriter::new(Counted::default(), options).unwrap();
        for record in &records {
            writer.write_record(record).unwrap();
        }
        writer.finish().unwrap();
    };
    for threads in [0, 1, 2, 3] {
        let used = most(|| write(threads));
        // The caller's thread holds the chunk that is being gathered.
        let bound = (threads as usize + 1) * 2 * CHUNK + FIXED;
        check(
            &format!("writing on {threads} threads, {options}"),
            used,
            bound,
        );
    }
    let mut writer = RecordWriter::new(Vec::new(), options.clone()).unwrap();
    for record in &records {
        writer.write_record(record).unwrap();
    }
    let file = writer.finish().unwrap();
    for threads in [0, 1, 3] {
        // Each chunk is held in its stored form and decoded.
        let bound = threads.max(1) as usize * 2 * CHUNK + FIXED;
        let reading = ReaderOptions::new().threads(threads);
        let used = most(|| read(RecordReader::new(Elsewhere(&file), reading)));
        check(
            &format!("reading on {threads} threads, {options}"),
            used,
            bound,
        );
        let used = most(|| read(RecordReader::from_read(&file[..], reading)));
        check(
            &format!("streaming on {threads} threads, {options}"),
            used,
            bound,
        );
    }
}

fn stream_next<I: RecordInput>(mut reader: RecordReader<I>) {
    let mut stream = reader.read_record_stream().unwrap().unwrap();
    assert_eq!(
        io::copy(&mut stream, &mut io::sink()).unwrap(),
        LARGE as u64
    );
}

fn read<I: RecordInput>(mut reader: RecordReader<I>) {
    while reader.read_record().unwrap().is_some() {}
}

/// Tests one record that is far larger than the memory limit.
fn large_record(noise: &[u8], compression: Compression) {
    let len = noise.len() as u64;
    let new = || RecordWriter::with_defaults(Counted::default());
    let used = most(|| {
        let mut writer = new();
        writer
            .write_record_from(&mut &noise[..], len, compression)
            .unwrap();
        writer.finish().unwrap();
    });
    check(&format!("writing a stream, {compression}"), used, FIXED);
    let used = most(|| {
        let mut writer = new();
        writer
            .write_record_from_seekable(&mut Cursor::new(noise), len, compression)
            .unwrap();
        writer.finish().unwrap();
    });
    check(
        &format!("writing a stream twice, {compression}"),
        used,
        FIXED,
    );
    let used = most(|| {
        let mut writer = new();
        writer.write_record_alone(noise, compression).unwrap();
        writer.finish().unwrap();
    });
    let stored = if compression == Compression::None {
        0
    } else {
        LARGE
    };
    check(
        &format!("writing a slice, {compression}"),
        used,
        stored + FIXED,
    );

    let mut writer = RecordWriter::with_defaults(Vec::new());
    let position = writer.write_record_alone(noise, compression).unwrap();
    let file = writer.finish().unwrap();
    let mut place = vec![0; noise.len()];
    let used = most(|| {
        let file = RecordFile::open(Elsewhere(&file), ReaderOptions::new()).unwrap();
        let mut stream = file.record_stream(position).unwrap();
        let mut at = 0;
        while at < place.len() {
            at += stream.read(&mut place[at..]).unwrap();
        }
    });
    assert!(place == noise);
    check(&format!("reading a stream, {compression}"), used, FIXED);
    let used = most(|| stream_next(RecordReader::new(Elsewhere(&file), ReaderOptions::new())));
    check(&format!("a reader's stream, {compression}"), used, FIXED);
    let used = most(|| stream_next(RecordReader::from_read(&file[..], ReaderOptions::new())));
    check(&format!("a stream's stream, {compression}"), used, FIXED);
    let used = most(|| {
        let file = RecordFile::open(Elsewhere(&file), ReaderOptions::new()).unwrap();
        file.read_record_into(position, &mut place).unwrap();
    });
    check(&format!("reading into place, {compression}"), used, FIXED);
    let used = most(|| {
        read(RecordReader::new(Elsewhere(&file), ReaderOptions::new()));
    });
    check(
        &format!("reading in sequence, {compression}"),
        used,
        LARGE + FIXED,
    );
}
