//! A queue of records, which are added and taken one at a time.
use std::collections::VecDeque;

use crate::block_pool::{BlockPool, LARGEST, PieceQueue};

/// The records waiting to be split into columns.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Records that are no longer than a block, stored one after another. A record may begin in one
    /// block and end in the next.
    small: PieceQueue,
    /// Larger records, each in its own memory.
    large: VecDeque<Vec<u8>>,
    /// The most recently taken record, if it was in several pieces.
    taken: Vec<u8>,
    /// Total size of the records, in bytes.
    size: usize,
}

impl Records {
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Adds a record that is the concatenation of `parts`, with `len` bytes in total.
    pub(crate) fn add(&mut self, len: u64, parts: &[&[u8]], blocks: &mut BlockPool) {
        // The parts are in memory, so their length fits in a `usize`.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.size += len;
        if len > LARGEST {
            self.large.push_back(parts.concat());
            return;
        }
        for part in parts {
            self.small.append(part, blocks);
        }
    }

    /// Removes and returns the next record, which has `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize, blocks: &mut BlockPool) -> &[u8] {
        if len > LARGEST {
            self.taken = self.large.pop_front().unwrap_or_default();
            return &self.taken;
        }
        if self.taken.capacity() > LARGEST {
            self.taken = Vec::new();
        }
        self.small.take(len, &mut self.taken, blocks)
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self, blocks: &mut BlockPool) {
        self.small.clear(blocks);
        self.large.clear();
        self.taken.clear();
        self.size = 0;
    }
}
