//! Threads that work on one job after the other, whose results come back in the order of the jobs.
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Of so many threads the caller's is one. Of more, the others would be done too early while it has a job of its own to do, instead of
/// handing them theirs.
pub(crate) const SHARED: u32 = 2;

type Work<S, J, T> = dyn Fn(&mut S, J) -> T + Send + Sync;
type Jobs<J, T> = (J, SyncSender<T>);

/// What all threads share.
struct Shared<S, J, T> {
    work: Box<Work<S, J, T>>,
    jobs: Mutex<Receiver<Jobs<J, T>>>,
}

impl<S, J, T> Shared<S, J, T> {
    fn run(&self, state: &mut S, job: J, result: &SyncSender<T>) {
        // Nobody listens any more if the results were given up.
        let _ = result.send((self.work)(state, job));
    }
}

enum Outcome<T> {
    Later(Receiver<T>),
    Known(Result<T>),
}

/// Up to a number of threads, each with a state `S` of its own that is kept from job to job.
///
/// They are started when there is work for them, and end when this is dropped.
pub(crate) struct Threads<S, J, T> {
    most: usize,
    jobs: Option<Sender<Jobs<J, T>>>,
    shared: Arc<Shared<S, J, T>>,
    running: Vec<JoinHandle<()>>,
    results: VecDeque<Outcome<T>>,
}

impl<S, J, T> Threads<S, J, T>
where
    S: Default + 'static,
    J: Send + 'static,
    T: Send + 'static,
{
    pub(crate) fn new(most: u32, work: impl Fn(&mut S, J) -> T + Send + Sync + 'static) -> Self {
        let (jobs, received) = channel();
        Threads {
            most: usize::try_from(most).unwrap_or(usize::MAX),
            jobs: Some(jobs),
            shared: Arc::new(Shared {
                work: Box::new(work),
                jobs: Mutex::new(received),
            }),
            running: Vec::new(),
            results: VecDeque::new(),
        }
    }

    /// Whether there are as many jobs as threads, done ones included whose results nobody took.
    pub(crate) fn is_full(&self) -> bool {
        self.results.len() >= self.most
    }

    /// Whether there are more, by more than `spare`.
    pub(crate) fn is_over(&self, spare: usize) -> bool {
        self.results.len() > self.most.saturating_add(spare)
    }

    /// Jobs that are not done.
    pub(crate) fn unfinished(&mut self) -> usize {
        self.results.iter_mut().for_each(Outcome::look);
        let unfinished = self.results.iter().filter(|result| !result.is_known());
        unfinished.count()
    }

    /// Whether there are no jobs, nor results.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Whether the result of the first job is there.
    pub(crate) fn is_ready(&mut self) -> bool {
        let first = self.results.front_mut();
        first.is_some_and(|first| {
            first.look();
            first.is_known()
        })
    }

    /// Adds a job, behind all others, for at most `threads` threads if there are no more yet.
    pub(crate) fn submit(&mut self, job: J, threads: usize) -> Result<()> {
        // One thread more, as long as all may be busy.
        if self.running.len() < self.most.min(threads).min(self.results.len() + 1) {
            let shared = Arc::clone(&self.shared);
            let thread = Builder::new()
                .name("record-file".to_owned())
                .spawn(move || run(&shared))
                .map_err(|error| Error::io(None, error))?;
            self.running.push(thread);
        }
        let (sender, result) = sync_channel(1);
        self.jobs
            .as_ref()
            .and_then(|jobs| jobs.send((job, sender)).ok())
            .ok_or_else(stopped)?;
        self.results.push_back(Outcome::Later(result));
        Ok(())
    }

    /// Adds the result of what was done elsewhere, behind all others.
    pub(crate) fn push(&mut self, result: T) {
        self.results.push_back(Outcome::Known(Ok(result)));
    }

    /// Waits for the result of the first job whose result wasn't taken; `None` if there is none.
    pub(crate) fn next(&mut self) -> Option<Result<T>> {
        Some(match self.results.pop_front()? {
            Outcome::Known(result) => result,
            Outcome::Later(result) => result.recv().map_err(|_| stopped()),
        })
    }

    /// Does a job that no thread has begun, if there is one, on this one.
    pub(crate) fn help(&mut self, state: &mut S) -> bool {
        // Locked by a thread that waits for a job: then there is none.
        let job = self.shared.jobs.try_lock();
        let Some((job, result)) = job.ok().and_then(|jobs| jobs.try_recv().ok()) else {
            return false;
        };
        self.shared.run(state, job, &result);
        true
    }

    /// Gives up all results.
    pub(crate) fn clear(&mut self) {
        self.results.clear();
    }
}

impl<T> Outcome<T> {
    fn is_known(&self) -> bool {
        matches!(self, Outcome::Known(_))
    }

    fn look(&mut self) {
        if let Outcome::Later(result) = self {
            *self = match result.try_recv() {
                Ok(result) => Outcome::Known(Ok(result)),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => Outcome::Known(Err(stopped())),
            };
        }
    }
}

impl<S, J, T> Drop for Threads<S, J, T> {
    fn drop(&mut self) {
        self.jobs = None;
        self.results.clear();
        for thread in self.running.drain(..) {
            // What it panicked with has been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

impl<S, J, T> std::fmt::Debug for Threads<S, J, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads")
            .field("running", &self.running.len())
            .field("results", &self.results.len())
            .finish_non_exhaustive()
    }
}

/// What a thread does until there are no more jobs.
fn run<S: Default, J, T>(shared: &Shared<S, J, T>) {
    let mut state = S::default();
    loop {
        let jobs = shared.jobs.lock();
        let job = jobs.unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, result)) = job else {
            return;
        };
        shared.run(&mut state, job, &result);
    }
}

#[cold]
fn stopped() -> Error {
    Error::closed("a thread has stopped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let mut threads: Threads<(), u64, u64> = Threads::new(3, |(), job| {
            std::thread::sleep(std::time::Duration::from_millis(job % 3));
            job
        });
        let mut results = Vec::new();
        for job in 0..30 {
            if job % 5 == 4 {
                threads.push(job);
            } else {
                threads.submit(job, 3).unwrap();
            }
            while threads.is_over(0) || threads.is_ready() {
                results.push(threads.next().unwrap().unwrap());
            }
        }
        while let Some(result) = threads.next() {
            results.push(result.unwrap());
        }
        assert!(threads.is_empty());
        assert_eq!(results, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        let mut threads: Threads<(), (), ()> =
            Threads::new(1, |(), ()| panic!("as the test wants"));
        threads.submit((), 1).unwrap();
        let error = threads.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Closed);
    }
}
