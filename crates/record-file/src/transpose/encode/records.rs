//! Records on their way in: gathered one after the other, given up one by one.
use std::collections::VecDeque;

use crate::block_pool::{Blocks, LARGEST, Pieces};

/// Records that wait to be taken apart.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Those that are no longer than a block, without regard to where blocks end.
    small: Pieces,
    /// The others, each in memory of its own.
    large: VecDeque<Vec<u8>>,
    /// The record that was taken last, if it wasn't in one piece.
    taken: Vec<u8>,
    /// Bytes of all of them.
    size: usize,
}

impl Records {
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Adds a record that is the concatenation of `parts`, `len` bytes together.
    pub(crate) fn add(&mut self, len: u64, parts: &[&[u8]], blocks: &mut Blocks) {
        // What is in memory has a length that fits.
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

    /// Takes the next record, which was added with this length.
    #[inline]
    pub(super) fn take(&mut self, len: usize, blocks: &mut Blocks) -> &[u8] {
        if len > LARGEST {
            self.taken = self.large.pop_front().unwrap_or_default();
            return &self.taken;
        }
        if self.taken.capacity() > LARGEST {
            self.taken = Vec::new();
        }
        self.small.take(len, &mut self.taken, blocks)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self, blocks: &mut Blocks) {
        self.small.clear(blocks);
        self.large.clear();
        self.taken.clear();
        self.size = 0;
    }
}
