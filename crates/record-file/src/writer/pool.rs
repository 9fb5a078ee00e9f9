//! Threads that encode chunks.
use std::collections::VecDeque;
use std::io::Write;

use super::RecordWriter;
use super::encode::{Encoder, Format, Gathered};
use super::later_position::{Begin, LaterPosition};
use crate::chunk::ChunkHeader;
use crate::error::Result;
use crate::threads::Threads;

/// A chunk that a thread has encoded, with the memory that held its records.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) header: ChunkHeader,
    pub(super) data: Vec<u8>,
    pub(super) gathered: Gathered,
}

/// A chunk's records, and memory for its data.
type Job = (Gathered, Vec<u8>);

/// A limited number of chunks that are being encoded or wait to be written.
///
/// The chunks are returned in the order in which they were submitted.
#[derive(Debug)]
pub(super) struct Pool {
    threads: Threads<Encoder, Job, Result<Done>>,
    /// The beginning of each submitted chunk, in the order of submission.
    begins: VecDeque<Begin>,
    /// Reusable memory for encoded data.
    spare: Vec<Vec<u8>>,
    spare_gathered: Vec<Gathered>,
}

impl Pool {
    pub(super) fn new(format: Format, most: u32) -> Self {
        let encode = move |encoder: &mut Encoder, (mut gathered, mut data): Job| {
            let header = encoder.encode(&format, &mut gathered, &mut data)?;
            Ok(Done {
                header,
                data,
                gathered,
            })
        };
        Pool {
            threads: Threads::new(most, encode),
            begins: VecDeque::new(),
            spare: Vec::new(),
            spare_gathered: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Submits a chunk to be encoded into reused memory. The pool must not be full.
    pub(super) fn submit(&mut self, gathered: Gathered, begin: Begin) -> Result<()> {
        let data = self.spare.pop().unwrap_or_default();
        self.threads.submit((gathered, data))?;
        self.begins.push_back(begin);
        Ok(())
    }

    /// Adds a chunk that is already encoded. It will be written after all submitted chunks.
    pub(super) fn add_done(&mut self, done: Done, begin: Begin) {
        self.threads.add_done(Ok(done));
        self.begins.push_back(begin);
    }

    /// Removes and returns the oldest submitted chunk, waiting until it is encoded. Returns `None`
    /// if there are no chunks.
    pub(super) fn next(&mut self) -> Option<(Begin, Result<Done>)> {
        let begin = self.begins.pop_front()?;
        let done = self.threads.next()?;
        Some((begin, done.and_then(|done| done)))
    }
}

impl<W: Write> RecordWriter<W> {
    /// Submits a chunk with one record to another thread.
    pub(super) fn submit_alone(&mut self, len: u64, parts: &[&[u8]]) -> Result<()> {
        let begin = self.next_begin();
        self.last = Some(LaterPosition {
            begin: begin.clone(),
            index: 0,
        });
        self.gathered.add(len, parts, 0);
        self.submit(begin)
    }

    /// Submits a chunk with the gathered records to another thread. If the pool is full, takes the
    /// oldest chunk out of the pool before the submission, and writes this chunk after the
    /// submission.
    pub(super) fn submit(&mut self, begin: Begin) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let mut first = None;
        if let Some(pool) = &mut self.pool {
            if pool.threads.is_full() {
                first = pool.next();
            }
            pool.submit(gathered, begin)?;
            self.gathered = pool.spare_gathered.pop().unwrap_or_default();
        }
        // The oldest chunk is written only after its thread has new work.
        match first {
            Some((begin, done)) => self.write_done(&begin, done?),
            None => Ok(()),
        }
    }

    /// Writes the oldest submitted chunk. Returns true if more submitted chunks remain.
    pub(super) fn write_next(&mut self) -> Result<bool> {
        let next = self.pool.as_mut().and_then(Pool::next);
        if let Some((begin, done)) = next {
            self.write_done(&begin, done?)?;
        }
        let more = self.pool.as_ref().is_some_and(|pool| !pool.is_empty());
        if !more {
            self.begin.set(self.sink.pos());
        }
        Ok(more)
    }

    fn write_done(&mut self, begin: &Begin, done: Done) -> Result<()> {
        begin.set(self.sink.pos());
        let Done {
            header,
            mut data,
            mut gathered,
        } = done;
        self.write_gathered(&header, &data, &gathered)?;
        let usual = self.usual_size();
        gathered.clear(usual, self.chunk_size);
        if let Some(pool) = &mut self.pool {
            if data.capacity() as u64 <= usual {
                data.clear();
                pool.spare.push(data);
            }
            if self.gathered.is_unused() {
                self.gathered = gathered;
            } else if !gathered.is_unused() {
                pool.spare_gathered.push(gathered);
            }
        }
        Ok(())
    }

    /// Writes all submitted chunks.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.write_next()? {}
        Ok(())
    }
}
