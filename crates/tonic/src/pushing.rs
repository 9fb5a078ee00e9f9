//! Pushing frames to a receiver on other threads while the next frames arrive.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use proto_splitter_transfer::Receiver;
use proto_splitter_transfer::proto::Frame;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tonic::Status;

use crate::slot::{Slot, stopped};

/// Maximum number of frames to hold while earlier frames are pushed.
const FRAMES_AHEAD: usize = 8;

/// Runs `read`, which sends received frames to a channel. Meanwhile, pushes the frames to the
/// receiver in `slot`, on threads for blocking work. Returns once all frames are pushed, or
/// immediately if a frame causes an error.
pub(crate) async fn pushing<F>(
    slot: &Slot,
    turn: u64,
    look: impl FnMut(&Receiver),
    read: impl FnOnce(mpsc::Sender<Frame>) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), Status>>,
{
    let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
    let mut reading = pin!(read(sender));
    let mut writing = pin!(push_all(slot, turn, look, frames));
    let mut was_read = None;
    let written = poll_fn(|cx| {
        if was_read.is_none()
            && let Poll::Ready(read) = reading.as_mut().poll(cx)
        {
            was_read = Some(read);
        }
        writing.as_mut().poll(cx)
    });
    written.await?;
    was_read.unwrap_or(Ok(()))
}

/// Pushes batches of all available frames, until the channel is closed. While no frames are
/// available, no thread is occupied.
async fn push_all(
    slot: &Slot,
    turn: u64,
    mut look: impl FnMut(&Receiver),
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), Status> {
    let mut batch = Vec::new();
    while frames.recv_many(&mut batch, FRAMES_AHEAD).await > 0 {
        let (target, frames) = (slot.clone(), std::mem::take(&mut batch));
        let push = move || {
            let mut frames = frames.into_iter();
            frames.try_for_each(|frame| target.push(turn, frame))
        };
        spawn_blocking(push).await.map_err(stopped)??;
        look(&slot.lock().receiver);
    }
    Ok(())
}
