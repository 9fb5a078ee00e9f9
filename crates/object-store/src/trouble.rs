//! Failures of requests that say themselves what they are.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The reason why a request failed, as the source of an error of `object_store`.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store answered with an error.
    Status {
        code: u16,
        reason: &'static str,
        /// The begin of the answer's body, without secrets.
        body: String,
        /// How long requests have failed.
        tried: Duration,
    },
    /// No answer came.
    NoAnswer { why: String, tried: Duration },
    /// No credentials are set, and the machine has none; what to set instead.
    NoCredentials(&'static str),
    /// The endpoint is `http://`, which this variable has to allow.
    Unencrypted(&'static str),
}

impl Trouble {
    /// Returns the trouble that an error comes from, if any.
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

    /// Returns the status, if the store answered.
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
                "the store's endpoint is http://, which {variable}=true has to allow"
            ),
        }
    }
}

/// The time that requests have failed for, once it is worth mentioning.
struct Tried(Duration);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => Ok(()),
            seconds => write!(f, " (tried for {seconds} s)"),
        }
    }
}
