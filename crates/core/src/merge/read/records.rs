//! Which records the chunks are, as far as that is known.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use record_file::{Chunk, RecordPosition};

/// Where the record of a chunk is.
#[derive(Clone, Copy, Debug)]
pub(in crate::merge) struct Record {
    /// Which file it is in: 0 is the one with the trailer.
    pub(in crate::merge) file: usize,
    pub(in crate::merge) position: RecordPosition,
    /// Whether other records are in its record chunk.
    pub(in crate::merge) shared: bool,
    /// Bytes of its record chunk as stored.
    pub(in crate::merge) stored_size: u64,
    /// Its record chunk.
    pub(super) chunk: Chunk,
}

/// The records of all chunks, as far as they are known, and how far they reach.
#[derive(Debug)]
pub(in crate::merge) struct Records {
    pub(super) found: Vec<OnceLock<Record>>,
    /// Whether all were found, and are right.
    pub(super) are_checked: AtomicBool,
    pub(super) extents: OnceLock<Vec<Range<u64>>>,
}

impl Records {
    /// Of this many chunks, none of them looked for.
    pub(in crate::merge) fn unknown(chunks: usize) -> Self {
        Records {
            found: (0..chunks).map(|_| OnceLock::new()).collect(),
            are_checked: AtomicBool::new(false),
            extents: OnceLock::new(),
        }
    }

    pub(in crate::merge) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn known(&self, chunk: usize) -> Option<&Record> {
        self.found.get(chunk)?.get()
    }
}
