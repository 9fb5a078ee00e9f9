//! Detection of chunks with the same bytes, which are stored once.

use std::collections::HashMap;
use std::io::Read;
use std::num::NonZeroUsize;

use super::chunk_reader::{ChunkReader, Span};
use crate::Result;
use crate::io::threads;
use crate::progress::Progress;
use crate::split::plan::split_plan::{PlannedChunk, SplitPlan};
use crate::split::read::source::Source;

/// Minimum size of chunks to compare, in bytes: about the overhead of a separate record.
const LEAST_SHARED: u64 = 256;

/// Size of each of a chunk's samples, in bytes. The samples are at the beginning, in the middle and
/// at the end, and only chunks with equal samples are compared.
const SAMPLE: u64 = 64;

/// Maximum number of chunks with which a chunk of the same size, samples and checksum is compared.
/// The first of these chunks is usually equal, unless chunks were constructed to collide.
const MOST_COMPARED: usize = 4;

/// Number of bytes to compare at a time.
const STEP: usize = 64 << 10;

/// A reference to an earlier chunk with the same bytes.
#[derive(Debug)]
pub(in crate::split) struct Duplicate {
    pub(in crate::split) other: usize,
    pub(in crate::split) crc32c: u32,
    /// Spans of the source in the later chunk.
    pub(in crate::split) spans: Vec<Span>,
}

/// Returns for each chunk an earlier chunk with the same bytes; `None` if there is none.
///
/// Computes checksums of chunks of equal size and with equal samples, and compares chunks with
/// equal checksums byte by byte.
pub(in crate::split) fn duplicates(
    plan: &SplitPlan,
    source: &Source,
    threads: NonZeroUsize,
    progress: &Progress,
) -> Result<Vec<Option<Duplicate>>> {
    let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, chunk) in plan.chunks.iter().enumerate() {
        if chunk.size >= LEAST_SHARED {
            by_size.entry(chunk.size).or_default().push(index);
        }
    }
    let mut alike: HashMap<(u64, Vec<u8>), Vec<usize>> = HashMap::new();
    for (size, chunks) in by_size.into_iter().filter(|(_, chunks)| chunks.len() > 1) {
        for index in chunks {
            progress.check()?;
            let sample = sample(&plan.chunks[index], source)?;
            alike.entry((size, sample)).or_default().push(index);
        }
    }
    let groups: Vec<Vec<usize>> = alike
        .into_values()
        .filter(|group| group.len() > 1)
        .collect();
    let members: Vec<usize> = groups.iter().flatten().copied().collect();
    let sums = threads::map(threads, members.len(), |at| {
        checksum(&plan.chunks[members[at]], source, progress)
    })?;
    let sums: HashMap<usize, u32> = members.into_iter().zip(sums).collect();
    let found = threads::map(threads, groups.len(), |at| {
        among(&groups[at], &sums, plan, source, progress)
    })?;
    let mut same: Vec<Option<Duplicate>> = plan.chunks.iter().map(|_| None).collect();
    for (index, found) in found.into_iter().flatten() {
        same[index] = Some(found);
    }
    Ok(same)
}

/// Returns, in order, the chunks of `group` whose bytes equal those of an earlier chunk.
fn among(
    group: &[usize],
    sums: &HashMap<usize, u32>,
    plan: &SplitPlan,
    source: &Source,
    progress: &Progress,
) -> Result<Vec<(usize, Duplicate)>> {
    let mut blocks = [vec![0; STEP], vec![0; STEP]];
    // Chunks without an earlier duplicate, by checksum, so that a chunk isn't compared with all
    // chunks that have equal samples.
    let mut distinct: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut found = Vec::new();
    for &index in group {
        let alike = distinct.entry(sums[&index]).or_default();
        let mut candidates = alike.iter().rev().copied().take(MOST_COMPARED);
        let same = loop {
            let Some(other) = candidates.next() else {
                break None;
            };
            let [chunk, earlier] = [index, other].map(|index| &plan.chunks[index]);
            if let Some(spans) = equal_spans(chunk, earlier, source, &mut blocks, progress)? {
                break Some(Duplicate {
                    other,
                    crc32c: sums[&index],
                    spans,
                });
            }
        };
        match same {
            Some(same) => found.push((index, same)),
            None => alike.push(index),
        }
    }
    Ok(found)
}

fn sample(chunk: &PlannedChunk, source: &Source) -> Result<Vec<u8>> {
    let mut sample = Vec::new();
    for at in [0, chunk.size / 2, chunk.size - SAMPLE] {
        let reader = ChunkReader::starting_at(chunk, source, at);
        reader.take(SAMPLE).read_to_end(&mut sample)?;
    }
    Ok(sample)
}

fn checksum(chunk: &PlannedChunk, source: &Source, progress: &Progress) -> Result<u32> {
    let mut reader = ChunkReader::new(chunk, source);
    let mut block = vec![0; STEP];
    while reader.read(&mut block)? > 0 {
        progress.check()?;
    }
    Ok(reader.crc32c())
}

/// Compares two chunks of the same size. If they are equal, returns the spans of the source that
/// make up the first chunk; otherwise returns `None`.
fn equal_spans(
    chunk: &PlannedChunk,
    other: &PlannedChunk,
    source: &Source,
    blocks: &mut [Vec<u8>; 2],
    progress: &Progress,
) -> Result<Option<Vec<Span>>> {
    let mut left = ChunkReader::new(chunk, source);
    let mut right = ChunkReader::new(other, source);
    let [a, b] = blocks;
    loop {
        progress.check()?;
        // A chunk's reader returns fewer bytes than requested only at its end.
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost_types::FileDescriptorProto;

    use super::*;
    use crate::container::ChunkKind;

    #[test]
    fn many_chunks_that_differ_only_between_their_samples_are_told_apart_at_once() {
        let count = 200_000;
        let content = Bytes::from(vec![0; 256]);
        let chunk = || PlannedChunk::of_bytes(ChunkKind::Bytes, content.clone());
        let message = FileDescriptorProto::default();
        let chunks = (0..count).map(|_| chunk()).collect();
        let plan = SplitPlan::of_chunks(message.descriptor(), 0, chunks);
        let group: Vec<usize> = (0..count).collect();
        let sums = group.iter().copied().zip(0..).collect();
        let source = Source::from(&message);
        let found = among(&group, &sums, &plan, &source, &Progress::none());
        assert!(found.unwrap().is_empty());
    }
}
