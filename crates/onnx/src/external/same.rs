//! Deduplicating tensors with equal bytes.

use std::collections::HashMap;
use std::ops::Range;

use proto_splitter_core::merge::ChunkStore;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{ChunkIndex, MessageReader, Result};
use record_file::ReadAt;

/// Size of a sample, in bytes. Samples from the beginning, the middle and the end of tensors are
/// compared before all bytes are compared.
const SAMPLE: u64 = 64;

/// Maximum number of tensors that are compared byte by byte with a tensor of the same length and
/// sample.
const MOST_COMPARED: usize = 8;

/// A fingerprint of a span. The bytes of two spans are compared only if their fingerprints are
/// equal.
#[derive(PartialEq, Eq, Hash)]
enum Mark {
    /// Bytes at the beginning, in the middle and at the end of the span.
    Sample(Vec<u8>),
    /// Checksums of the chunks that the span consists of.
    Checksums(Vec<u32>),
    /// Chunks that the span consists of, if they have no checksums. Spans are regarded as equal
    /// only if they are the same chunks.
    Chunks(Vec<ChunkIndex>),
}

/// Returns, for each span, the index of the first earlier span with the same bytes, if any. Spans
/// of unique length, and chunks whose checksums are unique, aren't read.
pub(super) fn find(
    model: &MessageReader,
    spans: &[Option<Range<u64>>],
    progress: &Progress,
) -> Result<Vec<Option<usize>>> {
    let mut lengths: HashMap<u64, u32> = HashMap::new();
    for span in spans.iter().flatten() {
        *lengths.entry(span.end - span.start).or_default() += 1;
    }
    let mut firsts: HashMap<(u64, Mark), Vec<usize>> = HashMap::new();
    let mut same = vec![None; spans.len()];
    for (at, span) in spans.iter().enumerate() {
        let Some(span) = span else {
            continue;
        };
        let length = span.end - span.start;
        if length == 0 || lengths.get(&length) == Some(&1) {
            continue;
        }
        progress.check()?;
        let chunks = model.whole_chunks(span);
        let mark = match &chunks {
            Some(chunks) => mark_of_chunks(model, chunks),
            None => Mark::Sample(sample(model, span)?),
        };
        let is_chunks = matches!(mark, Mark::Chunks(_));
        let known = firsts.entry((length, mark)).or_default();
        for &first in known.iter() {
            let Some(other) = &spans[first] else {
                continue;
            };
            let is_same = is_chunks
                || (chunks.is_some() && model.whole_chunks(other) == chunks)
                || are_equal(model, other, span, progress)?;
            if is_same {
                same[at] = Some(first);
                break;
            }
        }
        if same[at].is_none() && known.len() < MOST_COMPARED {
            known.push(at);
        }
    }
    Ok(same)
}

fn mark_of_chunks(model: &MessageReader, chunks: &[ChunkIndex]) -> Mark {
    let file = model.chunked_file();
    let checksums = chunks
        .iter()
        .map(|chunk| file?.checked_crc32c(chunk.to_usize()));
    match checksums.collect() {
        Some(checksums) => Mark::Checksums(checksums),
        None => Mark::Chunks(chunks.to_vec()),
    }
}

fn sample(source: &dyn ReadAt, span: &Range<u64>) -> Result<Vec<u8>> {
    let length = span.end - span.start;
    let part = usize::try_from(SAMPLE.min(length)).unwrap_or(0);
    let last = length - part as u64;
    let mut bytes = vec![0; 3 * part];
    for (slot, at) in bytes.chunks_mut(part).zip([0, last / 2, last]) {
        source.read_exact_at(span.start + at, slot)?;
    }
    Ok(bytes)
}

fn are_equal(
    source: &dyn ReadAt,
    a: &Range<u64>,
    b: &Range<u64>,
    progress: &Progress,
) -> Result<bool> {
    const STEP: usize = 256 << 10;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut at = 0;
    let length = a.end - a.start;
    while at < length {
        progress.check()?;
        let step = usize::try_from(length - at).unwrap_or(STEP).min(STEP);
        left.resize(step, 0);
        right.resize(step, 0);
        source.read_exact_at(a.start + at, &mut left)?;
        source.read_exact_at(b.start + at, &mut right)?;
        if left != right {
            return Ok(false);
        }
        at += step as u64;
    }
    Ok(true)
}
