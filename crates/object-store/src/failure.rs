//! Failures of stores, as I/O errors.

use std::io;

use object_store::Error;

use crate::redact::redact;
use crate::trouble::Trouble;

/// Error codes with which stores report a missing bucket or container.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

/// A failed request. It can be cloned, to be reported several times.
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

    /// Creates the failure for an object that was replaced after it was opened.
    pub(crate) fn replaced(name: &str) -> Self {
        let message = format!("{name}: the object was replaced while it was read");
        Failure::new(io::ErrorKind::InvalidData, message)
    }

    /// Creates a failure from a store's error about the object called `name`.
    pub(crate) fn of(name: &str, error: &Error) -> Self {
        let trouble = Trouble::of(error);
        let kind = match error {
            _ if matches!(trouble, Some(Trouble::NoRanges)) => io::ErrorKind::Unsupported,
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                io::ErrorKind::PermissionDenied
            }
            Error::NotSupported { .. } | Error::NotImplemented { .. } => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        // When objects are listed, stores may report a missing bucket as another kind of error.
        let may_lack = matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::Other);
        if may_lack && NO_BUCKET.iter().any(|code| chain(error).contains(code)) {
            let message = redact(&format!("{name}: no such bucket")).into_owned();
            return Failure::new(io::ErrorKind::NotFound, message);
        }
        let said = match (kind, trouble) {
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

/// Converts an I/O error to an error of this library. The library has a separate kind of error for
/// files and objects that already exist.
pub(crate) fn lifted(error: io::Error) -> proto_splitter_core::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let kind = proto_splitter_core::ErrorKind::AlreadyExists;
            proto_splitter_core::Error::new(kind, error.to_string())
        }
        _ => error.into(),
    }
}

/// Returns an error and its causes as one line.
fn chain(error: &Error) -> String {
    let line = causes(error);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns an error and its causes, without repeated texts.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !line.contains(&said) {
            line = format!("{line}: {said}");
        }
        cause = error.source();
    }
    line
}
