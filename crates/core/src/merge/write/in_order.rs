//! Executing a plan in output order, with an open stream for each chunk in use.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::ops::Range;

use tracing::Span;

use super::unpacked_chunks::UnpackedChunks;
use super::whole_chunks::WholeChunk;
use super::whole_sum::{Passing, WholeSum};
use crate::Result;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::{ChunkStore, read_error, shorter};
use crate::spans::{COPY_LEN, SpanSource, copy_range};

/// Maximum number of chunks that are open at the same time. More would be needed only for merging
/// many messages field by field into one.
const MAX_OPEN: usize = 64;

/// Writes the planned message. After the last byte that the message takes from a chunk, reads the
/// chunk to its end, so that the whole chunk is checked.
///
/// # Errors
///
/// Any error from reading chunks or from writing.
pub fn write<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sink: &mut dyn Write,
) -> Result<()> {
    write_summed(plan, store, None, sink)
}

/// Writes like [`write`], and adds the written bytes to the checksum of the message.
pub(crate) fn write_summed<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sum: Option<&WholeSum>,
    sink: &mut dyn Write,
) -> Result<()> {
    store.prefetch(&plan.chunks_in_order());
    write_around(plan, store, sum, sink, &mut |_, _| Ok(0))
}

/// Writes like [`write`], but calls `leave_out` for each chunk that is used as a whole, with the
/// chunk's range in the message. `leave_out` returns the number of bytes to skip at the beginning
/// of the chunk. Adds the written bytes to the checksum of the message.
pub(crate) fn write_around<S: ChunkStore + ?Sized, W: Write + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sum: Option<&WholeSum>,
    sink: &mut W,
    leave_out: &mut dyn FnMut(&mut W, Range<u64>) -> Result<u64>,
) -> Result<()> {
    let mut streams = Streams {
        plan,
        store,
        open: HashMap::new(),
        left: HashMap::new(),
        unpacked: UnpackedChunks::default(),
    };
    let mut buffer = Vec::new();
    for span in plan.spans().iter() {
        let (chunk, mut range) = match span.source {
            SpanSource::Literal(bytes) => {
                let at = span.offset;
                Passing { sink, sum, at }.write_all(bytes)?;
                continue;
            }
            SpanSource::Stored(chunk, start) => (chunk.index(), start..start + span.len),
        };
        let mut at = span.offset;
        if WholeChunk::is_one(plan, store, chunk, &range) {
            let left_out = leave_out(sink, span.range())?.min(span.len);
            if left_out == span.len {
                continue;
            }
            (range.start, at) = (range.start + left_out, at + left_out);
        }
        let sink = &mut Passing { sink, sum, at };
        if let Some(slice) = store.as_slice(chunk) {
            let range = usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.end).ok());
            let bytes = range.and_then(|(start, end)| slice.get(start..end));
            sink.write_all(bytes.ok_or_else(|| shorter().in_chunk(chunk))?)?;
            continue;
        }
        if let Some(source) = store.at_random(chunk) {
            copy_range(source, range, sink)?;
            continue;
        }
        buffer.resize(COPY_LEN, 0);
        streams
            .copy(chunk, &range, &mut buffer, sink)
            .map_err(|error| error.in_chunk(chunk))?;
    }
    Ok(())
}

/// Copies exactly `len` bytes of a chunk from `stream` to `sink`.
pub(crate) fn copy_exactly(stream: &mut dyn Read, len: u64, sink: &mut dyn Write) -> Result<()> {
    let buffer = usize::try_from(len).unwrap_or(usize::MAX).min(COPY_LEN);
    copy_through(stream, len, &mut vec![0; buffer], sink)
}

fn copy_through<W: Write + ?Sized>(
    stream: &mut dyn Read,
    mut len: u64,
    buffer: &mut [u8],
    sink: &mut W,
) -> Result<()> {
    while len > 0 {
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        stream.read_exact(&mut buffer[..want]).map_err(read_error)?;
        sink.write_all(&buffer[..want])?;
        len -= want as u64;
    }
    Ok(())
}

struct Streams<'a, S: ?Sized> {
    plan: &'a MergePlan,
    store: &'a S,
    open: HashMap<usize, OpenChunk<'a>>,
    /// Number of remaining segments of each open chunk, by the index of the chunk.
    left: HashMap<usize, usize>,
    unpacked: UnpackedChunks,
}

/// A chunk that is being read from its beginning.
struct OpenChunk<'a> {
    stream: Box<dyn Read + 'a>,
    position: u64,
    /// Tracing span for the time spent reading the chunk.
    timed: Span,
}

/// A reader that measures the time spent reading an open chunk.
struct Timed<'o, 'a>(&'o mut OpenChunk<'a>);

impl Read for Timed<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let OpenChunk { stream, timed, .. } = &mut *self.0;
        timed.in_scope(|| stream.read(buf))
    }
}

impl<'a, S: ChunkStore + ?Sized> Streams<'a, S> {
    fn copy<W: Write + ?Sized>(
        &mut self,
        chunk: usize,
        range: &Range<u64>,
        buffer: &mut [u8],
        sink: &mut W,
    ) -> Result<()> {
        // A chunk whose bytes are used out of order is read again from its beginning, unless it was
        // unpacked.
        let reusable = |open: &OpenChunk<'_>| open.position <= range.start;
        let mut source = match self.open.remove(&chunk).filter(reusable) {
            Some(open) => open,
            None => {
                let (unpacked, skipped) = (&mut self.unpacked, range.start);
                if let Some((file, at)) = unpacked.instead_of_opening(self.store, chunk, skipped)? {
                    return copy_range(file, at + range.start..at + range.end, sink);
                }
                OpenChunk {
                    stream: self.store.stream(chunk)?,
                    position: 0,
                    timed: tracing::trace_span!("read", chunk, bytes = self.store.size(chunk)),
                }
            }
        };
        let gap = range.start - source.position;
        let skipped = std::io::copy(&mut source.stream.by_ref().take(gap), &mut std::io::sink())?;
        if skipped != gap {
            return Err(shorter());
        }
        let len = range.end - range.start;
        let mut timed = Timed(&mut source);
        copy_through(&mut timed, len, buffer, sink)?;
        source.position = range.end;
        self.put_back(chunk, source)
    }

    /// Keeps a chunk open if more of its segments follow, otherwise reads the chunk to its end.
    fn put_back(&mut self, chunk: usize, mut source: OpenChunk<'a>) -> Result<()> {
        let plan = self.plan;
        let left = self
            .left
            .entry(chunk)
            .or_insert_with(|| plan.chunk_spans(chunk).count());
        *left -= 1;
        if *left == 0 {
            self.left.remove(&chunk);
            std::io::copy(&mut source.stream, &mut std::io::sink())?;
            return Ok(());
        }
        // A dropped chunk is opened again at its next segment.
        if self.open.len() >= MAX_OPEN
            && let Some(&dropped) = self.open.keys().next()
        {
            self.open.remove(&dropped);
        }
        self.open.insert(chunk, source);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_store::Store;
    use super::*;

    #[test]
    fn chunks_that_take_turns_are_each_unpacked_or_read_a_few_times() {
        let (size, part) = (10_000, 250);
        let store = Store {
            count: 2 * MAX_OPEN,
            ..Store::new(size)
        };
        let turns = (0..size / part).flat_map(|turn| {
            let range = turn * part..(turn + 1) * part;
            (0..store.count).map(move |chunk| (chunk, range.clone()))
        });
        let mut merged = Vec::new();
        write(&store.plan(turns), &store, &mut merged).unwrap();
        let mut parts = merged.chunks(part);
        for expected in store.chunk.chunks(part) {
            for _ in 0..store.count {
                assert_eq!(parts.next(), Some(expected));
            }
        }
        assert!(parts.next().is_none());
        assert!(store.opened() <= 12 * store.count, "{}", store.opened());
    }

    #[test]
    fn a_chunk_that_is_unpacked_is_checked() {
        let store = Store {
            damaged: Some(0),
            ..Store::new(1000)
        };
        let backwards = (0..10).rev().map(|part| (0, part * 100..part * 100 + 100));
        let error = write(&store.plan(backwards), &store, &mut Vec::new()).unwrap_err();
        assert_eq!(error.chunk(), Some(crate::ChunkIndex::BASE));
    }
}
