//! What ends a subcommand early.

use std::io;
use std::path::Path;

use proto_splitter::container::is_chunked;
use proto_splitter::{Error, ErrorKind};

use crate::Exit;
use crate::display_name::{by_given_names, shown};
use crate::foreign::what_else;

/// An error of the command: one line to be printed, and the status to end with.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// Bad data, or data that differs.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Bad,
            message: message.into(),
        }
    }

    /// Wrong usage, or something that can't be read or written.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    /// The same, as something that the caller can mend on the command line.
    pub(crate) fn into_usage(self) -> Self {
        Failure::usage(self.message)
    }

    /// What the library says about one of these files, whichever it is.
    pub(crate) fn of_either(files: [&Path; 2], error: &Error) -> Self {
        let Failure { exit, message } = Failure::from_error(error);
        let files = files.map(shown);
        if files.iter().any(|file| names(&message, file)) {
            return Failure { exit, message };
        }
        let [first, second] = files;
        Failure {
            exit,
            message: format!("{first} or {second}: {message}"),
        }
    }

    fn from_error(error: &Error) -> Self {
        Failure::of(Path::new(""), error)
    }

    /// A file or folder that can't be read or written.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        // The library words it like this too: a path, a colon, what the system says.
        Failure::usage(format!("{}: {error}", shown(path)))
    }

    /// What the library says about this file.
    pub(crate) fn of(path: &Path, error: &Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Io
            | ErrorKind::AlreadyExists
            | ErrorKind::NoFolder
            | ErrorKind::InvalidConfig
            | ErrorKind::InvalidSchema
            | ErrorKind::SchemaNeeded
            | ErrorKind::SourceChanged => Exit::Usage,
            ErrorKind::Cancelled => Exit::Interrupted,
            _ => Exit::Bad,
        };
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => " (--force replaces it)".to_owned(),
            ErrorKind::SchemaNeeded => {
                " (--message TYPE says it, --assume-plain goes without)".to_owned()
            }
            ErrorKind::InvalidMessage => {
                let what = what_else(path);
                what.map_or(String::new(), |what| format!("; {what}"))
            }
            ErrorKind::NotChunked if is_chunked(path).unwrap_or(false) => {
                "; `protosplit layout` reads any record file".to_owned()
            }
            _ => String::new(),
        };
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
        Failure {
            exit,
            message: format!("{place}{message}{hint}"),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// An error that says itself what it is about.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::from_error(&error)
    }
}

/// Whether the message has this path in it, at the beginning of a word.
fn names(message: &str, path: &str) -> bool {
    let mut found = message.match_indices(path).map(|(at, _)| at);
    found.any(|at| at == 0 || message[..at].ends_with(' '))
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
