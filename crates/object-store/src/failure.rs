//! Failures reported by stores, as errors of reading and writing.

use std::error::Error as _;
use std::io;

use object_store::Error;

use crate::redact::redact;
use crate::trouble::Trouble;

/// What stores call an error by which there is no bucket, or container.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

/// A failed request. The failure can be reported several times.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: io::ErrorKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: io::ErrorKind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
        }
    }

    /// That the object isn't the one that was opened any more.
    pub(crate) fn replaced(name: &str) -> Self {
        let message = format!("{name}: the object was replaced while it was read");
        Failure::new(io::ErrorKind::InvalidData, message)
    }

    /// Returns what a store says, about the object that has this name.
    pub(crate) fn of(name: &str, error: &Error) -> Self {
        let kind = match error {
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                io::ErrorKind::PermissionDenied
            }
            Error::NotSupported { .. } | Error::NotImplemented { .. } => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        // Where objects are listed, it is an error like any other.
        let may_lack = matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::Other);
        if may_lack && NO_BUCKET.iter().any(|code| chain(error).contains(code)) {
            let message = redact(&format!("{name}: no such bucket")).into_owned();
            return Failure::new(io::ErrorKind::NotFound, message);
        }
        let said = match (kind, Trouble::of(error)) {
            (io::ErrorKind::NotFound, _) => "no such object".to_owned(),
            (io::ErrorKind::AlreadyExists, _) => "the object is there already".to_owned(),
            (_, Some(trouble)) => trouble.to_string(),
            _ => chain(error),
        };
        Failure::new(kind, redact(&format!("{name}: {said}")))
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        io::Error::new(failure.kind, failure.message)
    }
}

/// An error of reading or writing, as one of the library: what is there already has a kind of its
/// own there.
pub(crate) fn lifted(error: io::Error) -> proto_splitter_core::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let kind = proto_splitter_core::ErrorKind::AlreadyExists;
            proto_splitter_core::Error::new(kind, error.to_string())
        }
        _ => error.into(),
    }
}

/// An error and what caused it, in one line, each cause once.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !line.contains(&said) {
            line = format!("{line}: {said}");
        }
        cause = error.source();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
