//! Finding the file that a prefix refers to, and opening its message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chunked_file::ChunkedFile;
use super::in_chunks::at_file;
use super::message_reader::MessageReader;
use super::piece::Piece;
use super::stored::StoredMessage;
use crate::container::{Limits, is_chunked};
use crate::io::{CHUNKED_EXTENSION, PLAIN_EXTENSION, with_extension};
use crate::merge::ReadOptions;
use crate::{Error, ErrorKind, Result};

/// Returns the file that a prefix or a file name refers to. A file's own name takes precedence:
/// `x.pb` doesn't mean `x.pb.cpb`.
pub(super) fn find(prefix: &Path) -> Result<PathBuf> {
    let is_named = prefix
        .extension()
        .is_some_and(|extension| extension == CHUNKED_EXTENSION || extension == PLAIN_EXTENSION);
    let [chunked, plain] =
        [CHUNKED_EXTENSION, PLAIN_EXTENSION].map(|extension| with_extension(prefix, extension));
    let candidates = if is_named {
        [prefix, &chunked, &plain]
    } else {
        [&chunked, &plain, prefix]
    };
    if let Some(found) = candidates.into_iter().find(|path| path.is_file()) {
        return Ok(found.to_owned());
    }
    let message = format!(
        "there is neither {} nor {}",
        chunked.display(),
        plain.display()
    );
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    Err(Error::new(ErrorKind::Io, message).with_source(source))
}

/// Opens the message in a file, which may have any name.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<Box<dyn StoredMessage>> {
    if !is_chunked(path)? {
        return Ok(Box::new(Piece::open(path)?));
    }
    let file = ChunkedFile::open_shared(path, limits);
    let file = file.map_err(|error| at_file(error, path))?;
    Ok(Box::new(Arc::new(file)))
}

impl MessageReader {
    /// Opens the message in a chunked or plain file. The reader reads only the requested ranges,
    /// unlike [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes), which reads the
    /// whole message.
    ///
    /// ```
    /// use proto_splitter_core::{MessageReader, merge::ReadOptions};
    /// use record_file::ReadAt;
    ///
    /// let folder = tempfile::tempdir()?;
    /// std::fs::write(folder.path().join("small.pb"), b"\x0a\x04name")?;
    ///
    /// let message = MessageReader::open(folder.path().join("small"), &ReadOptions::new())?;
    /// let mut name = [0; 4];
    /// message.read_exact_at(2, &mut name)?;
    /// assert_eq!(&name, b"name");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Merger::merge_to_bytes`](crate::merge::Merger::merge_to_bytes), except for
    /// damage in chunks that are not read yet.
    pub fn open(prefix: impl AsRef<Path>, options: &ReadOptions) -> Result<MessageReader> {
        let path = find(prefix.as_ref())?;
        let message = open(&path, &options.limits)?.reader(options);
        message.map_err(|error| at_file(error, &path))
    }
}
