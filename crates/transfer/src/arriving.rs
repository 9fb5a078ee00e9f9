//! A file that can be read while it grows.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use record_file::ReadAt;

/// The progress of a growing file.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// End of the last whole record.
    end: u64,
    /// True if the transfer broke off, so that no more bytes arrive.
    broken: bool,
}

impl Shared {
    pub(crate) fn new(end: u64) -> Shared {
        let state = State { end, broken: false };
        Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn arrived(&self, end: u64) {
        self.lock().end = end;
        self.changed.notify_all();
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.lock().broken = broken;
        self.changed.notify_all();
    }

    /// Waits until there are bytes at `offset`, and returns the end of the available bytes.
    fn wait_for(&self, offset: u64) -> io::Result<u64> {
        let mut state = self.lock();
        while state.end <= offset {
            if state.broken {
                let message = "the transfer broke off before these bytes arrived";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, message));
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.end)
    }
}

/// The bytes of a growing file. Reads wait for missing bytes.
#[derive(Debug)]
pub(crate) struct Arriving {
    file: Arc<File>,
    size: u64,
    shared: Arc<Shared>,
    waits: AtomicBool,
}

impl Arriving {
    /// Creates a file that will have `size` bytes. Reads don't wait yet, since opening the file
    /// reads ahead at both of its ends.
    pub(crate) fn new(file: Arc<File>, size: u64, shared: Arc<Shared>) -> Arriving {
        Arriving {
            file,
            size,
            shared,
            waits: AtomicBool::new(false),
        }
    }

    /// Makes reads wait from now on.
    pub(crate) fn opened(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}

impl ReadAt for Arriving {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset >= self.size || buf.is_empty() {
            return Ok(0);
        }
        let end = if self.waits.load(Ordering::Relaxed) {
            self.shared.wait_for(offset)?.min(self.size)
        } else {
            self.shared.lock().end.min(self.size)
        };
        if offset >= end {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let there = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let len = buf.len().min(there);
        self.file.read_at(offset, &mut buf[..len])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
