//! A file of received chunks that can be read while it grows.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use record_file::ReadAt;

/// The progress of a growing file, shared by its writer and its readers.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Offset of the end of the last complete record.
    end: u64,
    /// True if the transfer broke off. Waiting for more bytes fails then.
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

    /// Waits until the byte at `offset` is available, and returns the end of the available bytes.
    /// Fails if the transfer breaks off first.
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

/// A growing file, for random access. A read waits until its bytes have arrived.
#[derive(Debug)]
pub(crate) struct Arriving {
    file: Arc<File>,
    size: u64,
    shared: Arc<Shared>,
    waits: AtomicBool,
}

impl Arriving {
    /// Creates a view of a file that will have `size` bytes. Until [`opened`](Self::opened) is
    /// called, reads of missing bytes fail instead of waiting. If these reads waited, opening the
    /// view as a chunked file would wait for missing bytes, since opening reads ahead at the file's
    /// beginning and end.
    pub(crate) fn new(file: Arc<File>, size: u64, shared: Arc<Shared>) -> Arriving {
        Arriving {
            file,
            size,
            shared,
            waits: AtomicBool::new(false),
        }
    }

    /// Makes reads of missing bytes wait from now on, instead of failing.
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
