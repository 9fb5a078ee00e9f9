//! Decoding the parts on several threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use prost::encoding::DecodeContext;

use super::InParts;
use super::scan::Scan;

/// Decodes a part, and says whether that went well.
pub(super) type Task = Box<dyn FnOnce() -> bool + Send>;

/// Decodes a message in its parts; `None` if that isn't possible.
pub(super) fn decode<M: InParts>(bytes: &Bytes, threads: usize, block_size: usize) -> Option<M> {
    let mut scan = Scan::new(bytes.clone(), block_size);
    let whole = 0..bytes.len() as u64;
    let assembly = scan.message(whole, DecodeContext::default()).ok()?;
    let helpers = (threads - 1).min(scan.tasks.len().saturating_sub(1));
    let run = Run {
        tasks: Mutex::new(scan.tasks.into()),
        failed: AtomicBool::new(false),
    };
    let mut message = M::default();
    let assembled = thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| while run.step() {});
        }
        let assembled = assembly.merge_into(&mut message, &run);
        run.failed.fetch_or(assembled.is_err(), Ordering::Relaxed);
        assembled
    });
    assembled.ok().map(|()| message)
}

/// What is left to do.
pub(super) struct Run {
    tasks: Mutex<VecDeque<Task>>,
    failed: AtomicBool,
}

impl Run {
    /// Does the next task, unless none is left or one has failed.
    fn step(&self) -> bool {
        if self.failed.load(Ordering::Relaxed) {
            return false;
        }
        let tasks = || self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tasks().pop_front();
        let Some(task) = task else {
            return false;
        };
        if !task() {
            self.failed.store(true, Ordering::Relaxed);
        }
        true
    }

    /// What a task came to, tasks being done until then; `None` if it failed.
    pub(super) fn wait<T>(&self, result: &Receiver<T>) -> Option<T> {
        loop {
            match result.try_recv() {
                Ok(result) => return Some(result),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if self.step() => {}
                Err(TryRecvError::Empty) if self.failed.load(Ordering::Relaxed) => return None,
                // Another thread is at it.
                Err(TryRecvError::Empty) => return result.recv().ok(),
            }
        }
    }
}
