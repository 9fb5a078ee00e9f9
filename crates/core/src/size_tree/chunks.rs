//! Which chunk a place of a merged message lies in.

use std::ops::Range;

use crate::merge::{MergePlan, chunk_of};
use crate::newtypes::ChunkIndex;
use crate::spans::Span;

/// No chunk: the message is in one piece, or the bytes are of the merge itself.
pub(super) const NO_CHUNK: u32 = u32::MAX;

/// The chunks that something lies in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkSet {
    /// Sorted, the first that were met.
    indices: Vec<u32>,
    more: bool,
}

impl ChunkSet {
    /// How many are told one by one.
    pub const MOST: usize = 16;

    /// Their indices, ascending: all, or if there are [`more`](Self::more) the first that were met.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = ChunkIndex> {
        let indices = self.indices.iter();
        indices.map(|&index| ChunkIndex::new(u64::from(index)))
    }

    /// Whether there are more than are told.
    pub fn more(&self) -> bool {
        self.more
    }

    /// Whether there is none: the message is in one piece.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    pub(super) fn add(&mut self, chunk: u32) {
        if chunk == NO_CHUNK {
            return;
        }
        if let Err(at) = self.indices.binary_search(&chunk) {
            if self.indices.len() < Self::MOST {
                self.indices.insert(at, chunk);
            } else {
                self.more = true;
            }
        }
    }
}

/// Where in the message each chunk's bytes lie. What was looked up last is at hand.
#[derive(Debug)]
pub(super) struct ChunkMap {
    /// Where segments start, in order, and their chunks.
    starts: Vec<(u64, u32)>,
    found: Range<u64>,
    chunk: u32,
}

impl ChunkMap {
    /// A message that has no chunks.
    pub(super) fn whole() -> Self {
        ChunkMap {
            starts: Vec::new(),
            found: 0..u64::MAX,
            chunk: NO_CHUNK,
        }
    }

    pub(super) fn of(plan: &MergePlan) -> Self {
        let chunk = |span: &Span<'_>| u32::try_from(chunk_of(span)?.0).ok();
        let starts = plan.spans().iter();
        let starts = starts.map(|span| (span.offset, chunk(&span).unwrap_or(NO_CHUNK)));
        let starts = starts.collect();
        ChunkMap {
            starts,
            found: 0..0,
            chunk: NO_CHUNK,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.starts.is_empty()
    }

    /// The chunk at a position, until [`end`](Self::end).
    #[inline]
    pub(super) fn at(&mut self, position: u64) -> u32 {
        if !self.found.contains(&position) {
            self.look_up(position);
        }
        self.chunk
    }

    pub(super) fn end(&self) -> u64 {
        self.found.end
    }

    fn look_up(&mut self, position: u64) {
        let next = self.starts.partition_point(|(start, _)| *start <= position);
        let (start, chunk) = match next.checked_sub(1) {
            Some(at) => self.starts[at],
            None => (0, NO_CHUNK),
        };
        let end = self.starts.get(next).map_or(u64::MAX, |(start, _)| *start);
        self.found = start..end;
        self.chunk = chunk;
    }

    /// Adds the chunks of a range, and says the first.
    pub(super) fn add_range(&mut self, range: Range<u64>, set: &mut ChunkSet) -> u32 {
        let first = self.at(range.start);
        set.add(first);
        while self.found.end < range.end && !set.more {
            let chunk = self.at(self.found.end);
            set.add(chunk);
        }
        first
    }
}
