//! Threads that encode chunks.
use std::collections::VecDeque;
use std::io::Write;

use super::RecordWriter;
use super::encode::{Encoder, Format, Gathered, encode_alone};
use super::later::{Begin, LaterPosition};
use crate::chunk::ChunkHeader;
use crate::error::Result;
use crate::threads::{SHARED, Threads};

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
    most: u32,
    threads: Threads<Encoder, Job, Result<Done>>,
    /// Where those chunks begin.
    begins: VecDeque<Begin>,
    /// Memory for encoded data, and for records.
    spare: Vec<Vec<u8>>,
    spare_gathered: Vec<Gathered>,
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
            most,
            threads: Threads::new(most, encode),
            begins: VecDeque::new(),
            spare: Vec::new(),
            spare_gathered: Vec::new(),
        }
    }

    /// Whether a chunk has to be written before there may be another one, or can be without waiting for it.
    ///
    /// Where the caller's thread encodes records too, there is one more, which is held in one form only.
    fn has_next(&mut self, alone: bool) -> bool {
        let spare = usize::from(alone && self.most == SHARED);
        self.threads.is_over(spare) || self.threads.is_ready()
    }

    /// Memory for the data of a record that has a chunk for itself, if the caller's thread had better encode it: from where it is,
    /// instead of copying it.
    ///
    /// Of two threads it is one: the other has a job to go on with. More would be done with theirs too early.
    pub(super) fn spare_to_share(&mut self) -> Option<Vec<u8>> {
        (self.most == SHARED && self.threads.unfinished() >= 2).then(|| self.spare())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Hands a chunk over, to be encoded to memory that was used before; `alone` says that it is of one large record.
    pub(super) fn submit(&mut self, gathered: Gathered, begin: Begin, alone: bool) -> Result<()> {
        let data = self.spare();
        let threads = match self.most {
            SHARED if alone => 1,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        self.threads.submit((gathered, data), threads)?;
        self.begins.push_back(begin);
        Ok(())
    }

    /// Adds a chunk that was encoded elsewhere.
    pub(super) fn push(&mut self, done: Done, begin: Begin) {
        self.threads.push(Ok(done));
        self.begins.push_back(begin);
    }

    /// Memory for encoded data.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
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
        let pool = self.pool.as_mut();
        let Some(mut data) = pool.and_then(Pool::spare_to_share) else {
            self.gathered.add_alone(len, parts);
            return self.submit(begin, true);
        };
        let header = encode_alone(
            &mut self.encoder,
            &self.options.compression,
            parts,
            &mut data,
        )?;
        let done = Done {
            header,
            data,
            gathered: Gathered::default(),
        };
        if let Some(pool) = &mut self.pool {
            pool.push(done, begin);
        }
        self.write_some(true)
    }

    /// Has a chunk made by another thread, of what is gathered.
    pub(super) fn submit(&mut self, begin: Begin, alone: bool) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let mut first = None;
        if let Some(pool) = &mut self.pool {
            if !alone && pool.threads.is_full() {
                // Before the new one, so that no more chunks are held; it is written when the thread has work again.
                first = pool.next();
            }
            pool.submit(gathered, begin, alone)?;
            self.gathered = pool.spare_gathered.pop().unwrap_or_default();
        }
        if let Some((begin, done)) = first {
            self.write_done(&begin, done?)?;
        }
        self.write_some(alone)
    }

    /// Writes chunks that are done, and as many more as have to be.
    fn write_some(&mut self, alone: bool) -> Result<()> {
        while self.pool.as_mut().is_some_and(|pool| pool.has_next(alone)) {
            self.write_next()?;
        }
        Ok(())
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
        let Done {
            header,
            mut data,
            mut gathered,
        } = done;
        self.write_chunk(&header, &data, &[])?;
        let usual = self.usual_size();
        gathered.clear(usual);
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

    /// Writes all chunks that other threads have. Where the caller's is one of them, it takes one that they haven't begun.
    pub(super) fn settle(&mut self) -> Result<()> {
        let shares = self.options.parallelism == SHARED && self.format.transposed.is_none();
        loop {
            if let Some(pool) = self.pool.as_mut().filter(|_| shares) {
                while !pool.threads.is_ready() && pool.threads.help(&mut self.encoder) {}
            }
            if !self.write_next()? {
                return Ok(());
            }
        }
    }
}
