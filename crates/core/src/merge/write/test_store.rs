//! Chunks in memory for tests that count how often a chunk is read.

use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;
use crate::merge::plan::merge_plan::MergePlan;
use crate::merge::read::chunk_store::ChunkStore;
use crate::spans::{SourceId, SpanList};

/// A store of equal chunks that can only be read sequentially.
pub(super) struct Store {
    pub(super) chunk: Vec<u8>,
    pub(super) count: usize,
    pub(super) opened: AtomicUsize,
    /// Index of the chunk whose stream ends with an error, as after a failed checksum.
    pub(super) damaged: Option<usize>,
}

impl Store {
    pub(super) fn new(size: usize) -> Self {
        Store {
            chunk: (0..size).map(|at| at.to_le_bytes()[at % 3]).collect(),
            count: 1,
            opened: AtomicUsize::new(0),
            damaged: None,
        }
    }

    /// Returns the plan for the concatenation of these ranges of chunks.
    pub(super) fn plan(
        &self,
        ranges: impl IntoIterator<Item = (usize, Range<usize>)>,
    ) -> MergePlan {
        let mut spans = SpanList::new();
        for (chunk, range) in ranges {
            let range = range.start as u64..range.end as u64;
            spans.push_span(SourceId::new(chunk).unwrap(), range);
        }
        MergePlan::new(spans, self.count)
    }

    /// Returns the number of streams that were opened.
    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

/// A reader that always fails, for the end of a stream with damaged bytes.
struct Damage;

impl Read for Damage {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("damaged"))
    }
}

impl ChunkStore for Store {
    fn len(&self) -> usize {
        self.count
    }

    fn size(&self, _: usize) -> u64 {
        self.chunk.len() as u64
    }

    fn stored_len(&self) -> u64 {
        (self.chunk.len() * self.count) as u64
    }

    fn stream(&self, chunk: usize) -> Result<Box<dyn Read + '_>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let bytes = Cursor::new(&self.chunk);
        Ok(if self.damaged == Some(chunk) {
            Box::new(bytes.chain(Damage))
        } else {
            Box::new(bytes)
        })
    }
}
