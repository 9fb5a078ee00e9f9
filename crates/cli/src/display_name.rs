//! What files are called in reports and errors: as they were given.

use std::path::Path;

/// What standard input is opened by, with a number behind it: as nobody writes it who means a file.
pub(crate) const OPENED_BY: &str = "/dev/./fd/";

/// What a file is called in reports and errors.
pub(crate) fn shown(file: &Path) -> String {
    by_given_names(&file.display().to_string())
}

/// A message in which standard input has the name that it is opened by, which nobody gave it.
pub(crate) fn by_given_names(message: &str) -> String {
    let mut pieces = message.split(OPENED_BY);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        shown.push_str("standard input");
        shown.push_str(piece.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    shown
}
