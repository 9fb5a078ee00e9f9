//! Names of the files that store a message.

use std::path::{Path, PathBuf};

/// The extension of a chunked file. Readers prefer a file with this extension to one with
/// [`PLAIN_EXTENSION`].
pub const CHUNKED_EXTENSION: &str = "cpb";

/// The extension of a file that contains a message in one piece.
pub const PLAIN_EXTENSION: &str = "pb";

/// Returns true if a file's name ends in `.cpb`, the extension of chunked files.
///
/// ```
/// use proto_splitter_core::container::is_named_chunked;
/// assert!(is_named_chunked("models/large.cpb"));
/// assert!(!is_named_chunked("models/large.pb"));
/// ```
pub fn is_named_chunked(path: impl AsRef<Path>) -> bool {
    let extension = path.as_ref().extension();
    extension.is_some_and(|extension| extension == CHUNKED_EXTENSION)
}

/// Appends a dot and an extension to a prefix. Unlike [`Path::with_extension`], this doesn't
/// replace what follows a dot in the prefix.
///
/// ```
/// use std::path::Path;
///
/// use proto_splitter_core::container::{CHUNKED_EXTENSION, with_extension};
/// let path = with_extension("models/large.v2".as_ref(), CHUNKED_EXTENSION);
/// assert_eq!(path, Path::new("models/large.v2.cpb"));
/// ```
#[must_use]
pub fn with_extension(prefix: &Path, extension: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Returns the prefix of an output's path: the path without its extension if the extension is
/// [`CHUNKED_EXTENSION`] or [`PLAIN_EXTENSION`], otherwise the whole path.
///
/// ```
/// use std::path::Path;
///
/// use proto_splitter_core::container::prefix_of;
/// for (named, prefix) in [
///     ("a/m.cpb", "a/m"),
///     ("a/m.pb", "a/m"),
///     ("a/m.v1", "a/m.v1"),
///     ("m", "m"),
/// ] {
///     assert_eq!(prefix_of(named.as_ref()), Path::new(prefix));
/// }
/// ```
#[must_use]
pub fn prefix_of(named: &Path) -> PathBuf {
    match named.extension() {
        Some(extension) if extension == CHUNKED_EXTENSION || extension == PLAIN_EXTENSION => {
            named.with_extension("")
        }
        _ => named.to_owned(),
    }
}

/// Returns the prefix of the names of the files that belong to `main`; `None` if `main` doesn't end
/// in `.cpb`, since the prefix could then be another main file's.
pub(crate) fn stem(main: &Path) -> Option<&str> {
    without_extension(main.file_name()?.to_str()?)
}

/// Returns true if a name shows that the file contains chunks and belongs to the main file with
/// this [`stem`].
pub(crate) fn is_part_name(stem: &str, name: &str) -> bool {
    let rest = name
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('.'));
    let tag = rest.and_then(|rest| without_extension(rest)?.split_once('-'));
    tag.is_some_and(|(number, crc)| {
        let digits = |text: &str, radix| text.chars().all(|c| c.is_digit(radix));
        number.len() >= 5 && digits(number, 10) && crc.len() == 8 && digits(crc, 16)
    })
}

fn without_extension(name: &str) -> Option<&str> {
    name.strip_suffix(CHUNKED_EXTENSION)?.strip_suffix('.')
}
