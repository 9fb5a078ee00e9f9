//! What a merge writes: runs of bytes, each with where it comes from.

use std::fmt;
use std::ops::Range;

use crate::newtypes::{ChunkIndex, MessageOffset};

/// Where a run of the output's bytes comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentSource {
    /// The plan's own bytes: tags and lengths that are written anew.
    Literal(Range<usize>),
    /// Bytes of a chunk.
    Chunk {
        /// The chunk's index.
        chunk: ChunkIndex,
        /// Which of its bytes.
        range: Range<u64>,
    },
}

/// A run of the output's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeSegment {
    /// Where in the output it starts.
    pub offset: MessageOffset,
    /// Where its bytes come from.
    pub source: SegmentSource,
}

impl MergeSegment {
    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> u64 {
        match &self.source {
            SegmentSource::Literal(range) => (range.end - range.start) as u64,
            SegmentSource::Chunk { range, .. } => range.end - range.start,
        }
    }

    /// Where in the output it starts.
    pub(crate) fn start(&self) -> u64 {
        self.offset.get()
    }

    /// Where in the output it ends.
    pub(crate) fn end(&self) -> u64 {
        self.start() + self.len()
    }

    /// Where some of its bytes come from, by their place in the output.
    fn source_of(&self, part: Range<u64>) -> SegmentSource {
        let (skip, len) = (part.start - self.start(), part.end - part.start);
        match &self.source {
            SegmentSource::Literal(bytes) => {
                // A literal is in memory, so its length fits.
                let start = bytes.start + usize::try_from(skip).unwrap_or(0);
                SegmentSource::Literal(start..start + usize::try_from(len).unwrap_or(0))
            }
            SegmentSource::Chunk { chunk, range } => SegmentSource::Chunk {
                chunk: *chunk,
                range: range.start + skip..range.start + skip + len,
            },
        }
    }

    /// The chunk that it comes from, and where in it it starts.
    fn chunk(&self) -> Option<(usize, u64)> {
        match &self.source {
            SegmentSource::Literal(_) => None,
            SegmentSource::Chunk { chunk, range } => Some((chunk.to_usize(), range.start)),
        }
    }
}

/// Where every byte of a merged message comes from, before any of it is written.
///
/// The segments cover the output from its first byte to its last, in order, each once. Printed, it
/// lists them:
///
/// ```text
/// 0 chunk 0 0..9
/// 9 literal 82 02
/// 11 chunk 1 0..258
/// 269 bytes
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlan {
    segments: Vec<MergeSegment>,
    literals: Vec<u8>,
    total: u64,
    /// Indices of the segments that copy from chunks, by chunk and then by place in it.
    by_chunk: Vec<usize>,
    /// Where in `by_chunk` each chunk's begin, and the end.
    starts: Vec<usize>,
}

impl MergePlan {
    pub(in crate::merge) fn new(
        segments: Vec<MergeSegment>,
        literals: Vec<u8>,
        chunks: usize,
    ) -> Self {
        let total = segments.last().map_or(0, MergeSegment::end);
        let of_chunk = segments.iter().enumerate();
        let of_chunk = of_chunk.filter_map(|(at, segment)| Some((segment.chunk()?.0, at)));
        // Counted first, so that each has a place at once.
        let mut starts = vec![0; chunks + 1];
        for (chunk, _) in of_chunk.clone() {
            starts[chunk + 1] += 1;
        }
        for chunk in 0..chunks {
            starts[chunk + 1] += starts[chunk];
        }
        let mut by_chunk = vec![0; starts[chunks]];
        let mut next = starts.clone();
        for (chunk, at) in of_chunk {
            by_chunk[next[chunk]] = at;
            next[chunk] += 1;
        }
        for range in starts.windows(2) {
            by_chunk[range[0]..range[1]].sort_by_key(|&at| segments[at].chunk());
        }
        MergePlan {
            segments,
            literals,
            total,
            by_chunk,
            starts,
        }
    }

    /// The plan of a message that is all of one chunk.
    pub(crate) fn of_chunk(chunk: usize, size: u64, chunks: usize) -> MergePlan {
        let all = MergeSegment {
            offset: MessageOffset::default(),
            source: SegmentSource::Chunk {
                chunk: chunk.into(),
                range: 0..size,
            },
        };
        let segments = Some(all).filter(|_| size > 0).into_iter().collect();
        MergePlan::new(segments, Vec::new(), chunks)
    }

    /// Where these bytes of the output come from, run by run, each with its place in the output.
    pub(crate) fn parts(
        &self,
        wanted: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, SegmentSource)> {
        let first = self
            .segments
            .partition_point(|segment| segment.end() <= wanted.start);
        let segments = self.segments[first..].iter();
        segments.map_while(move |segment| {
            let start = wanted.start.max(segment.start());
            let end = wanted.end.min(segment.end());
            (start < end).then(|| (start..end, segment.source_of(start..end)))
        })
    }

    /// The plan for some of the output's bytes only, one range behind the other.
    pub(crate) fn clip(&self, ranges: &[Range<u64>]) -> MergePlan {
        let (mut segments, mut offset) = (Vec::new(), 0);
        for range in ranges {
            for (part, source) in self.parts(range.clone()) {
                segments.push(MergeSegment {
                    offset: MessageOffset::new(offset),
                    source,
                });
                offset += part.end - part.start;
            }
        }
        MergePlan::new(segments, self.literals.clone(), self.starts.len() - 1)
    }

    /// How many bytes the merged message has.
    pub fn total_len(&self) -> u64 {
        self.total
    }

    /// All segments, in the order of the output.
    pub fn segments(&self) -> &[MergeSegment] {
        &self.segments
    }

    /// The bytes of a literal segment.
    pub fn literal(&self, range: Range<usize>) -> &[u8] {
        self.literals.get(range).unwrap_or_default()
    }

    /// The segments that copy from this chunk, in the order of its bytes: what has to be written
    /// once it is read.
    pub fn chunk_segments(
        &self,
        chunk: impl Into<ChunkIndex>,
    ) -> impl DoubleEndedIterator<Item = &MergeSegment> {
        let segments = self.segments_of_chunk(chunk.into().to_usize()).iter();
        segments.map(|&at| &self.segments[at])
    }

    /// The chunks that the output is made of, in the order in which it first needs them.
    pub(crate) fn chunks_in_order(&self) -> Vec<usize> {
        let mut seen = vec![false; self.starts.len()];
        let chunks = self.segments.iter().filter_map(MergeSegment::chunk);
        let chunks = chunks.map(|(chunk, _)| chunk);
        chunks
            .filter(|&chunk| !std::mem::replace(&mut seen[chunk], true))
            .collect()
    }

    /// The indices of these.
    pub(in crate::merge) fn segments_of_chunk(&self, chunk: usize) -> &[usize] {
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
        for segment in &self.segments {
            match &segment.source {
                SegmentSource::Literal(range) => {
                    write!(f, "{} literal", segment.offset)?;
                    for byte in self.literal(range.clone()) {
                        write!(f, " {byte:02x}")?;
                    }
                    writeln!(f)?;
                }
                SegmentSource::Chunk { chunk, range } => {
                    writeln!(
                        f,
                        "{} chunk {chunk} {}..{}",
                        segment.offset, range.start, range.end
                    )?;
                }
            }
        }
        writeln!(f, "{} bytes", self.total)
    }
}
