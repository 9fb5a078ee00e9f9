//! Adding the input's name to errors.

use std::path::Path;

use proto_splitter_core::formats::Opened;
use proto_splitter_core::{Error, ErrorKind};

/// Prefixes an error with the input's name, unless it already has the name or isn't about the input.
pub(crate) fn at(input: &Opened, error: Error) -> Error {
    at_path(input.input(), error)
}

/// Does the same as [`at`] for an error about one of two inputs.
pub(crate) fn at_either(inputs: [&Opened; 2], error: Error) -> Error {
    let [first, second] = inputs.map(Opened::input);
    if is_about(first, &error) || is_about(second, &error) {
        return error;
    }
    error.context(format_args!("{} or {}", first.display(), second.display()))
}

pub(crate) fn at_path(path: &Path, error: Error) -> Error {
    let about_another = matches!(
        error.kind(),
        ErrorKind::AlreadyExists | ErrorKind::NoFolder | ErrorKind::InvalidConfig
    );
    if about_another || is_about(path, &error) {
        return error;
    }
    error.in_file(path)
}

/// Returns true if an error is about a file, or names it.
fn is_about(path: &Path, error: &Error) -> bool {
    error.file() == Some(path) || names(&error.to_string(), &path.display().to_string())
}

/// Returns true if the message contains this name at the start of a word.
fn names(message: &str, name: &str) -> bool {
    let mut found = message.match_indices(name).map(|(at, _)| at);
    found.any(|at| at == 0 || message[..at].ends_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_named_once_and_only_by_errors_about_it() {
        let said = |kind, message| at_path("m.cpb".as_ref(), Error::new(kind, message)).to_string();
        for (kind, message, expected) in [
            (ErrorKind::Record, "cut", "m.cpb: cut"),
            (ErrorKind::Record, "m.cpb: cut", "m.cpb: cut"),
            (ErrorKind::Record, "xm.cpb: cut", "m.cpb: xm.cpb: cut"),
            (ErrorKind::AlreadyExists, "o.pb is there", "o.pb is there"),
        ] {
            assert_eq!(said(kind, message), expected);
        }
        let unnamed = at_path("".as_ref(), Error::new(ErrorKind::Record, "cut"));
        assert_eq!(unnamed.to_string(), "cut");
    }
}
