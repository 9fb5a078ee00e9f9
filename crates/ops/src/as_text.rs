//! Functions that serialize values of reports as text.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use proto_splitter_core::Error;
use serde::Serializer;

/// Serializes a path, with the replacement character in place of invalid Unicode.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Serializes each error as its message.
pub(crate) fn errors<S: Serializer>(errors: &[Error], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(Error::to_string))
}

/// Serializes a checksum as eight hexadecimal digits.
pub(crate) fn crc32c<S: Serializer>(sum: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    optional(&sum.map(|sum| format!("{sum:08x}")), serializer)
}

/// Serializes a value, if there is one, using its `Display` implementation.
pub(crate) fn optional<T: Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// Serializes each path in the same way as [`path`].
pub(crate) fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

/// Serializes a path, if there is one, in the same way as [`path`].
#[cfg(feature = "externalize")]
pub(crate) fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    optional(&path.as_ref().map(|path| path.display()), serializer)
}
