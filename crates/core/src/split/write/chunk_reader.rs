//! Reading a planned chunk from the source.

use std::io::{self, Read};

use crate::container::{Hash, Hashing, LeafHasher};
use crate::io::combine;
use crate::progress::Meter;
use crate::split::plan::split_plan::{Content, PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// Maximum number of bytes to read at a time between two spans. Usually only a few bytes, of tags
/// and lengths, are between two spans.
const GAP_STEP: u64 = 64 << 10;

/// A range of the source that was read for a chunk, and the checksum of its bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::split) struct Span {
    pub(in crate::split) start: u64,
    pub(in crate::split) len: u64,
    pub(in crate::split) crc32c: u32,
}

/// A reader of a planned chunk, which also computes checksums.
pub(in crate::split) struct ChunkReader<'a> {
    chunk: &'a PlannedChunk,
    source: &'a Source,
    position: u64,
    crc32c: u32,
    /// True if the chunk is one span of the source, so that its checksum is the checksum of the
    /// span.
    is_span: bool,
    /// Hasher for the chunk as a leaf of a Merkle tree; `None` if no hash was requested.
    leaf: Option<LeafHasher>,
    meter: Option<&'a Meter>,
    /// Tracing span for the time spent reading.
    timed: tracing::Span,
    pub(in crate::split) spans: Vec<Span>,
}

impl<'a> ChunkReader<'a> {
    pub(in crate::split) fn new(chunk: &'a PlannedChunk, source: &'a Source) -> Self {
        ChunkReader::starting_at(chunk, source, 0)
    }

    /// Creates a reader for a chunk, starting at the byte `offset`. Checksums then cover only the
    /// bytes read.
    pub(in crate::split) fn starting_at(
        chunk: &'a PlannedChunk,
        source: &'a Source,
        offset: u64,
    ) -> Self {
        ChunkReader {
            chunk,
            source,
            position: offset,
            crc32c: 0,
            is_span: chunk.only_range().is_some(),
            leaf: None,
            meter: None,
            timed: tracing::Span::none(),
            spans: Vec::new(),
        }
    }

    /// Makes the reader also compute the chunk's hash as a leaf of a Merkle tree.
    pub(in crate::split) fn hashed(mut self, hashing: Option<Hashing>) -> Self {
        self.leaf = hashing.map(Hashing::leaf);
        self
    }

    /// Returns the hash of the bytes read; `None` if it wasn't requested.
    pub(in crate::split) fn leaf(&self) -> Option<Hash> {
        self.leaf.clone().map(LeafHasher::finish)
    }

    /// Makes the reader add the bytes it reads to `meter`.
    pub(in crate::split) fn metered(mut self, meter: &'a Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Makes the reader record the time that it spends on reading in the tracing span `span`.
    pub(in crate::split) fn timed(mut self, span: tracing::Span) -> Self {
        self.timed = span;
        self
    }

    /// Returns the checksum of the bytes read. Must be called before the reader's field `spans` is
    /// emptied.
    pub(in crate::split) fn crc32c(&self) -> u32 {
        match self.spans.last() {
            Some(span) if self.is_span => span.crc32c,
            _ => self.crc32c,
        }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        if let Content::Added(bytes) = &self.chunk.content {
            let at = usize::try_from(self.position).unwrap_or(usize::MAX);
            let mut rest = bytes.get(at..).unwrap_or_default();
            return Ok(rest.read(buf)?);
        }
        let (source, summed) = (self.source, &mut self.spans);
        let read = |_, at, place: &mut [u8]| read_span(source, at, place, summed);
        self.chunk.spans().read_at(self.position, buf, read)
    }
}

/// Fills `place` with the source's bytes at offset `at`, and adds them to the last span in
/// `summed`, or to a new one.
fn read_span(source: &Source, at: u64, place: &mut [u8], summed: &mut Vec<Span>) -> Result<()> {
    let read = source.data().read_exact_at(at, place);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let size = source.size();
            let message = format!("the source ended early: it had {size} bytes when it was opened");
            Error::new(ErrorKind::SourceChanged, message).at_offset(at)
        }
        _ => error.into(),
    })?;
    let len = place.len() as u64;
    match summed.last_mut().filter(|last| last.start + last.len == at) {
        Some(last) => {
            last.len += len;
            last.crc32c = crc32c::crc32c_append(last.crc32c, place);
        }
        None => summed.push(Span {
            start: at,
            len,
            crc32c: crc32c::crc32c(place),
        }),
    }
    Ok(())
}

impl Read for ChunkReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let timed = self.timed.clone();
        let _entered = timed.enter();
        let filled = self.fill(buf)?;
        self.position += filled as u64;
        if !self.is_span {
            self.crc32c = crc32c::crc32c_append(self.crc32c, &buf[..filled]);
        }
        if let Some(leaf) = &mut self.leaf {
            leaf.update(&buf[..filled]);
        }
        if let Some(meter) = self.meter {
            meter.advance(filled as u64)?;
        }
        Ok(filled)
    }
}

/// Announces to the source that the bytes of these chunks will be read next.
pub(in crate::split) fn tell(plan: &SplitPlan, source: &Source, chunks: &[usize]) {
    let chunks = chunks.iter().filter_map(|&index| plan.chunks.get(index));
    source.tell(chunks.flat_map(PlannedChunk::source_ranges));
}

/// Computes the checksum of the whole source from the checksums of spans. Only the bytes between
/// the spans are read.
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
