//! Causes of failed requests, and their texts in error messages.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The cause of a failed request. It is the source of an `object_store` error.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store responded with an error status.
    Status {
        code: u16,
        reason: &'static str,
        /// Beginning of the response's body, without secrets.
        body: String,
        /// Time since requests to the store began to fail.
        tried: Duration,
    },
    /// There was no response.
    NoAnswer { why: String, tried: Duration },
    /// No credentials are set, and the machine doesn't provide any. The text names the settings for
    /// credentials.
    NoCredentials(&'static str),
    /// The endpoint is an `http://` URL, which is only allowed if the environment variable with
    /// this name is set.
    Unencrypted(&'static str),
    /// The server sent the whole object instead of the requested range.
    NoRanges,
    /// The response has this `Content-Range`, which is not a valid range.
    WrongRange(String),
}

impl Trouble {
    /// Returns the cause of an error, if there is a [`Trouble`] among its sources.
    pub(crate) fn of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Trouble> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(trouble) = error.downcast_ref() {
                return Some(trouble);
            }
            cause = error.source();
        }
        None
    }

    /// Returns the HTTP status of the response; `None` if there was no response with an error
    /// status.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Trouble::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Status {
                code,
                reason,
                body,
                tried,
            } => {
                write!(f, "the store answers {code} {reason}{}", Tried(*tried))?;
                if body.is_empty() {
                    return Ok(());
                }
                write!(f, ": {body}")
            }
            Trouble::NoAnswer { why, tried } => write!(f, "no answer{}: {why}", Tried(*tried)),
            Trouble::NoCredentials(set) => write!(f, "no credentials: set {set}"),
            Trouble::Unencrypted(variable) => write!(
                f,
                "the store's endpoint is http://, which must be allowed with {variable}=true"
            ),
            Trouble::NoRanges => f.write_str("the server doesn't send ranges of the object"),
            Trouble::WrongRange(range) => {
                write!(
                    f,
                    "the server answers with a wrong Content-Range: {range:?}"
                )
            }
        }
    }
}

/// The time for which requests have failed, to be displayed in a message. A time of less than a
/// second isn't displayed.
struct Tried(Duration);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => Ok(()),
            seconds => write!(f, " (tried for {seconds} s)"),
        }
    }
}
