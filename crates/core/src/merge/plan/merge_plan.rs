//! The plan for a merge: the spans of the message, in message order and grouped by chunk.

use std::fmt;
use std::ops::Range;

use crate::Result;
use crate::error::ChunkIndex;
use crate::spans::{SourceId, Span, SpanList, SpanSource};

/// A plan of a merge: the origin of every byte of the merged message.
///
/// The plan's [spans](MergePlan::spans) cover the message from the first byte to the last. Each
/// span's source is a chunk, given by its index. The `Display` of a plan lists the spans:
///
/// ```text
/// 0 chunk 0 0..9
/// 9 literal 82 02
/// 11 chunk 1 0..258
/// 269 bytes
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlan {
    spans: SpanList,
    /// Indices of the spans from chunks, sorted by chunk and then by position in the chunk.
    by_chunk: Vec<usize>,
    /// Start of each chunk's part of `by_chunk`, and the end of the last part.
    starts: Vec<usize>,
}

/// Returns the chunk that a span comes from, and the range in the chunk; `None` for a literal.
pub(crate) fn chunk_of(span: &Span<'_>) -> Option<(usize, Range<u64>)> {
    let (chunk, range) = span.stored()?;
    Some((chunk.index(), range))
}

impl MergePlan {
    /// Creates a plan with these spans, for a message in `chunks` chunks.
    pub(crate) fn new(spans: SpanList, chunks: usize) -> Self {
        let of_chunks = || {
            let spans = spans.iter().enumerate();
            spans.filter_map(|(at, span)| Some((span.stored()?.0.index(), at)))
        };
        let last = of_chunks().map(|(chunk, _)| chunk).max();
        let chunks = last.map_or(chunks, |last| chunks.max(last + 1));
        // Each chunk's spans are counted first, so that its range of `by_chunk` is known.
        let mut starts = vec![0; chunks + 1];
        for (chunk, _) in of_chunks() {
            starts[chunk + 1] += 1;
        }
        for chunk in 0..chunks {
            starts[chunk + 1] += starts[chunk];
        }
        let mut by_chunk = vec![0; starts[chunks]];
        let mut next = starts.clone();
        for (chunk, at) in of_chunks() {
            by_chunk[next[chunk]] = at;
            next[chunk] += 1;
        }
        for range in starts.windows(2) {
            let place = |&at: &usize| spans.get(at).and_then(|span| Some(span.stored()?.1.start));
            by_chunk[range[0]..range[1]].sort_by_key(place);
        }
        MergePlan {
            spans,
            by_chunk,
            starts,
        }
    }

    /// Returns the plan for a message that is exactly one chunk.
    pub(crate) fn of_chunk(chunk: usize, size: u64, chunks: usize) -> Result<MergePlan> {
        let mut spans = SpanList::new();
        spans.push_span(SourceId::new(chunk)?, 0..size);
        Ok(MergePlan::new(spans, chunks))
    }

    /// Returns the plan for only some ranges of the output, in the given order.
    #[must_use]
    #[doc(hidden)]
    pub fn clip(&self, ranges: &[Range<u64>]) -> MergePlan {
        let mut spans = SpanList::new();
        spans.append_ranges(&self.spans, ranges);
        MergePlan::new(spans, self.starts.len().saturating_sub(1))
    }

    /// Returns the size of the merged message in bytes.
    pub fn total_len(&self) -> u64 {
        self.spans.len()
    }

    /// Returns the spans of the message; their sources are chunks.
    pub fn spans(&self) -> &SpanList {
        &self.spans
    }

    /// Returns the spans whose bytes come from this chunk, in the order of the bytes in the chunk.
    /// Each span is a place in the message to which bytes of the chunk have to be written.
    pub fn chunk_spans(
        &self,
        chunk: impl Into<ChunkIndex>,
    ) -> impl DoubleEndedIterator<Item = Span<'_>> {
        let spans = self.spans_of_chunk(chunk.into().to_usize()).iter();
        spans.filter_map(|&at| self.spans.get(at))
    }

    /// Returns the chunks in the output, in the order of their first use.
    pub(crate) fn chunks_in_order(&self) -> Vec<usize> {
        let mut seen = vec![false; self.starts.len()];
        let chunks = self.spans.iter().filter_map(|span| span.stored());
        let chunks = chunks.map(|(chunk, _)| chunk.index());
        chunks
            .filter(|&chunk| !std::mem::replace(&mut seen[chunk], true))
            .collect()
    }

    /// Returns the indices of the spans that come from a chunk, in the order of its bytes.
    pub(in crate::merge) fn spans_of_chunk(&self, chunk: usize) -> &[usize] {
        match (
            self.starts.get(chunk),
            self.starts.get(chunk.saturating_add(1)),
        ) {
            (Some(&start), Some(&end)) => &self.by_chunk[start..end],
            _ => &[],
        }
    }
}

impl fmt::Display for MergePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for span in self.spans.iter() {
            match span.source {
                SpanSource::Literal(bytes) => {
                    write!(f, "{} literal", span.offset)?;
                    for byte in bytes {
                        write!(f, " {byte:02x}")?;
                    }
                    writeln!(f)?;
                }
                SpanSource::Stored(chunk, start) => {
                    let (chunk, end) = (chunk.index(), start + span.len);
                    writeln!(f, "{} chunk {chunk} {start}..{end}", span.offset)?;
                }
            }
        }
        writeln!(f, "{} bytes", self.total_len())
    }
}
