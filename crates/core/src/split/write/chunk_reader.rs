//! The bytes of a planned chunk, read from the source.

use std::io::{self, Read};

use crate::io::combine;
use crate::progress::Meter;
use crate::split::plan::split_plan::{ChunkSegment, Content, PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// How much of what is between spans is read at once. It is tags and lengths, a few bytes each.
const GAP_STEP: u64 = 64 << 10;

/// Bytes of the source that went to a chunk, and their checksum.
#[derive(Clone, Copy, Debug)]
pub(in crate::split) struct Span {
    pub(in crate::split) start: u64,
    pub(in crate::split) len: u64,
    pub(in crate::split) crc32c: u32,
}

/// Reads a chunk from its segments, and sums up what it reads.
pub(in crate::split) struct ChunkReader<'a> {
    plan: &'a SplitPlan,
    chunk: &'a PlannedChunk,
    source: &'a Source,
    /// The segment being read, and how far.
    at: usize,
    read: u64,
    /// Whether nothing of that segment was read.
    fresh: bool,
    crc32c: u32,
    /// Whether the chunk is one span of the source, so that its checksum is the span's.
    is_span: bool,
    meter: Option<&'a Meter>,
    /// What the time for reading is counted to.
    timed: tracing::Span,
    pub(in crate::split) spans: Vec<Span>,
}

impl<'a> ChunkReader<'a> {
    pub(in crate::split) fn new(
        plan: &'a SplitPlan,
        chunk: &'a PlannedChunk,
        source: &'a Source,
    ) -> Self {
        let is_span = match &chunk.content {
            Content::Segments(segments) => matches!(segments[..], [ChunkSegment::Source(_)]),
            Content::Added(_) => false,
        };
        ChunkReader {
            plan,
            chunk,
            source,
            at: 0,
            read: 0,
            fresh: true,
            crc32c: 0,
            is_span,
            meter: None,
            timed: tracing::Span::none(),
            spans: Vec::new(),
        }
    }

    /// Counts what is read as done.
    pub(in crate::split) fn metered(mut self, meter: &'a Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Counts the time that reading takes to `span`.
    pub(in crate::split) fn timed(mut self, span: tracing::Span) -> Self {
        self.timed = span;
        self
    }

    /// The checksum of what was read; to be asked for before `spans` are taken.
    pub(in crate::split) fn crc32c(&self) -> u32 {
        match self.spans.last() {
            Some(span) if self.is_span => span.crc32c,
            _ => self.crc32c,
        }
    }

    /// Reads a chunk from the byte `offset` on. Sums then are of what is read only.
    pub(in crate::split) fn starting_at(
        plan: &'a SplitPlan,
        chunk: &'a PlannedChunk,
        source: &'a Source,
        offset: u64,
    ) -> Self {
        let mut reader = ChunkReader::new(plan, chunk, source);
        reader.read = offset;
        if let Content::Segments(segments) = &chunk.content {
            while let Some(segment) = segments.get(reader.at) {
                let len = segment.len();
                if reader.read < len {
                    break;
                }
                reader.read -= len;
                reader.at += 1;
            }
        }
        reader
    }

    /// Reads from the segment at hand; 0 at its end.
    fn read_segment(&mut self, buf: &mut [u8]) -> Result<usize> {
        let take = |len: u64, done: u64| {
            usize::try_from(len - done)
                .unwrap_or(usize::MAX)
                .min(buf.len())
        };
        let segments = match &self.chunk.content {
            Content::Added(bytes) if self.at == 0 => {
                let n = take(bytes.len() as u64, self.read);
                let from = usize::try_from(self.read).unwrap_or(usize::MAX);
                buf[..n].copy_from_slice(&bytes[from..from + n]);
                return Ok(n);
            }
            Content::Added(_) => return Ok(0),
            Content::Segments(segments) => segments,
        };
        match &segments[self.at] {
            ChunkSegment::Literal(range) => {
                let n = take(range.len() as u64, self.read);
                let from = range.start + usize::try_from(self.read).unwrap_or(usize::MAX);
                buf[..n].copy_from_slice(&self.plan.literals[from..from + n]);
                Ok(n)
            }
            ChunkSegment::Source(range) => {
                let n = take(range.end - range.start, self.read);
                if n == 0 {
                    return Ok(0);
                }
                let offset = range.start + self.read;
                let source = self.source.data();
                source
                    .read_exact_at(offset, &mut buf[..n])
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => Error::new(
                            ErrorKind::SourceChanged,
                            format!(
                                "the source ended early: it had {} bytes when it was opened",
                                self.source.size()
                            ),
                        )
                        .at_offset(offset),
                        _ => error.into(),
                    })?;
                if self.fresh {
                    self.fresh = false;
                    self.spans.push(Span {
                        start: offset,
                        len: 0,
                        crc32c: 0,
                    });
                }
                if let Some(span) = self.spans.last_mut() {
                    span.len += n as u64;
                    span.crc32c = crc32c::crc32c_append(span.crc32c, &buf[..n]);
                }
                Ok(n)
            }
        }
    }

    fn segment_count(&self) -> usize {
        match &self.chunk.content {
            Content::Added(_) => 1,
            Content::Segments(segments) => segments.len(),
        }
    }
}

impl Read for ChunkReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let timed = self.timed.clone();
        let _entered = timed.enter();
        let mut filled = 0;
        while filled < buf.len() && self.at < self.segment_count() {
            let n = self.read_segment(&mut buf[filled..])?;
            if n == 0 {
                self.at += 1;
                self.read = 0;
                self.fresh = true;
                continue;
            }
            filled += n;
            self.read += n as u64;
        }
        if !self.is_span {
            self.crc32c = crc32c::crc32c_append(self.crc32c, &buf[..filled]);
        }
        if let Some(meter) = self.meter {
            meter.advance(filled as u64)?;
        }
        Ok(filled)
    }
}

/// Tells the source that these chunks are read next.
pub(in crate::split) fn tell(plan: &SplitPlan, source: &Source, chunks: &[usize]) {
    let segments = chunks.iter().filter_map(|&index| plan.chunks.get(index));
    let segments = segments.flat_map(PlannedChunk::segments);
    source.tell(segments.filter_map(|segment| match segment {
        ChunkSegment::Source(range) => Some(range.clone()),
        ChunkSegment::Literal(_) => None,
    }));
}

/// The checksum of the whole source, from those of its spans; what is between them is read.
pub(in crate::split) fn source_crc32c(source: &Source, mut spans: Vec<Span>) -> Result<u32> {
    spans.sort_by_key(|span| span.start);
    spans.push(Span {
        start: source.size(),
        len: 0,
        crc32c: 0,
    });
    let ends = spans.iter().map(|span| span.start.saturating_add(span.len));
    let begins = std::iter::once(0).chain(ends);
    let gaps = begins.zip(&spans).map(|(begin, next)| begin..next.start);
    source.tell(gaps.filter(|gap| gap.start < gap.end));
    let mut crc = 0;
    let mut position = 0;
    let mut gap = Vec::new();
    for span in spans {
        while position < span.start {
            let step = (span.start - position).min(GAP_STEP);
            gap.resize(usize::try_from(step).unwrap_or_default(), 0);
            source.data().read_exact_at(position, &mut gap)?;
            crc = crc32c::crc32c_append(crc, &gap);
            position += step;
        }
        crc = combine(crc, span.crc32c, span.len);
        position = span.start + span.len;
    }
    Ok(crc)
}
