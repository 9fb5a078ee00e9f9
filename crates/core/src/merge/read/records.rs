//! The records found so far, by chunk.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use record_file::{Chunk, RecordPosition};

/// The location of a chunk's record.
#[derive(Clone, Copy, Debug)]
pub(in crate::merge) struct Record {
    /// Number of the file: 0 is the file with the trailer.
    pub(in crate::merge) file: usize,
    pub(in crate::merge) position: RecordPosition,
    /// True if the record chunk contains other records, too.
    pub(in crate::merge) shared: bool,
    /// Stored size of the record chunk, in bytes.
    pub(in crate::merge) stored_size: u64,
    /// The record chunk that contains the record.
    pub(super) chunk: Chunk,
}

/// The records found so far, by chunk, and the byte range to read from a file for each chunk.
#[derive(Debug)]
pub(in crate::merge) struct Records {
    pub(super) found: Vec<OnceLock<Record>>,
    /// True if all records were found and match the trailer.
    pub(super) are_checked: AtomicBool,
    pub(super) extents: OnceLock<Vec<Range<u64>>>,
}

impl Records {
    /// Creates `Records` for this number of chunks, with no record found yet.
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
