//! Threads that encode chunks.
use std::collections::VecDeque;
use std::io::Write;

use super::RecordWriter;
use super::encode::{Encoder, Format, Gathered};
use super::later::{Begin, LaterPosition};
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

impl<W: Write> RecordWriter<W> {
    /// Has a chunk of one record made by another thread.
    pub(super) fn submit_alone(&mut self, len: u64, parts: &[&[u8]]) -> Result<()> {
        let begin = self.next_begin();
        self.last = Some(LaterPosition {
            begin: begin.clone(),
            index: 0,
        });
        self.submit(begin, |gathered| gathered.add_alone(len, parts))
    }

    /// Has a chunk made by another thread, of what `fill` puts in it, and writes the chunk that made room for it.
    pub(super) fn submit(&mut self, begin: Begin, fill: impl FnOnce(&mut Gathered)) -> Result<()> {
        let usual = self.usual_size();
        let Some(pool) = &mut self.pool else {
            return Ok(());
        };
        let mut first = None;
        let (mut gathered, mut out) = pool.spare();
        if pool.is_full()
            && let Some((begin, done)) = pool.next()
        {
            let mut done = done?;
            // Its memory serves for the new one; only its data has to be kept.
            std::mem::swap(&mut gathered, &mut done.gathered);
            first = Some((begin, done));
        }
        gathered.clear(usual);
        out.clear();
        fill(&mut gathered);
        pool.submit(gathered, out, begin)?;
        match first {
            Some((begin, done)) => self.write_done(&begin, done),
            None => Ok(()),
        }
    }

    /// Writes the chunk that was given to another thread first; false if there is none.
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
        let mut data = done.data;
        self.write_chunk(&done.header, &data, &[])?;
        if let Some(pool) = &mut self.pool {
            data.clear();
            pool.recycle(done.gathered, data);
        }
        Ok(())
    }

    /// Writes all chunks that other threads have.
    pub(super) fn settle(&mut self) -> Result<()> {
        while self.write_next()? {}
        Ok(())
    }
}
