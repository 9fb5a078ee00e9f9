//! Threads that encode chunks.
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::encode::{Encoder, Format, Gathered};
use super::later::Begin;
use crate::chunk::ChunkHeader;
use crate::error::{Error, Result};

/// A chunk as it comes back from a thread, with the memory of its records.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) header: ChunkHeader,
    pub(super) data: Vec<u8>,
    pub(super) gathered: Gathered,
}

struct Job {
    gathered: Gathered,
    out: Vec<u8>,
    done: SyncSender<Result<Done>>,
}

struct Ticket {
    done: Receiver<Result<Done>>,
    begin: Begin,
}

/// Up to a number of threads, and as many chunks that are with them or wait to be written.
///
/// Chunks come back in the order in which they were handed over.
pub(super) struct Pool {
    format: Format,
    most: usize,
    jobs: Option<Sender<Job>>,
    shared: Arc<Mutex<Receiver<Job>>>,
    threads: Vec<JoinHandle<()>>,
    waiting: VecDeque<Ticket>,
    /// Memory to be used again.
    spare: Vec<(Gathered, Vec<u8>)>,
}

impl Pool {
    pub(super) fn new(format: Format, most: usize) -> Self {
        let (jobs, shared) = channel();
        Pool {
            format,
            most,
            jobs: Some(jobs),
            shared: Arc::new(Mutex::new(shared)),
            threads: Vec::new(),
            waiting: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.most
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Memory for the next chunk's records.
    pub(super) fn spare(&mut self) -> (Gathered, Vec<u8>) {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps memory for a later chunk, which is cleared.
    pub(super) fn recycle(&mut self, gathered: Gathered, out: Vec<u8>) {
        if self.spare.len() <= self.most {
            self.spare.push((gathered, out));
        }
    }

    /// Hands a chunk over; there must be room.
    pub(super) fn submit(&mut self, gathered: Gathered, out: Vec<u8>, begin: Begin) -> Result<()> {
        // One thread more, as long as all may be busy.
        if self.threads.len() < self.most.min(self.waiting.len() + 1) {
            let shared = Arc::clone(&self.shared);
            let format = self.format;
            let thread = Builder::new()
                .name("record-file encoder".to_owned())
                .spawn(move || work(&shared, &format))
                .map_err(|error| Error::io(None, error))?;
            self.threads.push(thread);
        }
        let (sender, done) = sync_channel(1);
        let job = Job {
            gathered,
            out,
            done: sender,
        };
        self.jobs
            .as_ref()
            .and_then(|jobs| jobs.send(job).ok())
            .ok_or_else(stopped)?;
        self.waiting.push_back(Ticket { done, begin });
        Ok(())
    }

    /// Waits for the chunk that was handed over first.
    pub(super) fn next(&mut self) -> Option<(Begin, Result<Done>)> {
        let Ticket { done, begin } = self.waiting.pop_front()?;
        Some((begin, done.recv().unwrap_or_else(|_| Err(stopped()))))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // What it panicked with has been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// What a thread does until there are no more jobs.
fn work(jobs: &Mutex<Receiver<Job>>, format: &Format) {
    let mut encoder = Encoder::default();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        let Job {
            gathered,
            mut out,
            done,
        } = job;
        let header = encoder.encode(format, &gathered, &mut out);
        // Nobody listens any more if the writer was dropped.
        let _ = done.send(header.map(|header| Done {
            header,
            data: out,
            gathered,
        }));
    }
}

#[cold]
fn stopped() -> Error {
    Error::closed("a thread that encodes chunks has stopped")
}
