//! A slot for a receiver, which several calls use one after another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proto_splitter_transfer::Receiver;
use proto_splitter_transfer::proto::{Frame, ResumeToken};
use tonic::Status;

use crate::status::status;

/// A slot for a receiver that outlives the calls that push frames to it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    held: Arc<Mutex<Held>>,
    /// True if pushing a frame may block the thread, since the receiver writes to a file.
    pub(crate) blocks: bool,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) receiver: Receiver,
    /// Number of the latest transfer. Earlier transfers whose calls are still running can no longer
    /// push frames.
    turn: u64,
    touched: Instant,
}

impl Held {
    fn begin_turn(&mut self) -> u64 {
        self.receiver.break_off();
        self.touched = Instant::now();
        self.turn += 1;
        self.turn
    }
}

impl Slot {
    pub(crate) fn new(receiver: Receiver, blocks: bool) -> Slot {
        let held = Held {
            receiver,
            turn: 0,
            touched: Instant::now(),
        };
        Slot {
            held: Arc::new(Mutex::new(held)),
            blocks,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_turn(&self) -> u64 {
        self.lock().begin_turn()
    }

    /// Ends the current transfer, if any. Returns the token for resuming it, with the number of
    /// received chunks.
    pub(crate) fn give_up(&self) -> ResumeToken {
        let mut held = self.lock();
        held.begin_turn();
        held.receiver.token()
    }

    /// Returns the time since the last frame arrived or, if none has arrived, since the transfer
    /// began.
    pub(crate) fn untouched(&self) -> Duration {
        self.lock().touched.elapsed()
    }

    fn in_turn<T>(&self, turn: u64, step: impl FnOnce(&mut Receiver) -> T) -> Result<T, Status> {
        let mut held = self.lock();
        if held.turn != turn {
            let message = "another transfer of the same session has begun";
            return Err(Status::aborted(message));
        }
        held.touched = Instant::now();
        Ok(step(&mut held.receiver))
    }

    pub(crate) fn push(&self, turn: u64, frame: Frame) -> Result<(), Status> {
        let pushed = self.in_turn(turn, |receiver| receiver.push(frame))?;
        pushed.map_err(|error| status(&error))
    }

    pub(crate) fn end(&self, turn: u64) -> Result<(), Status> {
        let ended = self.in_turn(turn, Receiver::end)?;
        ended.map_err(|error| status(&error))
    }

    pub(crate) fn break_off(&self, turn: u64) {
        let _ = self.in_turn(turn, Receiver::break_off);
    }

    /// Removes the receiver from the slot at the end of the transfer with the number `turn`, and
    /// leaves the receiver `next`. The slot isn't consumed, since another call may hold a clone of
    /// it. For example, an earlier call may be waiting for its next frame, because it hasn't noticed
    /// that its connection broke. A later call may be about to begin a transfer, so `next` must have
    /// the same limits.
    pub(crate) fn take_receiver(&self, turn: u64, next: Receiver) -> Result<Receiver, Status> {
        self.in_turn(turn, |receiver| std::mem::replace(receiver, next))
    }
}

#[cold]
pub(crate) fn stopped(error: tokio::task::JoinError) -> Status {
    Status::cancelled(format!("the work was stopped: {error}"))
}
