//! Tests of the peak memory of transposed chunks.
use record_file::{
    Compression, ReaderOptions, RecordFile, RecordReader, RecordWriter, WriterOptions,
};

use super::{Counted, MIB, check, most, read};
use crate::elsewhere::Elsewhere;
use crate::noise::noise;
use crate::own_process::in_own_process;

/// Memory of each thread, independent of the size of chunks. A writer has, for each field, a partly
/// filled block of 64 KiB and smaller blocks before it, which are kept for the next chunk. A reader
/// has some room for a slightly larger next chunk.
const PER_THREAD: usize = MIB;
/// Additional memory of a writer or reader, for bytes that are about to be written or were just
/// read.
const FIXED: usize = MIB;

/// Returns messages with numbers, a name, a time, and a message of 80 incompressible bytes. Each
/// message has about 130 bytes.
fn messages(total: usize) -> Vec<Vec<u8>> {
    const NAMES: [&str; 5] = ["conv2d", "dense", "embedding", "gather", "logits"];
    let varint = |out: &mut Vec<u8>, mut value: u64| {
        while value >= 0x80 {
            out.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        out.push(value.to_le_bytes()[0]);
    };
    let noise = noise(total / 130 * 80 + 4096, 1);
    let parts = noise.chunks_exact(80).zip(0u64..);
    let message = |(part, index): (&[u8], u64)| {
        let number = usize::from(part[0]);
        let mut out = vec![0x08];
        varint(&mut out, index);
        let name = format!("{}/kernel_{}", NAMES[number % NAMES.len()], part[1]);
        out.extend([0x12, name.len().to_le_bytes()[0]]);
        out.extend_from_slice(name.as_bytes());
        out.push(0x19);
        out.extend((1_700_000_000_000 + 1000 * index).to_le_bytes());
        let inner = [&[0x08, part[0] & 0x7f, 0x12, 70][..], &part[..70]].concat();
        out.extend([0x32, inner.len().to_le_bytes()[0]]);
        out.extend(inner);
        for _ in 0..number % 3 {
            out.extend([0x28, part[2] & 0x7f]);
        }
        out
    };
    parts.map(message).collect()
}

/// Returns the stored size of the largest chunk, in bytes.
fn most_stored(file: &[u8]) -> usize {
    let file = RecordFile::open(file, ReaderOptions::new()).unwrap();
    let stored = file.chunks().map(|chunk| chunk.unwrap().header.data_size);
    usize::try_from(stored.max().unwrap()).unwrap()
}

/// Returns the parameters for the tests, with chunks of many messages.
fn cases() -> impl Iterator<Item = (usize, Compression)> {
    let sizes = [4 * MIB, 16 * MIB, 64 * MIB].into_iter();
    sizes.flat_map(|chunk| [Compression::None, Compression::zstd(1)].map(|by| (chunk, by)))
}

fn options(chunk: usize, compression: Compression) -> WriterOptions {
    WriterOptions::new()
        .compression(compression)
        .transpose(true)
        .chunk_size(chunk as u64)
}

/// Returns messages for two full chunks and a partial chunk, or for more chunks if the chunks are
/// small.
fn some(messages: &[Vec<u8>], chunk: usize) -> impl Iterator<Item = &[u8]> {
    let mut left = (9 * chunk / 4).max(40 * MIB);
    let fits = move |message: &&[u8]| {
        left = left.saturating_sub(message.len());
        left > 0
    };
    messages.iter().map(Vec::as_slice).take_while(fits)
}

#[test]
fn a_transposing_writer_holds_the_chunk_of_each_thread_once() {
    in_own_process(|| {
        let messages = messages(150 * MIB);
        for (chunk, compression) in cases() {
            for threads in [0, 1, 2, 3] {
                let options = options(chunk, compression).threads(threads);
                let used = most(|| {
                    let mut writer =
                        RecordWriter::new(Counted::default(), options.clone()).unwrap();
                    some(&messages, chunk).for_each(|record| writer.write_record(record).unwrap());
                    writer.finish().unwrap();
                });
                // The caller's thread holds the chunk that is being gathered. The length of each
                // record takes a byte or two. Stored data replaces the records, so the bound is
                // less than a chunk plus its compressed form.
                let bound = (threads as usize + 1) * (chunk + chunk / 32 + PER_THREAD) + FIXED;
                check(&format!("writing, {options}"), used, bound);
            }
        }
    });
}

#[test]
fn a_reader_of_transposed_chunks_holds_those_of_its_threads_and_what_they_are_stored_as() {
    in_own_process(|| {
        let messages = messages(150 * MIB);
        for (chunk, compression) in cases() {
            let options = options(chunk, compression);
            let mut writer = RecordWriter::new(Vec::new(), options.clone()).unwrap();
            some(&messages, chunk).for_each(|record| writer.write_record(record).unwrap());
            let file = writer.finish().unwrap();
            let stored = most_stored(&file);
            for threads in [0, 1, 3] {
                let reading = ReaderOptions::new().threads(threads);
                let used = most(|| read(RecordReader::new(Elsewhere(&file), reading)));
                let bound = threads.max(1) as usize * (chunk + stored + PER_THREAD) + FIXED;
                check(
                    &format!("reading on {threads} threads, {options}"),
                    used,
                    bound,
                );
            }
        }
    });
}
