//! Errors that end a command.

use std::io;
use std::path::{Path, PathBuf};

use proto_splitter::formats::what_else;
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::display_name::{by_given_names, shown};

/// An error that ends a command, with the line to print and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// Error from the library or the system; `None` for other failures.
    cause: Option<Box<Cause>>,
}

/// The details of an error from the library or the system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// The library's error message, without the hints that the command adds.
    pub message: String,
    /// Path of the field in which the error occurred; `None` if unknown.
    pub path: Option<String>,
    /// Index of the chunk in which the error occurred; `None` if unknown.
    pub chunk: Option<u64>,
    /// Offset at which the error occurred, in bytes; `None` if unknown.
    pub offset: Option<u64>,
    /// The system's error number; `None` if it wasn't a system error.
    pub errno: Option<i32>,
    /// File that couldn't be read or written, or whose contents caused the error; `None` if
    /// unknown.
    pub file: Option<PathBuf>,
}

impl Cause {
    fn of(file: &Path, error: &Error) -> Cause {
        let mut source = std::error::Error::source(error);
        let mut errno = None;
        while let (Some(cause), None) = (source, errno) {
            let system = cause.downcast_ref::<io::Error>();
            errno = system.and_then(io::Error::raw_os_error);
            source = cause.source();
        }
        Cause {
            kind: error.kind(),
            message: String::new(),
            path: error.path().map(str::to_owned),
            chunk: error.chunk().map(|chunk| chunk.get()),
            offset: error.offset(),
            errno,
            file: (!file.as_os_str().is_empty()).then(|| file.to_owned()),
        }
    }
}

/// An error that ended a command, for programs that call this crate's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// Exit status of the command.
    pub exit: Exit,
    /// The command's error message, on one line.
    pub message: String,
    /// Error from the library or the system; `None` for an invalid command line.
    pub cause: Option<Box<Cause>>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        let Failure {
            exit,
            message,
            cause,
        } = failure;
        Failed {
            exit,
            message: by_given_names(&message),
            cause,
        }
    }
}

/// Converts an error from the library, whose message already names the file.
impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failure::from(error).into()
    }
}

impl Failure {
    /// Creates an error about invalid data, or about inputs that differ.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Bad,
            message: message.into(),
            cause: None,
        }
    }

    /// Creates an error about the command line, or about a file that can't be read or written.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Usage,
            message: message.into(),
            cause: None,
        }
    }

    /// Changes the exit status to that of a usage error, which the user can correct on the command
    /// line.
    pub(crate) fn into_usage(self) -> Self {
        Failure {
            exit: Exit::Usage,
            ..self
        }
    }

    /// Converts a library error about one of two files to a failure. If the error names neither
    /// file, the failure's message names both.
    pub(crate) fn of_either(files: [&Path; 2], error: &Error) -> Self {
        let message = by_given_names(&error.to_string());
        let is_named = |file: &&Path| names(&message, &shown(file));
        if let Some(file) = files.into_iter().find(is_named) {
            return Failure::of(file, error);
        }
        let failure = Failure::from_error(error);
        let files = files.map(shown);
        let [first, second] = files;
        Failure {
            message: format!("{first} or {second}: {}", failure.message),
            ..failure
        }
    }

    /// Converts an error from the library, whose message already names the file.
    pub(crate) fn from_error(error: &Error) -> Self {
        Failure::of(error.file().unwrap_or(Path::new("")), error)
    }

    /// Creates an error for a file or folder that can't be read or written.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        // The message has the same form as the library's messages: a path, a colon, and the
        // system's message.
        let message = format!("{}: {error}", shown(path));
        let cause = Cause {
            kind: ErrorKind::Io,
            message: message.clone(),
            path: None,
            chunk: None,
            offset: None,
            errno: error.raw_os_error(),
            file: Some(path.to_owned()),
        };
        Failure {
            cause: Some(Box::new(cause)),
            ..Failure::usage(message)
        }
    }

    /// Converts a library error about the file `path` to a failure.
    pub(crate) fn of(path: &Path, error: &Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Io
            | ErrorKind::AlreadyExists
            | ErrorKind::NoFolder
            | ErrorKind::InvalidConfig
            | ErrorKind::NeedsFile
            | ErrorKind::InvalidSchema
            | ErrorKind::SchemaNeeded
            | ErrorKind::SourceChanged => Exit::Usage,
            ErrorKind::Cancelled => Exit::Interrupted,
            _ => Exit::Bad,
        };
        let hint = match error.kind() {
            ErrorKind::AlreadyExists if may_be_forced(error) => " (--force replaces it)".to_owned(),
            ErrorKind::SchemaNeeded => {
                " (use --message TYPE to name it, or --assume-plain to merge without it)".to_owned()
            }
            ErrorKind::NotChunked if is_records(path) => {
                "; `protosplit layout` reads any record file".to_owned()
            }
            ErrorKind::InvalidMessage | ErrorKind::NotChunked => {
                let what = what_else(path);
                // An error from opening the input may already contain this hint.
                let what = what.filter(|what| !error.to_string().contains(what));
                what.map_or(String::new(), |what| format!("; {what}"))
            }
            _ => String::new(),
        };
        let mut cause = Cause::of(path, error);
        let message = by_given_names(&error.to_string());
        let path = shown(path);
        let about_another = matches!(
            error.kind(),
            ErrorKind::AlreadyExists | ErrorKind::NoFolder | ErrorKind::InvalidConfig
        );
        let place = if about_another || names(&message, &path) {
            String::new()
        } else {
            format!("{path}: ")
        };
        cause.message = format!("{place}{message}");
        Failure {
            exit,
            message: format!("{}{hint}", cause.message),
            cause: Some(Box::new(cause)),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// Converts an error from the library, whose message already names the file.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::from_error(&error)
    }
}

/// Returns true if the message contains the path at the start of a word.
fn names(message: &str, path: &str) -> bool {
    let mut found = message.match_indices(path).map(|(at, _)| at);
    found.any(|at| at == 0 || message[..at].ends_with(' '))
}

/// Returns true if `--force` would replace the existing file or folder that the error names. Some
/// targets are never replaced, such as one of two different models in a folder; the messages about
/// them end differently.
fn may_be_forced(error: &Error) -> bool {
    let message = error.to_string();
    [
        "there already",
        "already exists and is not empty",
        "already exists and isn't empty",
    ]
    .iter()
    .any(|end| message.ends_with(end))
}

/// Returns true if a file is a record file, regardless of its name.
pub(crate) fn is_records(file: &Path) -> bool {
    std::fs::File::open(file)
        .is_ok_and(|file| proto_splitter::record_file::is_record_file(&file).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_bad_data_from_what_the_caller_can_mend() {
        let path = Path::new("model.cpb");
        let status = |kind| Failure::of(path, &Error::new(kind, "oops")).exit().code();
        for kind in [
            ErrorKind::InvalidMessage,
            ErrorKind::InvalidPath,
            ErrorKind::Uncuttable,
            ErrorKind::InvalidTrailer,
            ErrorKind::NotChunked,
            ErrorKind::UnsupportedVersion,
            ErrorKind::ChecksumMismatch,
            ErrorKind::LimitExceeded,
            ErrorKind::Record,
        ] {
            assert_eq!(status(kind), 1, "{kind:?}");
        }
        for kind in [
            ErrorKind::SchemaNeeded,
            ErrorKind::InvalidSchema,
            ErrorKind::InvalidConfig,
            ErrorKind::SourceChanged,
            ErrorKind::AlreadyExists,
            ErrorKind::NoFolder,
            ErrorKind::Io,
        ] {
            assert_eq!(status(kind), 2, "{kind:?}");
        }
    }

    #[test]
    fn force_is_only_suggested_where_it_helps() {
        let said = |message| {
            let error = Error::new(ErrorKind::AlreadyExists, message);
            Failure::of(Path::new("model"), &error).message
        };
        for forced in [
            "m.cpb is there already",
            "m: already exists and is not empty",
            "m: the folder already exists and isn't empty",
        ] {
            assert_eq!(said(forced), format!("{forced} (--force replaces it)"));
        }
        for refused in [
            "m: saved_model.cpb and saved_model.pb are two different models",
            "m.plan is there already, and is not a plan",
            "m.pb is a folder",
        ] {
            assert_eq!(said(refused), refused);
        }
    }

    #[test]
    fn the_file_is_named_once() {
        let path = Path::new("model.cpb");
        let long = Error::new(ErrorKind::Record, "truncated model.cp");
        assert_eq!(
            Failure::of(Path::new("cp"), &long).message,
            "cp: truncated model.cp"
        );
        let said = |message| Failure::of(path, &Error::new(ErrorKind::Record, message)).message;
        assert_eq!(said("truncated"), "model.cpb: truncated");
        assert_eq!(said("model.cpb: no such file"), "model.cpb: no such file");
    }
}
