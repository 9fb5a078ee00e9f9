//! The sending half: frames as a stream.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitInput};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_transfer::proto::{Frame, ResumeToken};
use proto_splitter_transfer::{DEFAULT_MAX_FRAME_SIZE, Frames, SendOptions};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use crate::status::status;

/// Number of frames to make ahead of the connection.
const FRAMES_AHEAD: usize = 4;

/// Sends a message of any size with a call of a client: `send(|frames| client.put(frames), &message)`.
///
/// `source` is a message, a [`Source`](proto_splitter_core::split::Source) such as a file or a
/// reader, or anything else that converts to [`SplitInput`]. Values of type `Bytes` aren't copied,
/// and a file is read as frames are sent.
///
/// # Errors
///
/// The status of the call. If the source failed, which the peer sees as a broken transfer, its own
/// error instead: as [`Frames::new`], and any error of reading.
pub async fn send<T, F>(
    call: impl FnOnce(Outgoing) -> F,
    source: impl Into<SplitInput>,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    send_with(call, source, &SendOptions::new()).await
}

/// Sends a message as [`send`] does, with options.
///
/// # Errors
///
/// As [`send`].
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

/// The error of a source whose frames ended early.
#[derive(Clone, Debug, Default)]
pub struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    /// Takes the error of the source, if it failed.
    pub fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// The frames of a message as a stream, for the request of a streaming call.
///
/// They are made on demand, on a thread for blocking work. If the source fails, the stream ends
/// early, and [`failure`](Self::failure) has the error; [`results`](Self::results) reports it as
/// its last item instead.
#[derive(Debug)]
pub struct Outgoing {
    made: Made,
    failure: Failure,
}

#[derive(Debug)]
enum Made {
    /// A short message in memory needs no thread.
    Here(Box<Frames>),
    Elsewhere(mpsc::Receiver<Result<Frame>>),
}

impl Outgoing {
    /// Returns the frames of a message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] outside of a tokio runtime. The stream reports errors of the
    /// source.
    pub fn new(source: impl Into<SplitInput>, options: &SendOptions) -> Result<Outgoing> {
        Outgoing::resume(SizeSplitter, source, ResumeToken::default(), options)
    }

    /// Returns the frames of a message, cut by `splitter`, that a receiver lacks, as [`Frames::resume`] does.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn resume<S: ComposableSplitter + Send + 'static>(
        splitter: S,
        source: impl Into<SplitInput>,
        token: ResumeToken,
        options: &SendOptions,
    ) -> Result<Outgoing> {
        let source = source.into();
        let short = |size| size <= DEFAULT_MAX_FRAME_SIZE as u64;
        let made = if source.size_in_memory().is_some_and(short) {
            Made::Here(Box::new(Frames::resume(
                &splitter, source, &token, options,
            )?))
        } else {
            let runtime = Handle::try_current().map_err(|_| {
                let message = "frames of a large message are made in a tokio runtime";
                Error::new(ErrorKind::InvalidConfig, message)
            })?;
            let (sender, receiver) = mpsc::channel(FRAMES_AHEAD);
            let options = options.clone();
            runtime.spawn_blocking(move || {
                let frames = match Frames::resume(&splitter, source, &token, &options) {
                    Ok(frames) => frames,
                    Err(error) => return drop(sender.blocking_send(Err(error))),
                };
                for frame in frames {
                    // The receiver of the frames is gone.
                    if sender.blocking_send(frame).is_err() {
                        return;
                    }
                }
            });
            Made::Elsewhere(receiver)
        };
        Ok(Outgoing {
            made,
            failure: Failure::default(),
        })
    }

    /// Returns the slot for the error of the source, if it fails.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Returns the same frames as a stream of results, for the response of a server.
    pub fn results(self) -> OutgoingResults {
        OutgoingResults(self)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        match &mut self.made {
            Made::Here(frames) => Poll::Ready(frames.next()),
            Made::Elsewhere(frames) => frames.poll_recv(cx),
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

/// The frames of a message as the response of a server: a stream of results.
#[derive(Debug)]
pub struct OutgoingResults(Outgoing);

impl Stream for OutgoingResults {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_frame(cx);
        next.map(|frame| Some(frame?.map_err(|error| status(&error))))
    }
}
