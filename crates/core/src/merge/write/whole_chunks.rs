//! Chunks that are read as a whole, directly into their places in memory, by several threads that
//! each read two chunks at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::Span;

use crate::Result;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::{ChunkStore, Places};
use crate::progress::Meter;

/// Minimum size of a large chunk: 1 MiB. A thread never reads two large chunks at the same time, so
/// that another thread can read the second.
const LARGE: usize = 1 << 20;

/// A chunk whose bytes are one contiguous part of the output.
pub(in crate::merge) struct WholeChunk<'b> {
    pub(in crate::merge) chunk: usize,
    /// Index of the chunk's segment in the plan.
    pub(in crate::merge) segment: usize,
    pub(in crate::merge) place: &'b mut [u8],
}

impl WholeChunk<'_> {
    /// Returns true if `range` is a whole chunk, the plan uses the chunk only once, and the chunk
    /// is neither in memory nor available for random access.
    pub(in crate::merge) fn is_one<S: ChunkStore + ?Sized>(
        plan: &MergePlan,
        store: &S,
        chunk: usize,
        range: &Range<u64>,
    ) -> bool {
        *range == (0..store.size(chunk))
            && plan.chunk_spans(chunk).nth(1).is_none()
            && store.as_slice(chunk).is_none()
            && store.at_random(chunk).is_none()
    }
}

/// A queue of the chunks that no thread has begun to read.
pub(in crate::merge) struct WholeChunks<'b> {
    /// Remaining chunks, the largest first, so that threads finish at about the same time.
    left: Mutex<VecDeque<WholeChunk<'b>>>,
    count: usize,
}

impl<'b> WholeChunks<'b> {
    pub(in crate::merge) fn new(mut chunks: Vec<WholeChunk<'b>>) -> Self {
        chunks.sort_by_key(|one| (std::cmp::Reverse(one.place.len()), one.chunk));
        WholeChunks {
            count: chunks.len(),
            left: Mutex::new(chunks.into()),
        }
    }

    pub(in crate::merge) fn len(&self) -> usize {
        self.count
    }

    /// Returns the remaining chunks in the order in which they are read.
    pub(in crate::merge) fn order(&self) -> Vec<usize> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.iter().map(|one| one.chunk).collect()
    }

    /// Returns the chunks to read for one of `threads` threads, taken from the queue one by one.
    /// There are no more chunks once `failed` is true.
    pub(in crate::merge) fn share<'q>(
        &'q self,
        threads: usize,
        failed: &'q AtomicBool,
        meter: &'q Meter,
    ) -> ThreadChunks<'q, 'b> {
        ThreadChunks {
            chunks: self,
            // One chunk on each thread is faster than two chunks on some threads and none on
            // others.
            lanes: self.count / threads.max(1),
            failed,
            meter,
            begun: Vec::new(),
            found: Vec::new(),
        }
    }
}

/// The chunks that one thread takes from the queue and reads.
pub(in crate::merge) struct ThreadChunks<'q, 'b> {
    chunks: &'q WholeChunks<'b>,
    lanes: usize,
    failed: &'q AtomicBool,
    meter: &'q Meter,
    begun: Vec<StartedChunk>,
    /// The segments that this thread has filled: the index of each segment in the plan, and its
    /// crc32c.
    pub(in crate::merge) found: Vec<(usize, u32)>,
}

/// A chunk that is being read.
struct StartedChunk {
    chunk: usize,
    segment: usize,
    _span: Span,
}

impl<'b> Places<'b> for ThreadChunks<'_, 'b> {
    fn next(&mut self, lane: usize) -> Option<(usize, &'b mut [u8])> {
        if lane >= self.lanes.max(1) || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let left = self.chunks.left.lock();
        let mut left = left.unwrap_or_else(PoisonError::into_inner);
        let is_large = left.front()?.place.len() > LARGE;
        let WholeChunk {
            chunk,
            segment,
            place,
        } = if lane > 0 && is_large {
            left.pop_back()?
        } else {
            left.pop_front()?
        };
        self.begun.push(StartedChunk {
            chunk,
            segment,
            _span: tracing::trace_span!("read", chunk, bytes = place.len()),
        });
        Some((chunk, place))
    }

    fn advance(&mut self, bytes: u64) -> Result<()> {
        self.meter.advance(bytes)
    }

    fn filled(&mut self, chunk: usize, crc32c: u32) {
        if let Some(at) = self.begun.iter().position(|begun| begun.chunk == chunk) {
            let begun = self.begun.swap_remove(at);
            self.found.push((begun.segment, crc32c));
        }
    }
}
