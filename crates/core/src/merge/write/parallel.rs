//! Executing a plan on several threads: the bytes of every chunk are copied directly to their
//! destinations, in any order.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use record_file::{PositionReader, ReadAt};

use super::jobs::{Job, Jobs, Piece};
use super::place::{Filling, InMemory, Place};
use super::unpacked_chunks::UnpackedChunks;
use super::whole_chunks::{WholeChunk, WholeChunks};
use super::whole_sum::WholeSum;
use crate::error::MessageOffset;
use crate::io::FileAt;
use crate::io::combine;
use crate::io::threads;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::{ChunkStore, read_error, shorter};
use crate::progress::Meter;
use crate::spans::SpanSource;
use crate::{Error, ErrorKind, Result};

/// Maximum size of a chunk to read at once: 1 MiB, so that the chunk stays in the processor's cache
/// until it is copied.
pub(in crate::merge) const WHOLE_UP_TO: u64 = 1 << 20;

/// Minimum number of segments per thread for combining checksums. Combining fewer takes less time
/// than starting a thread.
const LEAST_COMBINED: usize = 4096;

/// Number of literals that a thread copies before it takes the next ones.
const LITERALS_AT_ONCE: usize = 256;

/// Minimum average size of segments for positioned writes to a file: 64 KiB, since each write is a
/// system call.
const LEAST_SEGMENT: u64 = 64 << 10;

/// Returns true if a merge to a file should run on several threads. With one thread, or with many
/// small segments, writing in order is faster.
pub(in crate::merge) fn is_worthwhile(plan: &MergePlan, threads: NonZeroUsize) -> bool {
    let segments = plan.spans().span_count() as u64;
    threads.get() > 1 && plan.total_len() / segments.max(1) >= LEAST_SEGMENT
}

/// Writes the planned message to an empty file. Returns the message's crc32c.
pub(in crate::merge) fn write_to_file<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    file: &File,
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<u32> {
    file.set_len(plan.total_len())?;
    write_at(plan, store, (file, 0), threads, meter)
}

/// Writes the planned message to a file, starting at `offset`. Returns the message's crc32c.
///
/// # Errors
///
/// Any error from reading chunks or from writing.
pub fn write_at<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    (file, offset): (&File, u64),
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<u32> {
    let mut work = Work::new(true);
    work.add_file(plan, 0..plan.total_len(), (file, offset), meter)?;
    combined(plan, &work.run(store, threads, meter)?, threads)
}

/// Fills the beginning of `out` with the planned message. Returns the message's crc32c.
pub(crate) fn fill<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    out: &mut [u8],
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<u32> {
    let total = plan.total_len();
    let len = usize::try_from(total).unwrap_or(usize::MAX);
    let front = out.get_mut(..len).ok_or_else(|| {
        let message = format!("the buffer has fewer than the message's {total} bytes");
        Error::new(ErrorKind::InvalidConfig, message)
    })?;
    let mut work = Work::new(true);
    work.add_buffer(plan, store, 0..total, front);
    combined(plan, &work.run(store, threads, meter)?, threads)
}

/// A part of a message, and its destination in a file.
#[derive(Clone, Debug)]
pub struct FilePlace<'a> {
    /// Range of the part in the message.
    pub range: Range<MessageOffset>,
    /// Destination file.
    pub file: &'a File,
    /// Offset in the file at which the part starts.
    pub offset: u64,
}

/// Copies parts of the planned message to their destinations, and adds their bytes to the checksum
/// of the message.
pub(crate) fn scatter<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sum: Option<&WholeSum>,
    places: &[FilePlace<'_>],
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<()> {
    let mut work = Work::new(sum.is_some());
    for place in places {
        let wanted = place.range.start.get()..place.range.end.get();
        if wanted.end > plan.total_len() {
            let (end, total) = (wanted.end, plan.total_len());
            let message =
                format!("the range ends at {end}, but the message has only {total} bytes");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        work.add_file(plan, wanted, (place.file, place.offset), meter)?;
    }
    let crcs = work.run(store, threads, meter)?;
    let ranges = places.iter();
    let ranges = ranges.map(|place| place.range.start.get()..place.range.end.get());
    sum.map_or(Ok(()), |sum| add_to(sum, plan, ranges, &crcs))
}

/// Adds ranges of the planned message to the message's checksum. `crcs` are the crc32c of the spans
/// in these ranges; those of literal spans are ignored.
fn add_to(
    sum: &WholeSum,
    plan: &MergePlan,
    ranges: impl Iterator<Item = Range<u64>>,
    crcs: &[u32],
) -> Result<()> {
    let spans = ranges.flat_map(|range| plan.spans().parts(range));
    for (span, crc32c) in spans.zip(crcs) {
        match span.source {
            SpanSource::Literal(bytes) => sum.add(span.offset, bytes)?,
            SpanSource::Stored(..) => sum.add_summed(span.range(), *crc32c)?,
        }
    }
    Ok(())
}

/// Reads parts of the planned message into memory, each into a buffer of equal length. Adds the
/// bytes read to the checksum of the message.
pub(crate) fn gather<'b, S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    sum: Option<&WholeSum>,
    places: impl IntoIterator<Item = (Range<u64>, &'b mut [u8])>,
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<()> {
    let mut work = Work::new(sum.is_some());
    let mut ranges = Vec::new();
    for (wanted, buffer) in places {
        let len = usize::try_from(wanted.end.saturating_sub(wanted.start)).ok();
        if wanted.end > plan.total_len() || len != Some(buffer.len()) {
            let (have, end) = (buffer.len(), wanted.end);
            let message = format!(
                "a buffer of {have} bytes for bytes {} to {end} of a message of {}",
                wanted.start,
                plan.total_len()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        ranges.extend(sum.map(|_| wanted.clone()));
        work.add_buffer(plan, store, wanted, buffer);
    }
    let crcs = work.run(store, threads, meter)?;
    sum.map_or(Ok(()), |sum| add_to(sum, plan, ranges.into_iter(), &crcs))
}

/// The work of several threads: chunks to copy to their destinations, in segments or whole.
struct Work<'b, P> {
    jobs: Jobs<P>,
    whole: Vec<WholeChunk<'b>>,
    literals: Vec<Literal<'b>>,
    /// Number of spans in the ranges added so far, including literal spans. Each span has a
    /// checksum if checksums are computed.
    spans: usize,
    sums: bool,
}

impl<'f> Work<'_, FileAt<&'f File>> {
    /// Adds a range of the message whose destination is in a file.
    fn add_file(
        &mut self,
        plan: &MergePlan,
        wanted: Range<u64>,
        (file, offset): (&'f File, u64),
        meter: &Meter,
    ) -> Result<()> {
        let begin = wanted.start;
        for span in plan.spans().parts(wanted) {
            let mut place = FileAt::new(file, offset + (span.offset - begin));
            match span.source {
                SpanSource::Literal(bytes) => {
                    place.write_all(bytes)?;
                    meter.advance(span.len)?;
                }
                SpanSource::Stored(chunk, start) => {
                    let range = start..start + span.len;
                    self.jobs.add(chunk.index(), self.spans, range, place);
                }
            }
            self.spans += 1;
        }
        Ok(())
    }
}

/// Bytes of the plan itself, and their destination of the same length in memory.
struct Literal<'b> {
    bytes: &'b [u8],
    place: &'b mut [u8],
}

/// Splits the first `len` bytes off a buffer, or all if it has fewer.
fn split_off<'b>(rest: &mut &'b mut [u8], len: u64) -> &'b mut [u8] {
    let len = usize::try_from(len).map_or(rest.len(), |len| len.min(rest.len()));
    let (front, behind) = std::mem::take(rest).split_at_mut(len);
    *rest = behind;
    front
}

impl<'b> Work<'b, InMemory<'b>> {
    /// Adds a range of the message whose destination is a buffer of the same length.
    fn add_buffer<S: ChunkStore + ?Sized>(
        &mut self,
        plan: &'b MergePlan,
        store: &S,
        wanted: Range<u64>,
        buffer: &'b mut [u8],
    ) {
        let mut rest = buffer;
        for span in plan.spans().parts(wanted) {
            // The spans are consecutive, so the buffer has room for each.
            let place = split_off(&mut rest, span.len);
            match span.source {
                SpanSource::Literal(bytes) => self.literals.push(Literal { bytes, place }),
                SpanSource::Stored(chunk, start) => {
                    let (chunk, range) = (chunk.index(), start..start + span.len);
                    if WholeChunk::is_one(plan, store, chunk, &range) {
                        self.whole.push(WholeChunk {
                            chunk,
                            segment: self.spans,
                            place,
                        });
                    } else if let Some(source) = store.at_random(chunk)
                        && !self.sums
                    {
                        let mut rest = place;
                        let take = |len| InMemory(split_off(&mut rest, len));
                        self.jobs
                            .add_extents(chunk, source, self.spans, range, take);
                    } else {
                        self.jobs.add(chunk, self.spans, range, InMemory(place));
                    }
                }
            }
            self.spans += 1;
        }
    }
}

impl<'b, P: Place> Work<'b, P> {
    fn new(sums: bool) -> Self {
        Work {
            jobs: Jobs::new(),
            whole: Vec::new(),
            literals: Vec::new(),
            spans: 0,
            sums,
        }
    }

    /// Runs the work, and returns the crc32c of each span if checksums are computed.
    fn run<S: ChunkStore + ?Sized>(
        self,
        store: &S,
        threads: NonZeroUsize,
        meter: &Meter,
    ) -> Result<Vec<u32>> {
        let whole = &WholeChunks::new(self.whole);
        let sums = self.sums;
        let mut crcs = vec![0; if sums { self.spans } else { 0 }];
        let queue = self.jobs.into_queue();
        let mut order: Vec<usize> = queue.iter().rev().map(|job| job.chunk).collect();
        order.extend(whole.order());
        store.prefetch(&order);
        let threads = threads.get().min(queue.len() + whole.len());
        let queue = Mutex::new(queue);
        let literals = Mutex::new(self.literals);
        let failed = AtomicBool::new(false);
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || -> Result<Vec<(usize, u32)>> {
            let mut found = Vec::new();
            let mut filling = Filling::new(meter, sums);
            while !failed.load(Ordering::Relaxed) {
                let Some(job) = next() else { break };
                let chunk = job.chunk;
                let _span = tracing::trace_span!("read", chunk, bytes = job.bytes).entered();
                if let Err(error) = copy(store, job, &mut found, &mut filling) {
                    failed.store(true, Ordering::Relaxed);
                    // A message in one piece has no chunk to name.
                    let is_piece = store.at_random(chunk).is_some();
                    return Err(if is_piece {
                        error
                    } else {
                        error.in_chunk(chunk)
                    });
                }
            }
            let mut share = whole.share(threads, &failed, meter);
            store
                .read_each(&mut share)
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            found.append(&mut share.found);
            // Literals come last: they lie between the chunks' bytes, and touching new memory costs
            // more than copying them, so one thread should not touch all of it first.
            while let Some(bytes) = copy_some(&literals) {
                meter.advance(bytes)?;
            }
            Ok(found)
        };
        for result in threads::run(threads, work) {
            for (span, crc) in result? {
                if let Some(place) = crcs.get_mut(span) {
                    *place = crc;
                }
            }
        }
        Ok(crcs)
    }
}

/// Copies some of the literals that no thread has copied. Returns the number of bytes; `None` if no
/// literals are left.
fn copy_some(literals: &Mutex<Vec<Literal<'_>>>) -> Option<u64> {
    let mut left = literals.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = left.len().saturating_sub(LITERALS_AT_ONCE);
    let mut some = left.split_off(kept);
    drop(left);
    for literal in &mut some {
        literal.place.copy_from_slice(literal.bytes);
    }
    let bytes = some.iter().map(|literal| literal.bytes.len() as u64).sum();
    (!some.is_empty()).then_some(bytes)
}

fn copy<S: ChunkStore + ?Sized, P: Place>(
    store: &S,
    mut job: Job<P>,
    found: &mut Vec<(usize, u32)>,
    filling: &mut Filling<'_>,
) -> Result<()> {
    filling.meter.check()?;
    let chunk = job.chunk;
    if let Some(source) = store.at_random(chunk) {
        return copy_at_random((source, 0), job.pieces, found, filling);
    }
    let whole = 0..store.size(chunk);
    let known = store.checked_crc32c(chunk);
    if let [piece] = &mut job.pieces[..]
        && piece.range == whole
        && whole.end <= WHOLE_UP_TO
    {
        filling.expect(known);
        let mut read = |buffer: &mut [u8]| store.read_into(chunk, buffer);
        piece.place.fill_whole(&mut read, whole.end, filling)?;
        found.push((piece.segment, filling.crc32c));
        return Ok(());
    }
    let mut unpacked = UnpackedChunks::default();
    let mut left = job.pieces;
    while !left.is_empty() {
        if let Some((file, at)) = unpacked.instead_of_opening(store, chunk, whole.end)? {
            return copy_at_random((file, at), left, found, filling);
        }
        let mut stream = store.stream(chunk)?;
        let mut position = 0;
        // The pieces of a chunk that is used more than once overlap. Those that begin before the
        // end of another wait until the chunk is read again.
        let mut again = Vec::new();
        for mut piece in left {
            let range = &piece.range;
            if range.start < position {
                again.push(piece);
                continue;
            }
            let gap = range.start - position;
            if io::copy(&mut stream.by_ref().take(gap), &mut io::sink())? != gap {
                return Err(shorter());
            }
            filling.expect(known.filter(|_| *range == whole));
            let filled = piece
                .place
                .fill(&mut stream, range.end - range.start, filling);
            filled.map_err(read_error)?;
            found.push((piece.segment, filling.crc32c));
            position = range.end;
        }
        // Reads to the end, so that the chunk is checked.
        io::copy(&mut stream, &mut io::sink())?;
        left = again;
    }
    Ok(())
}

/// Copies the pieces of a chunk that starts at an offset of `source`.
fn copy_at_random<R: ReadAt + ?Sized, P: Place>(
    (source, at): (&R, u64),
    pieces: Vec<Piece<P>>,
    found: &mut Vec<(usize, u32)>,
    filling: &mut Filling<'_>,
) -> Result<()> {
    for mut piece in pieces {
        filling.expect(None);
        let (start, len) = (piece.range.start, piece.range.end - piece.range.start);
        let filled = if piece.is_extent {
            let mut read = |buffer: &mut [u8]| Ok(source.read_exact_at(at + start, buffer)?);
            piece.place.fill_whole(&mut read, len, filling)
        } else {
            let mut source = PositionReader::new(source);
            source.seek(SeekFrom::Start(at + start))?;
            let filled = piece.place.fill(&mut source, len, filling);
            filled.map_err(Error::from)
        };
        filled.map_err(|error| error.at_offset(start))?;
        found.push((piece.segment, filling.crc32c));
    }
    Ok(())
}

/// Computes the crc32c of the message from the crc32c of each segment of its chunks.
pub(in crate::merge) fn combined(
    plan: &MergePlan,
    crcs: &[u32],
    threads: NonZeroUsize,
) -> Result<u32> {
    let (spans, count) = (plan.spans(), plan.spans().span_count());
    let share = count.div_ceil(threads.get()).max(LEAST_COMBINED);
    let shares = count.div_ceil(share);
    let parts = threads::map(threads, shares, |at| {
        let range = at * share..count.min((at + 1) * share);
        let parts = range
            .clone()
            .filter_map(|at| spans.get(at))
            .zip(&crcs[range]);
        Ok(parts.fold((0, 0), |(crc, len), (span, next)| {
            let crc = match span.source {
                SpanSource::Literal(bytes) => crc32c::crc32c_append(crc, bytes),
                SpanSource::Stored(..) => combine(crc, *next, span.len),
            };
            (crc, len + span.len)
        }))
    })?;
    let parts = parts.into_iter();
    Ok(parts.fold(0, |crc, (next, len)| combine(crc, next, len)))
}

#[cfg(test)]
mod tests {
    use super::super::test_store::Store;
    use super::*;
    use crate::progress::Progress;

    #[test]
    fn a_chunk_that_several_places_use_is_read_a_few_times() {
        let store = Store::new(10_000);
        for uses in [1, 2, 3, 50] {
            let before = store.opened();
            let parts = store.chunk.chunks(100).enumerate();
            let ranges = parts.map(|(at, part)| (0, at * 100..at * 100 + part.len()));
            let plan = store.plan(ranges.flat_map(|range| vec![range; uses]));
            let mut merged = vec![0; uses * store.chunk.len()];
            let meter = Progress::default().meter(plan.total_len());
            let crc32c = fill(&plan, &store, &mut merged, NonZeroUsize::MIN, &meter).unwrap();
            let parts = store.chunk.chunks(100);
            let expected: Vec<&[u8]> = parts.flat_map(|part| vec![part; uses]).collect();
            assert!(merged == expected.concat());
            assert_eq!(crc32c, crc32c::crc32c(&merged));
            assert!(store.opened() - before <= uses.min(3), "{uses} uses");
        }
    }
}
