//! Executing a plan on several threads: every chunk goes to its places by itself, in any order.

use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::direct_read::{WholeChunk, WholeChunks};
use crate::io::combine;
use crate::io::threads;
use crate::io::{FileAt, WRITE_LEN};
use crate::merge::plan::merge_plan::{MergePlan, SegmentSource};
use crate::merge::read::chunk_store::{ChunkStore, read_error, shorter};
use crate::newtypes::MessageOffset;
use crate::progress::Meter;
use crate::{Error, ErrorKind, Result};

/// How much is copied at a time: small enough to stay in the cache between the hash and the copy.
pub(in crate::merge) const COPY_LEN: usize = 256 << 10;

/// Chunks up to this size are read at once, whole: they stay in the cache until they are where they
/// belong.
pub(in crate::merge) const WHOLE_UP_TO: u64 = 1 << 20;

/// How many segments' checksums a thread puts together at the least: fewer take less time than the
/// thread.
const LEAST_COMBINED: usize = 4096;

/// How large segments must be on average for positioned writes to a file to pay: each is a call.
const LEAST_SEGMENT: u64 = 64 << 10;

/// Where a segment's bytes go.
trait Place: Send {
    /// Takes the next `len` bytes of `source`, and sums them up.
    fn fill(
        &mut self,
        source: &mut dyn Read,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()>;

    /// Takes `len` bytes that `read` gives at once.
    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()>;
}

/// What filling places has at hand.
struct Filling<'a> {
    meter: &'a Meter,
    buffer: Vec<u8>,
    /// The checksum of what was filled; it isn't summed up if it is known.
    crc32c: u32,
    is_known: bool,
}

impl Filling<'_> {
    /// What comes next has this crc32c, if that is known.
    fn expect(&mut self, crc32c: Option<u32>) {
        self.is_known = crc32c.is_some();
        self.crc32c = crc32c.unwrap_or(0);
    }

    fn filled(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_known {
            self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        }
        Ok(self.meter.advance(bytes.len() as u64)?)
    }
}

/// A place in a file.
impl Place for FileAt<'_> {
    fn fill(
        &mut self,
        source: &mut dyn Read,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut filling.buffer);
        buffer.resize(WRITE_LEN, 0);
        let mut left = len;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(WRITE_LEN);
            source.read_exact(&mut buffer[..step])?;
            self.write_all(&buffer[..step])?;
            filling.filled(&buffer[..step])?;
            left -= step as u64;
        }
        filling.buffer = buffer;
        Ok(())
    }

    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut filling.buffer);
        buffer.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        read(&mut buffer)?;
        self.write_all(&buffer)?;
        filling.filled(&buffer)?;
        filling.buffer = buffer;
        Ok(())
    }
}

/// A place in memory, which the bytes are read straight into.
struct InMemory<'a>(&'a mut [u8]);

impl Place for InMemory<'_> {
    fn fill(
        &mut self,
        source: &mut dyn Read,
        _len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()> {
        for step in self.0.chunks_mut(COPY_LEN) {
            source.read_exact(step)?;
            filling.filled(step)?;
        }
        Ok(())
    }

    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        _len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()> {
        read(self.0)?;
        Ok(filling.filled(self.0)?)
    }
}

/// A chunk, and where each segment of it goes, in the order of its bytes.
struct Job<P> {
    chunk: usize,
    bytes: u64,
    pieces: Vec<Piece<P>>,
}

struct Piece<P> {
    /// Which segment of the plan it is.
    segment: usize,
    range: Range<u64>,
    place: P,
}

/// Whether a merge to a file is better done in order: one thread, or many small segments.
pub(in crate::merge) fn is_worthwhile(plan: &MergePlan, threads: NonZeroUsize) -> bool {
    let segments = plan.segments().len() as u64;
    threads.get() > 1 && plan.total_len() / segments.max(1) >= LEAST_SEGMENT
}

/// Writes the planned message to a file that is empty. Gives its crc32c.
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

/// Writes the planned message to a file from this offset on. Gives its crc32c.
pub(crate) fn write_at<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    (file, offset): (&File, u64),
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<u32> {
    let mut crcs = vec![0; plan.segments().len()];
    let mut jobs = Jobs::new();
    for (at, segment) in plan.segments().iter().enumerate() {
        let mut place = FileAt::new(file, offset + segment.start());
        match &segment.source {
            SegmentSource::Literal(range) => {
                let bytes = plan.literal(range.clone());
                place.write_all(bytes)?;
                meter.advance(bytes.len() as u64)?;
            }
            SegmentSource::Chunk { chunk, range } => {
                jobs.add(chunk.to_usize(), at, range.clone(), place);
            }
        }
    }
    let whole = WholeChunks::new(Vec::new());
    run(store, jobs, &whole, &mut crcs, threads, meter)?;
    combined(plan, &crcs, threads)
}

/// Fills `out`, which is as long as the planned message, with it. Gives its crc32c.
pub(crate) fn fill<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    out: &mut [u8],
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<u32> {
    let mut crcs = vec![0; plan.segments().len()];
    let mut jobs = Jobs::new();
    let mut whole = Vec::new();
    let mut rest = out;
    for (at, segment) in plan.segments().iter().enumerate() {
        let len = usize::try_from(segment.len()).unwrap_or(usize::MAX);
        let Some((place, behind)) = std::mem::take(&mut rest).split_at_mut_checked(len) else {
            let message = format!(
                "a buffer of fewer than the message's {} bytes",
                plan.total_len()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        rest = behind;
        match &segment.source {
            SegmentSource::Literal(range) => {
                let bytes = plan.literal(range.clone());
                place.copy_from_slice(bytes);
                meter.advance(bytes.len() as u64)?;
            }
            SegmentSource::Chunk { chunk, range }
                if WholeChunk::is_one(plan, store, chunk.to_usize(), range) =>
            {
                whole.push(WholeChunk {
                    chunk: chunk.to_usize(),
                    segment: at,
                    place,
                });
            }
            SegmentSource::Chunk { chunk, range } => {
                jobs.add(chunk.to_usize(), at, range.clone(), InMemory(place));
            }
        }
    }
    let whole = WholeChunks::new(whole);
    run(store, jobs, &whole, &mut crcs, threads, meter)?;
    combined(plan, &crcs, threads)
}

/// A part of a message, and where it goes.
#[derive(Clone, Debug)]
pub struct FilePlace<'a> {
    /// Which bytes of the message.
    pub range: Range<MessageOffset>,
    /// The file they go to.
    pub file: &'a File,
    /// Where in the file the first goes.
    pub offset: u64,
}

/// Copies parts of the planned message to their places.
pub(crate) fn scatter<S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    places: &[FilePlace<'_>],
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<()> {
    let mut jobs = Jobs::new();
    let mut count = 0;
    for place in places {
        let wanted = place.range.start.get()..place.range.end.get();
        if wanted.end > plan.total_len() {
            let message = format!(
                "bytes up to {} of a message of {}",
                wanted.end,
                plan.total_len()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        for (part, source) in plan.parts(wanted.clone()) {
            let mut to = FileAt::new(place.file, place.offset + (part.start - wanted.start));
            match source {
                SegmentSource::Literal(range) => {
                    let bytes = plan.literal(range);
                    to.write_all(bytes)?;
                    meter.advance(bytes.len() as u64)?;
                }
                SegmentSource::Chunk { chunk, range } => {
                    jobs.add(chunk.to_usize(), count, range, to);
                    count += 1;
                }
            }
        }
    }
    let mut crcs = vec![0; count];
    let whole = WholeChunks::new(Vec::new());
    run(store, jobs, &whole, &mut crcs, threads, meter)
}

/// Reads parts of the planned message to memory, each to a buffer that is as long.
pub(crate) fn gather<'b, S: ChunkStore + ?Sized>(
    plan: &MergePlan,
    store: &S,
    places: impl IntoIterator<Item = (Range<u64>, &'b mut [u8])>,
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<()> {
    let (mut jobs, mut whole) = (Jobs::new(), Vec::new());
    let mut count = 0;
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
        let mut rest = buffer;
        for (part, source) in plan.parts(wanted) {
            // They are one behind the other, so that there is room for each.
            let len = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
            let len = len.min(rest.len());
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(len);
            rest = behind;
            match source {
                SegmentSource::Literal(range) => {
                    place.copy_from_slice(plan.literal(range));
                    meter.advance(len as u64)?;
                }
                SegmentSource::Chunk { chunk, range } => {
                    let chunk = chunk.to_usize();
                    if WholeChunk::is_one(plan, store, chunk, &range) {
                        whole.push(WholeChunk {
                            chunk,
                            segment: count,
                            place,
                        });
                    } else {
                        jobs.add(chunk, count, range, InMemory(place));
                    }
                    count += 1;
                }
            }
        }
    }
    let mut crcs = vec![0; count];
    let whole = WholeChunks::new(whole);
    run(store, jobs, &whole, &mut crcs, threads, meter)
}

/// The pieces to be filled, each with its chunk.
struct Jobs<P> {
    pieces: Vec<(usize, Piece<P>)>,
}

impl<P> Jobs<P> {
    fn new() -> Self {
        Jobs { pieces: Vec::new() }
    }

    fn add(&mut self, chunk: usize, segment: usize, range: Range<u64>, place: P) {
        let piece = Piece {
            segment,
            range,
            place,
        };
        self.pieces.push((chunk, piece));
    }

    /// The largest last, so that it is taken first: what is left at the end is small, and no thread
    /// waits long for another.
    fn into_queue(self) -> Vec<Job<P>> {
        let mut pieces = self.pieces;
        pieces.sort_by_key(|(chunk, piece)| (*chunk, piece.range.start));
        let mut queue: Vec<Job<P>> = Vec::new();
        for (chunk, piece) in pieces {
            let bytes = piece.range.end - piece.range.start;
            match queue.last_mut().filter(|job| job.chunk == chunk) {
                Some(job) => {
                    job.bytes += bytes;
                    job.pieces.push(piece);
                }
                None => queue.push(Job {
                    chunk,
                    bytes,
                    pieces: vec![piece],
                }),
            }
        }
        queue.sort_by_key(|job| (job.bytes, std::cmp::Reverse(job.chunk)));
        queue
    }
}

fn run<S: ChunkStore + ?Sized, P: Place>(
    store: &S,
    jobs: Jobs<P>,
    whole: &WholeChunks<'_>,
    crcs: &mut [u32],
    threads: NonZeroUsize,
    meter: &Meter,
) -> Result<()> {
    let queue = jobs.into_queue();
    let mut order: Vec<usize> = queue.iter().rev().map(|job| job.chunk).collect();
    order.extend(whole.order());
    store.prefetch(&order);
    let threads = threads.get().min(queue.len() + whole.len());
    let queue = Mutex::new(queue);
    let failed = AtomicBool::new(false);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || -> Result<Vec<(usize, u32)>> {
        let mut found = Vec::new();
        let mut filling = Filling {
            meter,
            buffer: Vec::new(),
            crc32c: 0,
            is_known: false,
        };
        while !failed.load(Ordering::Relaxed) {
            let Some(job) = next() else { break };
            let chunk = job.chunk;
            let _span = tracing::trace_span!("read", chunk, bytes = job.bytes).entered();
            if let Err(error) = copy(store, job, &mut found, &mut filling) {
                failed.store(true, Ordering::Relaxed);
                return Err(error.in_chunk(chunk));
            }
        }
        let mut share = whole.share(threads, &failed, meter);
        store
            .read_each(&mut share)
            .inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        found.append(&mut share.found);
        Ok(found)
    };
    for result in threads::run(threads, work) {
        for (segment, crc) in result? {
            crcs[segment] = crc;
        }
    }
    Ok(())
}

fn copy<S: ChunkStore + ?Sized, P: Place>(
    store: &S,
    mut job: Job<P>,
    found: &mut Vec<(usize, u32)>,
    filling: &mut Filling<'_>,
) -> Result<()> {
    filling.meter.check()?;
    let chunk = job.chunk;
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
    let mut stream = store.stream(chunk)?;
    let mut position = 0;
    for Piece {
        segment,
        range,
        mut place,
    } in job.pieces
    {
        if range.start < position {
            // A chunk that is used twice is read from its front again.
            io::copy(&mut stream, &mut io::sink())?;
            stream = store.stream(chunk)?;
            position = 0;
        }
        let gap = range.start - position;
        if io::copy(&mut stream.by_ref().take(gap), &mut io::sink())? != gap {
            return Err(shorter());
        }
        filling.expect(known.filter(|_| range == whole));
        let filled = place.fill(&mut stream, range.end - range.start, filling);
        filled.map_err(read_error)?;
        found.push((segment, filling.crc32c));
        position = range.end;
    }
    // To its end, so that it was checked.
    io::copy(&mut stream, &mut io::sink())?;
    Ok(())
}

/// The crc32c of the message, from those of its chunks' segments.
pub(in crate::merge) fn combined(
    plan: &MergePlan,
    crcs: &[u32],
    threads: NonZeroUsize,
) -> Result<u32> {
    let segments = plan.segments();
    let share = segments.len().div_ceil(threads.get()).max(LEAST_COMBINED);
    let shares = segments.len().div_ceil(share);
    let parts = threads::map(threads, shares, |at| {
        let range = at * share..segments.len().min((at + 1) * share);
        let parts = segments[range.clone()].iter().zip(&crcs[range]);
        Ok(parts.fold((0, 0), |(crc, len), (segment, next)| {
            let crc = match &segment.source {
                SegmentSource::Literal(range) => {
                    crc32c::crc32c_append(crc, plan.literal(range.clone()))
                }
                SegmentSource::Chunk { .. } => combine(crc, *next, segment.len()),
            };
            (crc, len + segment.len())
        }))
    })?;
    let parts = parts.into_iter();
    Ok(parts.fold(0, |crc, (next, len)| combine(crc, next, len)))
}
