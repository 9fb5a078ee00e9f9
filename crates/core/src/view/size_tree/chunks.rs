//! Finding the chunk at a position in a merged message.

use std::ops::Range;

use crate::error::ChunkIndex;
use crate::merge::{MergePlan, chunk_of};
use crate::spans::Span;

/// Chunk index of bytes that are in no chunk, because the message isn't chunked or because a merge
/// generates the bytes.
pub(super) const NO_CHUNK: u32 = u32::MAX;

/// The chunks that contain a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkSet {
    /// Sorted indices of the first chunks encountered.
    indices: Vec<u32>,
    more: bool,
}

impl ChunkSet {
    /// Maximum number of chunks to list.
    pub const MOST: usize = 16;

    /// Returns the indices of the chunks, in ascending order. If there are [`more`](Self::more)
    /// than [`MOST`](Self::MOST) chunks, returns only those of the chunks encountered first.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = ChunkIndex> {
        let indices = self.indices.iter();
        indices.map(|&index| ChunkIndex::new(u64::from(index)))
    }

    /// Returns true if there are more chunks than [`indices`](Self::indices) returns.
    pub fn more(&self) -> bool {
        self.more
    }

    /// Returns true if there are no chunks, as in a message that isn't chunked.
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

/// The ranges of a message that come from each chunk, with a cache of the last lookup.
#[derive(Debug)]
pub(super) struct ChunkMap {
    /// Start of each range in the message, in order, and the index of its chunk.
    starts: Vec<(u64, u32)>,
    found: Range<u64>,
    chunk: u32,
}

impl ChunkMap {
    /// Creates the map for a message that isn't chunked.
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

    /// Returns the chunk at a position. The same chunk contains all further positions up to
    /// [`end`](Self::end).
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

    /// Adds the chunks that contain a range to `set`, and returns the first of these chunks.
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
