//! Sending messages: the frames of a message as a stream.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::vec;

use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitInput};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_transfer::proto::{Frame, ResumeToken};
use proto_splitter_transfer::{Frames, SendOptions};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use crate::status::status;

/// Default maximum size of a frame, in bytes: 128 KiB. A frame is copied several times before it is
/// sent, and copying is faster if the frame fits into a processor's cache.
const FRAME_SIZE: usize = 128 << 10;

/// Maximum number of batches of frames to prepare in advance.
const BATCHES_AHEAD: usize = 3;

/// Target size of a batch, in bytes: 1 MiB. A larger frame is a batch by itself. Frames are batched
/// since waking a task for each frame would take longer than making the frame.
const BATCH_SIZE: usize = 1 << 20;

/// Maximum size of a message in memory that is split without another thread, in bytes: 2 MiB.
const SHORT: u64 = 2 << 20;

/// Sends a message of any size with a method of a client, for example
/// `send(|frames| client.put(frames), &message)`.
///
/// `source` is a message, a [`Source`](proto_splitter_core::split::Source) such as a file or a
/// reader, or anything else that converts to [`SplitInput`]. In a message, values of type `Bytes`
/// aren't copied. A file is read while its frames are sent.
///
/// # Errors
///
/// The error status of the call. If [`Frames::new`] or reading `source` fails, the peer sees at
/// most an incomplete transfer, and this function returns the status for that failure instead.
pub async fn send<T, F>(
    call: impl FnOnce(Outgoing) -> F,
    source: impl Into<SplitInput>,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    send_with(call, source, &SendOptions::new()).await
}

/// Does the same as [`send`], with the given options.
///
/// # Errors
///
/// The errors of [`send`].
pub async fn send_with<T, F>(
    call: impl FnOnce(Outgoing) -> F,
    source: impl Into<SplitInput>,
    options: &SendOptions,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let frames = Outgoing::new(source, options).map_err(|error| status(&error))?;
    let failure = frames.failure();
    let response = call(frames).await;
    match failure.take() {
        Some(error) => Err(status(&error)),
        None => response,
    }
}

/// A slot for an error of the source from which an [`Outgoing`] makes frames. If the source fails,
/// the slot is filled, and the stream of frames ends early.
#[derive(Clone, Debug, Default)]
pub struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    /// Takes the source's error out of the slot. Returns `None` if the source didn't fail.
    pub fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// The frames of a message as a stream, for a streaming request of a client.
///
/// Frames are made on demand, on a thread for blocking work. They have at most 128 KiB, unless
/// [`max_frame_size`](SendOptions::max_frame_size) is set in the options. If the source fails, the
/// stream ends early, and [`failure`](Self::failure) returns a slot with the error. In contrast,
/// the stream from [`results`](Self::results) has the error as its last item.
#[derive(Debug)]
pub struct Outgoing {
    made: Made,
    failure: Failure,
}

#[derive(Debug)]
enum Made {
    /// Frames of a short message in memory, which are made without another thread.
    Here(Box<Frames>),
    Elsewhere(Batches),
}

/// Frames that another thread makes in batches.
#[derive(Debug)]
struct Batches {
    batches: mpsc::Receiver<Vec<Result<Frame>>>,
    /// The remaining frames of the current batch.
    frames: vec::IntoIter<Result<Frame>>,
}

impl Batches {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Poll::Ready(Some(frame));
            }
            match ready!(self.batches.poll_recv(cx)) {
                Some(batch) => self.frames = batch.into_iter(),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Outgoing {
    /// Splits a message, and returns its frames as a stream.
    ///
    /// # Errors
    ///
    /// For a short message in memory, the errors of [`Frames::new`]. Otherwise, the stream reports
    /// these errors, and this function fails only outside of a tokio runtime, with
    /// [`ErrorKind::InvalidConfig`].
    pub fn new(source: impl Into<SplitInput>, options: &SendOptions) -> Result<Outgoing> {
        Outgoing::resume(SizeSplitter, source, ResumeToken::default(), options)
    }

    /// Returns a stream of only the frames that a receiver still needs, which are those of
    /// [`Frames::resume`]. `token` contains the number of chunks that the receiver has. `splitter`
    /// determines how the message is split.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn resume<S: ComposableSplitter + Send + 'static>(
        splitter: S,
        source: impl Into<SplitInput>,
        token: ResumeToken,
        options: &SendOptions,
    ) -> Result<Outgoing> {
        let source = source.into();
        let options = options.clone().max_frame_size_if_unset(FRAME_SIZE);
        let made = if source.size_in_memory().is_some_and(|size| size <= SHORT) {
            Made::Here(Box::new(Frames::resume(
                &splitter, source, &token, &options,
            )?))
        } else {
            let runtime = Handle::try_current().map_err(|_| {
                let message = "making the frames of a large message requires a tokio runtime";
                Error::new(ErrorKind::InvalidConfig, message)
            })?;
            let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
            runtime.spawn_blocking(move || {
                let mut frames = match Frames::resume(&splitter, source, &token, &options) {
                    Ok(frames) => frames,
                    Err(error) => return drop(sender.blocking_send(vec![Err(error)])),
                };
                let most = (BATCH_SIZE / options.get_max_frame_size()).max(1);
                loop {
                    let batch: Vec<_> = frames.by_ref().take(most).collect();
                    // Sending fails if the stream of the frames was dropped.
                    if batch.is_empty() || sender.blocking_send(batch).is_err() {
                        return;
                    }
                }
            });
            Made::Elsewhere(Batches {
                batches,
                frames: Vec::new().into_iter(),
            })
        };
        Ok(Outgoing {
            made,
            failure: Failure::default(),
        })
    }

    /// Returns the slot that will contain the source's error, if the source fails.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Converts the stream to a stream of results, for a streaming response of a server.
    pub fn results(self) -> OutgoingResults {
        OutgoingResults(self)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        match &mut self.made {
            Made::Here(frames) => Poll::Ready(frames.next()),
            Made::Elsewhere(batches) => batches.poll_frame(cx),
        }
    }
}

impl Stream for Outgoing {
    type Item = Frame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        self.poll_frame(cx).map(|next| match next? {
            Ok(frame) => Some(frame),
            Err(error) => {
                self.failure.put(error);
                None
            }
        })
    }
}

/// The frames of a message as a stream of results, for a streaming response of a server.
#[derive(Debug)]
pub struct OutgoingResults(Outgoing);

impl Stream for OutgoingResults {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_frame(cx);
        next.map(|frame| Some(frame?.map_err(|error| status(&error))))
    }
}
