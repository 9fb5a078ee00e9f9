//! Resuming a transfer that broke off, so that only the missing chunks are sent.

use std::error::Error as _;
use std::time::Duration;

use proto_splitter_core::split::{SizeSplitter, SplitInput};
use proto_splitter_core::{Error, ErrorKind};
use proto_splitter_transfer::SendOptions;
use proto_splitter_transfer::proto::ResumeToken;
use tonic::{Code, Response, Status};

use crate::outgoing::Outgoing;
use crate::status::status;

/// Default number of attempts to send a message: 5. See [`Retry::attempts`].
pub const DEFAULT_ATTEMPTS: u32 = 5;

/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Options for resuming a transfer that breaks off.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    attempts: u32,
    pause: Duration,
    timeout: Option<Duration>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry::new()
    }
}

impl Retry {
    /// Creates the default options; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        Retry {
            attempts: DEFAULT_ATTEMPTS,
            pause: Duration::from_millis(100),
            timeout: None,
        }
    }

    proto_splitter_core::options! {
        /// Sets the number of consecutive attempts without progress after which to give up. An
        /// attempt makes progress if the receiver has more chunks afterwards. Default:
        /// [`DEFAULT_ATTEMPTS`].
        const attempts, get_attempts: u32;

        /// Sets the initial pause between attempts. The pause doubles after each attempt without
        /// progress, up to 5 s, and is reset after an attempt with progress. Default: 100 ms.
        const pause, get_pause: Duration;

        /// Sets the time limit for all attempts together; `None` disables the limit. The deadlines
        /// of the calls also apply. Default: `None`.
        into timeout, get_timeout: Option<Duration>;
    }
}

/// Returns true if a status means that the connection broke. The transfer can be resumed then.
pub fn is_broken(status: &Status) -> bool {
    // A status that the peer sent has no source, in contrast to an error of the connection.
    status.code() == Code::Unavailable || status.source().is_some()
}

/// Sends a message. If the connection breaks, resumes the transfer by sending only the chunks that
/// the receiver lacks. The receiver must be an [`Inbox`](crate::Inbox), which keeps chunks under
/// the [session](SendOptions::session) name in the options. If the options have none, a random name
/// is used.
///
/// `put` is a call that sends frames. `ask` is a call that requests the receiver's token. The
/// server's implementation of this call must return [`Inbox::token`](crate::Inbox::token).
///
/// # Errors
///
/// The errors of [`send`](crate::send). If the status means that the connection broke, it is only
/// returned after [`Retry::attempts`] consecutive attempts in which no new chunk arrived.
/// `DEADLINE_EXCEEDED` after [`Retry::timeout`].
pub async fn send_resuming<T, F, G>(
    put: impl FnMut(Outgoing) -> F,
    ask: impl FnMut(ResumeToken) -> G,
    source: impl Into<SplitInput>,
    options: &SendOptions,
    retry: Retry,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
    G: Future<Output = Result<Response<ResumeToken>, Status>>,
{
    let options = with_session(options)?;
    let sent = send_again(put, ask, source.into(), &options, retry);
    match retry.timeout {
        None => sent.await,
        Some(most) => match tokio::time::timeout(most, sent).await {
            Ok(sent) => sent,
            Err(_) => {
                let message =
                    format!("the transfer took longer than {most:?}, all attempts together");
                Err(Status::deadline_exceeded(message))
            }
        },
    }
}

/// Sends a message, and resumes the transfer until the message has arrived or resuming is futile.
/// The options must have a session name.
async fn send_again<T, F, G>(
    mut put: impl FnMut(Outgoing) -> F,
    mut ask: impl FnMut(ResumeToken) -> G,
    source: SplitInput,
    options: &SendOptions,
    retry: Retry,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
    G: Future<Output = Result<Response<ResumeToken>, Status>>,
{
    let session = options.get_session().clone();
    let (mut token, mut most) = (ResumeToken::default(), 0);
    let (mut left, mut pause) = (retry.attempts, retry.pause);
    loop {
        let frames = Outgoing::resume(SizeSplitter, source.clone(), token.clone(), options)
            .map_err(|error| status(&error))?;
        let failure = frames.failure();
        let sent = put(frames).await;
        if let Some(error) = failure.take() {
            return Err(status(&error));
        }
        let broken = match sent {
            Err(status) if is_broken(&status) => status,
            other => return other,
        };
        loop {
            left = left.saturating_sub(1);
            if left == 0 {
                return Err(broken);
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
            let question = ResumeToken {
                session: session.clone(),
                ..ResumeToken::default()
            };
            match ask(question).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    if answer.chunks > most {
                        most = answer.chunks;
                        (left, pause) = (retry.attempts, retry.pause);
                    }
                    token = answer;
                    break;
                }
                Err(status) if is_broken(&status) => {}
                Err(status) => return Err(status),
            }
        }
    }
}

fn with_session(options: &SendOptions) -> Result<SendOptions, Status> {
    if !options.get_session().is_empty() {
        return Ok(options.clone());
    }
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|error| {
        let message = format!("can't create a random name for a session: {error}");
        status(&Error::new(ErrorKind::Io, message))
    })?;
    Ok(options.clone().session(name.to_vec()))
}
