//! Chunks as records of a file, each distinct one once.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use prost::Message;
use record_file::{ReaderOptions, RecordFile, RecordPosition, RecordWriter};

use super::file::WrittenChunk;
use super::metadata::{WrittenInfo, metadata};
use super::options::SplitOptions;
use super::plan::{PlannedChunk, SplitPlan};
use super::source::Source;
use super::write::{ChunkReader, Span, source_crc32c};
use crate::Result;

/// Chunks below this size, in bytes, aren't compared: a record's own overhead is of that order.
const LEAST_SHARED: u64 = 256;

/// Bytes at the front, in the middle and at the end of a chunk by which equal ones find each other.
const SAMPLE: u64 = 64;

/// With how many chunks of the same size, samples and checksum one is compared: the first is equal, unless someone made it so that it
/// isn't.
const MOST_COMPARED: usize = 4;

/// Bytes of two chunks that are compared at once.
const STEP: usize = 64 << 10;

/// What is known of a chunk that was written.
#[derive(Clone, Copy, Debug)]
struct Stored {
    position: RecordPosition,
    crc32c: u32,
    /// The chunk whose record it shares.
    same_as: Option<usize>,
}

/// Writes the plan's chunks and the trailer.
pub(super) fn write_records(
    plan: &SplitPlan,
    source: &Source,
    file: &mut File,
    options: &SplitOptions,
) -> Result<Vec<WrittenChunk>> {
    let mut writer = RecordWriter::with_defaults(&mut *file)?;
    let mut stored: Vec<Stored> = Vec::with_capacity(plan.chunks.len());
    let mut spans = Vec::new();
    let mut alike: HashMap<(u64, Vec<u8>), Vec<usize>> = HashMap::new();
    let mut blocks = [vec![0; STEP], vec![0; STEP]];
    for (index, chunk) in plan.chunks.iter().enumerate() {
        let _span = tracing::debug_span!("write chunk", index, bytes = chunk.size).entered();
        let candidates = match chunk.size {
            0..LEAST_SHARED => None,
            size => Some(
                alike
                    .entry((size, sample(plan, chunk, source)?))
                    .or_default(),
            ),
        };
        if let Some(candidates) = candidates
            .as_ref()
            .filter(|candidates| !candidates.is_empty())
        {
            let crc32c = checksum(plan, chunk, source, &mut blocks[0])?;
            let equal = candidates.iter().rev().copied();
            let mut equal = equal
                .filter(|&other| stored[other].crc32c == crc32c)
                .take(MOST_COMPARED);
            let mut same = None;
            while let (None, Some(other)) = (&same, equal.next()) {
                let compared = equal_spans(plan, chunk, &plan.chunks[other], source, &mut blocks)?;
                same = compared.map(|spans| (other, spans));
            }
            if let Some((other, mut compared)) = same {
                spans.append(&mut compared);
                let same_as = Some(other);
                stored.push(Stored {
                    same_as,
                    ..stored[other]
                });
                continue;
            }
        }
        let compression = options.get_compression().decide(plan, chunk, source)?;
        let mut reader = ChunkReader::new(plan, chunk, source);
        let position = writer.write_record_from(&mut reader, chunk.size, compression)?;
        stored.push(Stored {
            position,
            crc32c: reader.crc32c,
            same_as: None,
        });
        spans.append(&mut reader.spans);
        if let Some(candidates) = candidates {
            candidates.push(index);
        }
    }
    let infos: Vec<WrittenInfo> = stored
        .iter()
        .map(|stored| WrittenInfo {
            offset: stored.position.numeric(),
            crc32c: stored.crc32c,
        })
        .collect();
    let trailer = metadata(plan, &infos, source_crc32c(source, spans)?);
    writer.write_record_alone(
        &trailer.encode_to_vec(),
        options.get_compression().for_trailer(),
    )?;
    writer.finish()?;
    describe(plan, &stored, file)
}

fn describe(plan: &SplitPlan, stored: &[Stored], file: &File) -> Result<Vec<WrittenChunk>> {
    let records = RecordFile::open(file, ReaderOptions::default())?;
    let chunks = plan.chunks.iter().zip(stored).enumerate();
    chunks
        .map(|(index, (chunk, stored))| {
            let record = records.stored(stored.position)?;
            Ok(WrittenChunk {
                index: index as u64,
                kind: chunk.kind,
                path: chunk.path.clone(),
                size: chunk.size,
                stored_size: record.chunk.header.data_size,
                compression: record.compression,
                position: stored.position.numeric(),
                same_as: stored.same_as.map(|other| other as u64),
            })
        })
        .collect()
}

fn sample(plan: &SplitPlan, chunk: &PlannedChunk, source: &Source) -> Result<Vec<u8>> {
    let mut sample = Vec::new();
    for at in [0, chunk.size / 2, chunk.size - SAMPLE] {
        let reader = ChunkReader::starting_at(plan, chunk, source, at);
        reader.take(SAMPLE).read_to_end(&mut sample)?;
    }
    Ok(sample)
}

fn checksum(
    plan: &SplitPlan,
    chunk: &PlannedChunk,
    source: &Source,
    block: &mut [u8],
) -> Result<u32> {
    let mut reader = ChunkReader::new(plan, chunk, source);
    while reader.read(block)? > 0 {}
    Ok(reader.crc32c)
}

/// Compares two chunks of one size. If they are equal: what of the source the first consists of.
fn equal_spans(
    plan: &SplitPlan,
    chunk: &PlannedChunk,
    other: &PlannedChunk,
    source: &Source,
    blocks: &mut [Vec<u8>; 2],
) -> Result<Option<Vec<Span>>> {
    let mut left = ChunkReader::new(plan, chunk, source);
    let mut right = ChunkReader::new(plan, other, source);
    let [a, b] = blocks;
    loop {
        // A chunk's reader gives less than it is asked for only at its end.
        let n = left.read(a)?;
        let m = right.read(b)?;
        if a[..n] != b[..m] {
            return Ok(None);
        }
        if n == 0 {
            return Ok(Some(left.spans));
        }
    }
}
