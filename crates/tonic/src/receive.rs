//! Receiving messages from a stream of frames.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use proto_splitter_core::atomic::{check_absent, check_replaceable};
use proto_splitter_core::part_work::written_through;
use proto_splitter_core::{Error, Result};
use proto_splitter_transfer::proto::Frame;
use proto_splitter_transfer::{ReceiveOptions, Receiver};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::pushing::pushing;
use crate::slot::{Slot, stopped};
use crate::status::status;

/// Default maximum time to wait for the next frame: 60 s. See [`Receive::idle_timeout`].
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A receiver of messages, with limits on the size of a message and on the duration of its
/// transfer.
///
/// ```no_run
/// # use proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto;
/// # use proto_splitter_tonic::{Receive, ReceiveOptions, proto::Frame};
/// # use tonic::{Request, Status, Streaming};
/// # async fn put(request: Request<Streaming<Frame>>) -> Result<(), Status> {
/// let receive = Receive::new().options(ReceiveOptions::new().max_message_size(8 << 30));
/// let message: FileDescriptorProto = receive.message(request.into_inner()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Receive {
    options: ReceiveOptions,
    idle_timeout: Option<Duration>,
    timeout: Option<Duration>,
    folder: Option<PathBuf>,
    force: bool,
}

impl Default for Receive {
    fn default() -> Self {
        Receive::new()
    }
}

impl Receive {
    /// Creates a receiver with the default options; each setter documents its default.
    #[must_use]
    pub fn new() -> Self {
        Receive {
            options: ReceiveOptions::new(),
            idle_timeout: Some(DEFAULT_IDLE_TIMEOUT),
            timeout: None,
            folder: None,
            force: false,
        }
    }

    proto_splitter_core::options! {
        /// Sets the limits on a message, the message type that is accepted, and the listener for
        /// progress. Default: [`ReceiveOptions::new`].
        ref options, get_options: ReceiveOptions;

        /// Sets whether [`file`](Self::file) may replace an existing file. Default: false.
        const force, get_force: bool;

        /// Sets the maximum time to wait for the next frame; `None` disables the limit. Default:
        /// [`DEFAULT_IDLE_TIMEOUT`].
        into idle_timeout, get_idle_timeout: Option<Duration>;

        /// Sets the maximum duration of a whole transfer; `None` disables the limit. The deadline
        /// of the call also applies. Default: `None`.
        into timeout, get_timeout: Option<Duration>;
    }

    /// Sets the folder for the temporary file that holds the chunks if they aren't kept in memory.
    /// Default: `None`, which means the system's folder for temporary files.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<Option<PathBuf>>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Receives a message, and decodes it as a generated type. The message's chunks are kept in
    /// memory, and fields of type [`Bytes`] share this memory.
    ///
    /// # Errors
    ///
    /// The error status with which the stream of frames ends; `DEADLINE_EXCEEDED` if frames don't
    /// arrive in time; the [`status`] for an error from [`Receiver::push`] or
    /// [`Receiver::into_message`].
    pub async fn message<M: prost::Message + Default + 'static>(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<M, Status> {
        let receiver = self.in_memory(frames).await?;
        blocking_if(is_large(&receiver), move || receiver.into_message()).await
    }

    /// Receives a message, and returns its bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`message`](Self::message).
    pub async fn bytes(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<Bytes, Status> {
        let receiver = self.in_memory(frames).await?;
        blocking_if(is_large(&receiver), move || receiver.into_bytes()).await
    }

    async fn in_memory(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<Receiver, Status> {
        let slot = Slot::new(Receiver::in_memory(&self.options), false);
        let turn = self.drive(frames, &slot, |_| ()).await?;
        slot.take_receiver(turn, Receiver::in_memory(&self.options))
    }

    /// Receives a message into a file, and returns the file's size in bytes. The file is written
    /// atomically.
    ///
    /// # Errors
    ///
    /// The errors of [`message`](Self::message); `ALREADY_EXISTS` if the file exists and
    /// [`force`](Self::force) isn't set; `NOT_FOUND` if the file's folder doesn't exist.
    pub async fn file(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
        target: impl AsRef<Path>,
    ) -> Result<u64, Status> {
        let (target, force) = self.target(target.as_ref())?;
        let slot = Slot::new(self.in_file(), true);
        let turn = self.drive(frames, &slot, |_| ()).await?;
        let receiver = slot.take_receiver(turn, self.in_file())?;
        blocking_if(true, move || receiver.write_file(target, force)).await
    }

    /// Returns the path of the file to write, and whether it may replace an existing file. Checks
    /// the target before the transfer, so that the peer doesn't send a message that can't be
    /// written.
    pub(crate) fn target(&self, target: &Path) -> Result<(PathBuf, bool), Status> {
        check_target(target, self.force).map_err(|error| status(&error))?;
        Ok((target.to_owned(), self.force))
    }

    /// Returns a receiver that keeps chunks in a temporary file, in the folder set in the options.
    pub(crate) fn in_file(&self) -> Receiver {
        Receiver::in_file(self.folder.as_deref(), &self.options)
    }

    /// Pushes frames to the receiver in `slot` until the transfer ends. Calls `look` after each
    /// frame or batch of frames. Returns the number of the transfer in `slot`, which
    /// [`Slot::take_receiver`] requires.
    pub(crate) async fn drive(
        &self,
        mut frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
        slot: &Slot,
        look: impl FnMut(&Receiver),
    ) -> Result<u64, Status> {
        let turn = slot.take_turn();
        let driven = self.push_all(&mut frames, slot, turn, look);
        let ended = match self.timeout {
            None => driven.await,
            Some(most) => match tokio::time::timeout(most, driven).await {
                Ok(ended) => ended,
                Err(_) => Err(late("the transfer took longer than", most, slot)),
            },
        };
        if ended.is_err() {
            slot.break_off(turn);
        }
        ended.map(|()| turn)
    }

    /// Waits for the next frame. If the idle timeout expires, returns its duration as the error.
    pub(crate) async fn next_frame<S: Stream + Unpin>(
        &self,
        frames: &mut S,
    ) -> Result<Option<S::Item>, Duration> {
        match self.idle_timeout {
            None => Ok(frames.next().await),
            Some(most) => (tokio::time::timeout(most, frames.next()).await).map_err(|_| most),
        }
    }

    async fn push_all(
        &self,
        frames: &mut (impl Stream<Item = Result<Frame, Status>> + Unpin),
        slot: &Slot,
        turn: u64,
        mut look: impl FnMut(&Receiver),
    ) -> Result<(), Status> {
        if !slot.blocks {
            // A frame is pushed on this thread, since copying it in memory takes less time than
            // waking another thread.
            while let Some(frame) = self.frame_in_time(frames, slot).await? {
                slot.push(turn, frame)?;
                look(&slot.lock().receiver);
            }
            return slot.end(turn);
        }
        let read = |sender: mpsc::Sender<Frame>| async move {
            while let Some(frame) = self.frame_in_time(frames, slot).await? {
                // Sending fails if pushing has failed. In this case, the error from pushing is
                // reported.
                if sender.send(frame).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        pushing(slot, turn, look, read).await?;
        slot.end(turn)
    }

    async fn frame_in_time(
        &self,
        frames: &mut (impl Stream<Item = Result<Frame, Status>> + Unpin),
        slot: &Slot,
    ) -> Result<Option<Frame>, Status> {
        let next = self.next_frame(frames).await;
        let next = next.map_err(|most| late("no frame came for", most, slot))?;
        next.transpose()
    }
}

/// Returns true if the message has more than 2 MiB, so that merging it should run on a thread for
/// blocking work.
fn is_large(receiver: &Receiver) -> bool {
    receiver.begin().message_size > 2 << 20
}

/// Runs a job, on a thread for blocking work if `blocks` is true.
pub(crate) async fn blocking_if<T: Send + 'static>(
    blocks: bool,
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T, Status> {
    let done = if blocks {
        spawn_blocking(job).await.map_err(stopped)?
    } else {
        job()
    };
    done.map_err(|error| status(&error))
}

#[cold]
fn late(what: &str, most: Duration, slot: &Slot) -> Status {
    let (chunk, count) = slot.lock().receiver.chunks();
    let message = format!("{what} {most:?}, in chunk {chunk} of {count}");
    Status::deadline_exceeded(message)
}

/// Fails unless a message may be written to the file at `target`, or at the end of the links there.
fn check_target(target: &Path, force: bool) -> Result<()> {
    let place = written_through(target)?;
    check_absent(&place, force)?;
    match fs::metadata(&place) {
        Ok(there) => check_replaceable(&there).map_err(|error| Error::from(error).in_file(&place)),
        Err(_) => Ok(()),
    }
}
