//! Executing a plan: the output in order, with a stream open for each chunk in use.

use std::collections::HashMap;
use std::io::{Read, Write};

use super::plan::{MergePlan, SegmentSource};
use super::store::ChunkStore;
use crate::{Error, ErrorKind, Result};

/// How much is copied at a time: small enough to stay in the cache between the hash and the copy.
const COPY_LEN: usize = 256 << 10;

/// A chunk that is being read from its front.
struct OpenChunk<'a> {
    stream: Box<dyn Read + 'a>,
    position: u64,
    /// How many segments are still to be taken from it.
    segments_left: usize,
}

/// Writes the planned message. A chunk is open from its first segment to its last; then it is read to its end, so that it was checked.
pub(super) fn write<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sink: &mut dyn Write,
) -> Result<()> {
    let mut open: HashMap<usize, OpenChunk<'_>> = HashMap::new();
    let mut buffer = Vec::new();
    for segment in plan.segments() {
        let (chunk, range) = match &segment.source {
            SegmentSource::Literal(range) => {
                sink.write_all(plan.literal(range.clone()))?;
                continue;
            }
            SegmentSource::Chunk { chunk, range } => (*chunk, range),
        };
        if let Some(slice) = store.as_slice(chunk) {
            let bytes = usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.end).ok());
            let bytes = bytes.and_then(|(start, end)| slice.get(start..end));
            sink.write_all(bytes.ok_or_else(|| shorter(chunk))?)?;
            continue;
        }
        buffer.resize(COPY_LEN, 0);
        copy_segment(plan, store, &mut open, chunk, range, &mut buffer, sink)
            .map_err(|error| error.in_chunk(chunk as u64))?;
    }
    Ok(())
}

fn copy_segment<'a, S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &'a S,
    open: &mut HashMap<usize, OpenChunk<'a>>,
    chunk: usize,
    range: &std::ops::Range<u64>,
    buffer: &mut [u8],
    sink: &mut dyn Write,
) -> Result<()> {
    let segments_left = match open.get(&chunk) {
        // A chunk that is used out of its order has to be read from its front again.
        Some(known) if known.position <= range.start => None,
        Some(known) => Some(known.segments_left),
        None => Some(plan.chunk_segments(chunk).count()),
    };
    if let Some(segments_left) = segments_left {
        open.insert(
            chunk,
            OpenChunk {
                stream: store.stream(chunk)?,
                position: 0,
                segments_left,
            },
        );
    }
    let Some(source) = open.get_mut(&chunk) else {
        return Ok(());
    };
    let gap = range.start - source.position;
    let skipped = std::io::copy(&mut source.stream.by_ref().take(gap), &mut std::io::sink())?;
    if skipped != gap {
        return Err(shorter(chunk));
    }
    let mut left = range.end - range.start;
    while left > 0 {
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        source
            .stream
            .read_exact(&mut buffer[..want])
            .map_err(|error| match error.kind() {
                // With nothing inside, it is `read_exact`'s own.
                std::io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => shorter(chunk),
                _ => Error::from(error),
            })?;
        sink.write_all(&buffer[..want])?;
        left -= want as u64;
    }
    source.position = range.end;
    source.segments_left -= 1;
    if source.segments_left == 0
        && let Some(mut done) = open.remove(&chunk)
    {
        std::io::copy(&mut done.stream, &mut std::io::sink())?;
    }
    Ok(())
}

#[cold]
fn shorter(chunk: usize) -> Error {
    Error::new(
        ErrorKind::InvalidTrailer,
        "the chunk is shorter than the file says",
    )
    .in_chunk(chunk as u64)
}
