//! Threads that encode chunks.
use std::collections::VecDeque;

use super::encode::{Encoder, Format, Gathered};
use super::later::Begin;
use crate::chunk::ChunkHeader;
use crate::error::Result;
use crate::threads::Threads;

/// A chunk as it comes back from a thread, with the memory of its records.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) header: ChunkHeader,
    pub(super) data: Vec<u8>,
    pub(super) gathered: Gathered,
}

/// A chunk's records, and memory for its data.
type Job = (Gathered, Vec<u8>);

/// Up to a number of chunks that are being encoded, or wait to be written.
///
/// They come back in the order in which they were handed over.
#[derive(Debug)]
pub(super) struct Pool {
    threads: Threads<Encoder, Job, Result<Done>>,
    /// Where those chunks begin.
    begins: VecDeque<Begin>,
    /// Memory to be used again.
    spare: Option<Job>,
}

impl Pool {
    pub(super) fn new(format: Format, most: u32) -> Self {
        let encode = move |encoder: &mut Encoder, (gathered, mut data): Job| {
            let header = encoder.encode(&format, &gathered, &mut data)?;
            Ok(Done {
                header,
                data,
                gathered,
            })
        };
        Pool {
            threads: Threads::new(most, encode),
            begins: VecDeque::new(),
            spare: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.threads.is_full()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Memory for the next chunk.
    pub(super) fn spare(&mut self) -> (Gathered, Vec<u8>) {
        self.spare.take().unwrap_or_default()
    }

    /// Keeps memory for the next chunk.
    pub(super) fn recycle(&mut self, gathered: Gathered, data: Vec<u8>) {
        self.spare = Some((gathered, data));
    }

    /// Hands a chunk over; there must be room.
    pub(super) fn submit(&mut self, gathered: Gathered, data: Vec<u8>, begin: Begin) -> Result<()> {
        self.threads.submit((gathered, data))?;
        self.begins.push_back(begin);
        Ok(())
    }

    /// Waits for the chunk that was handed over first.
    pub(super) fn next(&mut self) -> Option<(Begin, Result<Done>)> {
        let begin = self.begins.pop_front()?;
        let done = self.threads.next()?;
        Some((begin, done.and_then(|done| done)))
    }
}
