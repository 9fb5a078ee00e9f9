//! Reading every chunk once, on several threads, to check it, to compute the checksums of the
//! segments that a merge copies from it, and to count the elements of slices.

use std::collections::HashMap;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::parallel::WHOLE_UP_TO;
use crate::io::threads;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::ChunkStore;
use crate::progress::Meter;
use crate::spans::COPY_LEN;
use crate::wire::{FieldNumber, Input, StreamInput, WireCursor};
use crate::{Error, ErrorKind, Result};

/// The result of reading all chunks.
#[derive(Debug, Default)]
pub(in crate::merge) struct ChecksumPass {
    /// Total size of the chunks that could be read, in bytes.
    pub(in crate::merge) bytes: u64,
    /// Problems, in the order of the chunks.
    pub(in crate::merge) problems: Vec<Error>,
    /// crc32c of every segment of the plan that comes from a readable chunk; 0 for all other
    /// segments.
    pub(in crate::merge) crcs: Vec<u32>,
    /// Field number of the first field in each chunk; `None` if the chunk was not in memory as a
    /// whole, or has no field.
    pub(in crate::merge) first_fields: Vec<Option<FieldNumber>>,
    /// Number of elements in each requested slice, by the index of the slice's chunk. Slices that
    /// aren't messages are absent.
    pub(in crate::merge) elements: HashMap<usize, u64>,
}

/// Facts to determine about the chunks while they are read.
#[derive(Clone, Copy, Debug)]
pub(in crate::merge) struct ChecksumRequest<'a> {
    pub(in crate::merge) plan: Option<&'a MergePlan>,
    /// The slices whose elements have to be counted: a map from the index of each slice's chunk to
    /// the field number of the slice's elements.
    pub(in crate::merge) slices: &'a HashMap<usize, FieldNumber>,
}

/// Reads all chunks in `groups`. The chunks of each group are read in order, by one thread.
pub(in crate::merge) fn read_all<S: ChunkStore + ?Sized>(
    store: &S,
    mut groups: Vec<Vec<usize>>,
    asked: ChecksumRequest<'_>,
    threads: NonZeroUsize,
    meter: &Meter,
) -> ChecksumPass {
    // The largest groups are read first, so that threads finish at about the same time.
    groups.sort_by_cached_key(|group| {
        let bytes: u64 = group.iter().map(|&chunk| store.size(chunk)).sum();
        std::cmp::Reverse(bytes)
    });
    store.prefetch(&groups.concat());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut reading = Reading {
            store,
            asked,
            meter,
            buffer: Vec::new(),
            done: Done::default(),
        };
        while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            for &chunk in group {
                if meter.check().is_err() {
                    return reading.done;
                }
                reading.read(chunk);
            }
        }
        reading.done
    };
    let mut pass = ChecksumPass {
        crcs: vec![0; asked.plan.map_or(0, |plan| plan.spans().span_count())],
        first_fields: vec![None; store.len()],
        ..ChecksumPass::default()
    };
    let mut problems = Vec::new();
    for done in threads::run(threads.get().min(groups.len()).max(1), work) {
        pass.bytes += done.bytes;
        problems.extend(done.problems);
        for (segment, crc32c) in done.found {
            pass.crcs[segment] = crc32c;
        }
        for (chunk, number) in done.first_fields {
            pass.first_fields[chunk] = Some(number);
        }
        pass.elements.extend(done.elements);
    }
    problems.sort_by_key(|(chunk, _)| *chunk);
    pass.problems = problems.into_iter().map(|(_, error)| error).collect();
    pass.problems.extend(meter.check().err());
    pass
}

/// The state of one reading thread.
struct Reading<'a, S: ?Sized> {
    store: &'a S,
    asked: ChecksumRequest<'a>,
    meter: &'a Meter,
    buffer: Vec<u8>,
    done: Done,
}

/// The results of one thread.
#[derive(Default)]
struct Done {
    found: Vec<(usize, u32)>,
    first_fields: Vec<(usize, FieldNumber)>,
    elements: Vec<(usize, u64)>,
    bytes: u64,
    problems: Vec<(usize, Error)>,
}

impl<S: ChunkStore + ?Sized> Reading<'_, S> {
    fn read(&mut self, chunk: usize) {
        let bytes = self.store.size(chunk);
        let _span = tracing::trace_span!("read", chunk, bytes).entered();
        match self.sum_up(chunk) {
            Ok(()) => self.done.bytes += bytes,
            // A cancellation is reported once, instead of for every remaining chunk.
            Err(error) if error.kind() == ErrorKind::Cancelled => {}
            Err(error) => self.done.problems.push((chunk, error.in_chunk(chunk))),
        }
    }

    fn sum_up(&mut self, chunk: usize) -> Result<()> {
        let mut sums = Sums::new(self.store, self.asked.plan, chunk);
        self.go_through(chunk, &mut sums)?;
        self.done.found.extend(sums.of_segments);
        Ok(())
    }

    fn go_through(&mut self, chunk: usize, sums: &mut Sums<'_>) -> Result<()> {
        let (store, meter) = (self.store, self.meter);
        let slice_of = self.asked.slices.get(&chunk).copied();
        if let Some(bytes) = store.as_slice(chunk) {
            sums.add(bytes);
            self.done.look_into(chunk, bytes, slice_of);
            return meter.advance(bytes.len() as u64);
        }
        let size = store.size(chunk);
        if size <= WHOLE_UP_TO {
            self.buffer.resize(usize::try_from(size).unwrap_or(0), 0);
            // The stream below reports any error.
            if store.read_into(chunk, &mut self.buffer).is_ok() {
                sums.add(&self.buffer);
                self.done.look_into(chunk, &self.buffer, slice_of);
                return meter.advance(size);
            }
        }
        let stream = store.stream(chunk)?;
        let mut stream = SummingReader {
            stream,
            sums,
            meter,
            failed: false,
        };
        if let Some(number) = slice_of {
            match count(StreamInput::new(&mut stream, size), number) {
                Ok(count) => self.done.elements.push((chunk, count)),
                Err(error) if stream.failed => return Err(error),
                // The chunk is not a message. Its remaining bytes are still read.
                Err(_) => {}
            }
        }
        self.buffer.resize(COPY_LEN, 0);
        loop {
            match stream.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Done {
    /// Records the first field of the chunk whose content is `bytes` and, if the chunk is a
    /// requested slice, the number of its elements.
    fn look_into(&mut self, chunk: usize, bytes: &[u8], slice_of: Option<FieldNumber>) {
        self.first_fields.extend(first_field(chunk, bytes));
        let count = slice_of.and_then(|number| count(bytes, number).ok());
        self.elements.extend(count.map(|count| (chunk, count)));
    }
}

/// A chunk's stream that computes checksums while it is read.
struct SummingReader<'a, 's, R> {
    stream: R,
    sums: &'a mut Sums<'s>,
    meter: &'a Meter,
    failed: bool,
}

impl<R: Read> Read for SummingReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer).and_then(|read| {
            self.meter.advance(read as u64)?;
            Ok(read)
        });
        match &read {
            Ok(read) => self.sums.add(buffer.get(..*read).unwrap_or_default()),
            Err(error) => self.failed |= error.kind() != io::ErrorKind::Interrupted,
        }
        read
    }
}

/// Counts the fields with this number in a message.
fn count(message: impl Input, number: FieldNumber) -> Result<u64> {
    let mut cursor = WireCursor::new(message);
    let mut count = 0;
    while let Some(field) = cursor.next()? {
        count += u64::from(field.number == number);
    }
    Ok(count)
}

/// Returns `chunk` and the number of the chunk's first field; `None` if the chunk doesn't begin
/// with a field.
fn first_field(chunk: usize, bytes: &[u8]) -> Option<(usize, FieldNumber)> {
    let field = WireCursor::new(bytes).header().ok()??;
    Some((chunk, field.number))
}

/// The checksums of the ranges that a merge copies from a chunk.
struct Sums<'a> {
    plan: Option<&'a MergePlan>,
    /// Indices of the segments, in the order of the chunk's bytes, each with the crc32c of the
    /// segment's bytes so far.
    of_segments: Vec<(usize, u32)>,
    /// Index of the first unfinished segment.
    first: usize,
    position: u64,
}

impl<'a> Sums<'a> {
    fn new<S: ChunkStore + ?Sized>(store: &S, plan: Option<&'a MergePlan>, chunk: usize) -> Self {
        let segments = plan.map_or(&[][..], |plan| plan.spans_of_chunk(chunk));
        let mut sums = Sums {
            plan,
            of_segments: segments.iter().map(|&segment| (segment, 0)).collect(),
            first: 0,
            position: 0,
        };
        let whole = 0..store.size(chunk);
        // If the only segment is the whole chunk, its checksum is the one that the store compares.
        if let Some(known) = store.checked_crc32c(chunk)
            && segments.iter().all(|&at| sums.range(at) == whole)
        {
            sums.of_segments
                .iter_mut()
                .for_each(|(_, crc)| *crc = known);
            sums.first = segments.len();
        }
        sums
    }

    fn range(&self, segment: usize) -> Range<u64> {
        let span = self.plan.and_then(|plan| plan.spans().get(segment));
        span.and_then(|span| Some(span.stored()?.1)).unwrap_or(0..0)
    }

    /// Adds the next bytes of the chunk to all segments that contain them; segments may overlap.
    fn add(&mut self, bytes: &[u8]) {
        let begin = self.position;
        let end = begin + bytes.len() as u64;
        self.position = end;
        for at in self.first..self.of_segments.len() {
            let (segment, crc32c) = self.of_segments[at];
            let range = self.range(segment);
            if range.start >= end {
                break;
            }
            let within = |position: u64| usize::try_from(position - begin).unwrap_or(usize::MAX);
            let from = within(range.start.max(begin));
            let to = within(range.end.clamp(begin, end));
            if let Some(part) = bytes.get(from..to) {
                self.of_segments[at].1 = crc32c::crc32c_append(crc32c, part);
            }
            if range.end <= end && at == self.first {
                self.first += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::progress::{CancelToken, Progress};
    use crate::spans::{SourceId, SpanList};

    #[test]
    fn segments_are_summed_up_wherever_pieces_end_and_segments_overlap() {
        let bytes: Vec<u8> = (0..3000u32).map(|at| (at * 7).to_le_bytes()[0]).collect();
        let ranges = [0..0, 0..700, 0..3000, 5..6, 700..2900, 800..900, 2999..3000];
        let mut spans = SpanList::new();
        for range in ranges {
            spans.push_span(SourceId::FIRST, range);
        }
        let plan = MergePlan::new(spans, 1);
        for piece in [1, 7, 699, 700, 701, 3000] {
            let mut sums = Sums::new(&[Bytes::from(bytes.clone())][..], Some(&plan), 0);
            bytes.chunks(piece).for_each(|piece| sums.add(piece));
            for (segment, crc32c) in sums.of_segments {
                let span = plan.spans().get(segment).unwrap();
                let (_, range) = span.stored().unwrap();
                let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                let wanted = &bytes[start..end];
                assert_eq!(
                    crc32c,
                    crc32c::crc32c(wanted),
                    "{range:?} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn what_is_cancelled_is_said_once() {
        let token = CancelToken::new();
        token.cancel();
        let meter = Progress::default().cancelled_by(&token).meter(9);
        let chunks = [const { Bytes::from_static(b"chunk") }; 9];
        let groups = (0..9).map(|chunk| vec![chunk]).collect();
        let asked = ChecksumRequest {
            plan: None,
            slices: &HashMap::new(),
        };
        let pass = read_all(&chunks[..], groups, asked, NonZeroUsize::MIN, &meter);
        let kinds: Vec<_> = pass.problems.iter().map(Error::kind).collect();
        assert_eq!(kinds, [ErrorKind::Cancelled]);
    }
}
