//! Causes of failed requests, with their messages.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The cause of a failed request, as the source of an `object_store` error.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store answered with an error.
    Status {
        code: u16,
        reason: &'static str,
        /// Start of the response's body, without secrets.
        body: String,
        /// Time for which requests have failed.
        tried: Duration,
    },
    /// There was no response.
    NoAnswer { why: String, tried: Duration },
    /// No credentials are set or provided by the machine. The text names settings that provide
    /// credentials.
    NoCredentials(&'static str),
    /// The endpoint is an `http://` URL, which is only allowed if this variable is set.
    Unencrypted(&'static str),
    /// The server sent the whole object instead of the requested range.
    NoRanges,
    /// The server's response claims to contain these bytes of the object, which is not a valid
    /// range.
    WrongRange(String),
}

impl Trouble {
    /// Returns the cause of an error, if it is known.
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

    /// Returns the status, if the store responded.
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

/// The time for which requests have failed, if it is worth mentioning.
struct Tried(Duration);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => Ok(()),
            seconds => write!(f, " (tried for {seconds} s)"),
        }
    }
}
