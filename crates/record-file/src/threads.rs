//! Threads that work on a queue of jobs and return the results in the order of the jobs.
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

type Work<S, J, T> = dyn Fn(&mut S, J) -> T + Send + Sync;
/// A job, and the channel for its result.
type Submitted<J, T> = (J, SyncSender<T>);

/// A limited number of threads, each with its own state `S`, which is kept from job to job.
///
/// The threads are started when there is work for them, and end when this value is dropped.
pub(crate) struct Threads<S, J, T> {
    work: Arc<Work<S, J, T>>,
    most: usize,
    /// The sending end of the channel for jobs; `None` once the threads should end.
    jobs: Option<Sender<Submitted<J, T>>>,
    /// The receiving end of the channel for jobs, from which each thread receives its next job.
    shared: Arc<Mutex<Receiver<Submitted<J, T>>>>,
    running: Vec<JoinHandle<()>>,
    results: VecDeque<Receiver<T>>,
}

impl<S, J, T> Threads<S, J, T>
where
    S: Default + 'static,
    J: Send + 'static,
    T: Send + 'static,
{
    pub(crate) fn new(most: u32, work: impl Fn(&mut S, J) -> T + Send + Sync + 'static) -> Self {
        let (jobs, shared) = channel();
        Threads {
            work: Arc::new(work),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            jobs: Some(jobs),
            shared: Arc::new(Mutex::new(shared)),
            running: Vec::new(),
            results: VecDeque::new(),
        }
    }

    /// Returns true if the number of jobs has reached the number of threads. Finished jobs count
    /// until their results are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.results.len() >= self.most
    }

    /// Returns true if there are no jobs and no results.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Adds a job after all other jobs. If the system refuses to start a thread, an existing thread
    /// or the caller's thread does the job.
    pub(crate) fn submit(&mut self, job: J) -> Result<()> {
        // Starts one more thread if all threads may be busy.
        if self.running.len() < self.most.min(self.results.len() + 1) {
            let shared = Arc::clone(&self.shared);
            let work = Arc::clone(&self.work);
            let thread = Builder::new().name("record-file".to_owned());
            match thread.spawn(move || run(&shared, &*work)) {
                Ok(thread) => self.running.push(thread),
                Err(_) if self.running.is_empty() => {
                    self.add_done((self.work)(&mut S::default(), job));
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        let (sender, result) = sync_channel(1);
        self.jobs
            .as_ref()
            .and_then(|jobs| jobs.send((job, sender)).ok())
            .ok_or_else(stopped)?;
        self.results.push_back(result);
        Ok(())
    }

    /// Adds a result without a job. The result is returned after the results of all earlier jobs.
    pub(crate) fn add_done(&mut self, result: T) {
        let (sender, receiver) = sync_channel(1);
        // The channel has room, and its receiver exists.
        let _ = sender.send(result);
        self.results.push_back(receiver);
    }

    /// Removes and returns the oldest result, waiting for it if its job isn't finished; `None` if
    /// there are no jobs.
    pub(crate) fn next(&mut self) -> Option<Result<T>> {
        let result = self.results.pop_front()?;
        Some(result.recv().map_err(|_| stopped()))
    }

    /// Discards the results of all jobs.
    pub(crate) fn clear(&mut self) {
        self.results.clear();
    }
}

impl<S, J, T> Drop for Threads<S, J, T> {
    fn drop(&mut self) {
        self.jobs = None;
        self.results.clear();
        for thread in self.running.drain(..) {
            // The panic itself has already been reported.
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

/// Runs jobs until the channel of jobs is closed.
fn run<S: Default, J, T>(jobs: &Mutex<Receiver<Submitted<J, T>>>, work: &Work<S, J, T>) {
    let mut state = S::default();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, result)) = job else {
            return;
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut state, job))) {
            // Sending fails only if the results, and with them the receiver, were dropped.
            Ok(done) => drop(result.send(done)),
            // The thread goes on, since later jobs may wait for it. Without a result, the channel
            // of this job closes.
            Err(_) => state = S::default(),
        }
    }
}

#[cold]
pub(crate) fn stopped() -> Error {
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
            if threads.is_full() {
                results.push(threads.next().unwrap().unwrap());
            }
            threads.submit(job).unwrap();
        }
        while let Some(result) = threads.next() {
            results.push(result.unwrap());
        }
        assert!(threads.is_empty());
        assert_eq!(results, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_panics_is_an_error_and_later_jobs_are_done() {
        let mut threads: Threads<(), u64, u64> = Threads::new(1, |(), job| {
            assert!(job > 0, "as the test wants");
            job
        });
        for _ in 0..2 {
            threads.submit(0).unwrap();
            let error = threads.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Closed);
            threads.submit(1).unwrap();
            assert_eq!(threads.next().unwrap().unwrap(), 1);
        }
    }
}
