//! Replacing internal paths in reports and errors with the names that the user gave.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Prefix of internal paths that open standard input or the copy of a pipe. A file descriptor
/// follows. Users are unlikely to give a path in this form.
pub(crate) const OPENED_BY: &str = "/dev/./fd/";

/// Names that the user gave for inputs opened by file descriptor. The map is global, since errors
/// from the library contain only the internal path.
static GIVEN: LazyLock<Mutex<HashMap<i32, String>>> = LazyLock::new(Mutex::default);

/// Records the name that the user gave for the input with this file descriptor.
pub(crate) fn name_copy(number: i32, name: &str) {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given.insert(number, name.to_owned());
}

/// Pairs of a string and its replacement in output: a temporary folder is replaced by the URL of
/// the folder that it stands for, and a URL with secrets by the URL without the secrets.
static RENAMED: LazyLock<Mutex<Vec<(String, String)>>> = LazyLock::new(Mutex::default);

/// Records that `shown` replaces the path or URL `named` in all output.
#[cfg(feature = "remote")]
pub(crate) fn rename(named: &str, shown: &str) {
    let mut renamed = RENAMED.lock().unwrap_or_else(PoisonError::into_inner);
    renamed.push((named.to_owned(), shown.to_owned()));
}

/// Returns the name to show for a file in reports and errors.
pub(crate) fn shown(file: &Path) -> String {
    by_given_names(&file.display().to_string())
}

/// Returns a message in which internal paths are replaced by the names that the user gave. The
/// replacements that [`rename`] recorded are also made.
pub(crate) fn by_given_names(message: &str) -> String {
    let mut pieces = message.split(OPENED_BY);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let number = piece[..piece.len() - rest.len()].parse().ok();
        let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = number.and_then(|number: i32| given.get(&number));
        shown.push_str(name.map_or("standard input", String::as_str));
        shown.push_str(rest);
    }
    for (named, other) in &*RENAMED.lock().unwrap_or_else(PoisonError::into_inner) {
        if shown.contains(named) {
            shown = shown.replace(named, other);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_by_a_number_is_called_as_it_was_given() {
        name_copy(1_000_001, "a pipe");
        let message = format!("{OPENED_BY}1000001: cut, unlike {OPENED_BY}1000002 at 7");
        assert_eq!(
            by_given_names(&message),
            "a pipe: cut, unlike standard input at 7"
        );
    }
}
