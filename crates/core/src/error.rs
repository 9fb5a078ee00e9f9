//! This crate's error type, and the types for the positions and sizes that errors report.

mod large_part;
mod newtypes;

use std::fmt;
use std::path::{Path, PathBuf};

pub use large_part::{LargePart, NAMED, largest_named, shown_size};
pub use newtypes::{ChunkIndex, MessageOffset};

/// A coarse, stable classification of errors, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes of a message break the protobuf wire format, or don't match their declared type.
    InvalidMessage,
    /// A field path can't be parsed, or doesn't exist in the message or its type.
    InvalidPath,
    /// A part of the message exceeds the maximum chunk size and can't be cut.
    Uncuttable,
    /// The trailer of a chunked file is inconsistent, or contradicts the chunks.
    InvalidTrailer,
    /// The file is not a chunked protobuf.
    NotChunked,
    /// The operation depends on the message's type, which is unknown.
    SchemaNeeded,
    /// A schema given for the message can't be read, or is inconsistent.
    InvalidSchema,
    /// The file needs a newer or different reader.
    UnsupportedVersion,
    /// The checksum or size of the data differs from the stored value.
    ChecksumMismatch,
    /// The input exceeds a limit of this reader or writer.
    LimitExceeded,
    /// An option is invalid, contradicts another option or the input, or isn't supported by this
    /// build.
    InvalidConfig,
    /// The source changed while it was being read.
    SourceChanged,
    /// The file to write already exists, and may not be overwritten.
    AlreadyExists,
    /// The folder to write to does not exist.
    NoFolder,
    /// The structure of the record file that contains the chunks is damaged.
    Record,
    /// Reading or writing failed in the operating system.
    Io,
    /// The input is not a local file, but its format can only be read from local files.
    NeedsFile,
    /// The operation was [cancelled](crate::progress::CancelToken::cancel).
    Cancelled,
}

/// An error of this crate, such as a failed split, merge or read.
///
/// Displays as one lower-case line: the file or the operation, the field path, the chunk, the
/// problem, the byte offset and, if a message is too large, its three largest parts.
///
/// ```
/// use proto_splitter_core::{ErrorKind, path::FieldPath};
/// let error = "a..b".parse::<FieldPath>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidPath);
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug, thiserror::Error)]
#[error("{}", Line(self))]
struct Inner {
    kind: ErrorKind,
    message: String,
    /// The file or the operation in which the error occurred.
    context: Option<String>,
    file: Option<PathBuf>,
    path: Option<String>,
    chunk: Option<ChunkIndex>,
    offset: Option<u64>,
    /// True if the error was caused by the size of a message.
    refuses_size: bool,
    /// The largest parts of the message; empty unless the message's size caused the error and the
    /// parts are known.
    largest: Vec<LargePart>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result whose error type defaults to this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of this kind. By convention, `message` is one lower-case line without a
    /// full stop.
    ///
    /// Custom splitters report their errors with this function.
    #[cold]
    #[inline(never)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                context: None,
                file: None,
                path: None,
                chunk: None,
                offset: None,
                refuses_size: false,
                largest: Vec::new(),
                source: None,
            }),
        }
    }

    /// Creates an error of the kind [`InvalidMessage`](ErrorKind::InvalidMessage).
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidMessage, message)
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the path of the file that the failed operation opened, if known. The error itself
    /// may be in another file to which the opened file refers.
    ///
    /// ```
    /// use std::path::Path;
    /// use proto_splitter_core::container::ChunkedFile;
    ///
    /// let error = ChunkedFile::open("absent.cpb").unwrap_err();
    /// assert_eq!(error.file(), Some(Path::new("absent.cpb")));
    /// ```
    pub fn file(&self) -> Option<&Path> {
        self.inner.file.as_deref()
    }

    /// Returns the field path at which the error occurred, if known.
    pub fn path(&self) -> Option<&str> {
        self.inner.path.as_deref()
    }

    /// Returns the index of the chunk in which the error occurred, if known.
    pub fn chunk(&self) -> Option<ChunkIndex> {
        self.inner.chunk
    }

    /// Returns the byte offset at which the error occurred, if known: an offset in the
    /// [chunk](Self::chunk) if the chunk is known, otherwise in the message or file.
    pub fn offset(&self) -> Option<u64> {
        self.inner.offset
    }

    /// Returns the largest parts of the message; empty unless the message's size caused the error
    /// and its parts are known.
    pub fn largest(&self) -> &[LargePart] {
        &self.inner.largest
    }

    /// Records that the size of a message caused the error, so that
    /// [`with_largest`](crate::view::size_tree::with_largest) adds the largest parts of the
    /// message.
    #[must_use]
    pub fn refusing_size(mut self) -> Self {
        self.inner.refuses_size = true;
        self
    }

    pub(crate) fn needs_largest(&self) -> bool {
        self.inner.refuses_size && self.inner.largest.is_empty()
    }

    /// Adds the largest parts of the protobuf message, which the error's text lists at its end.
    #[must_use]
    pub fn with_largest(mut self, parts: Vec<LargePart>) -> Self {
        self.inner.largest = parts;
        self
    }

    /// Returns the kind of the [`std::io::Error`] that caused the error, if any, such as `NotFound`
    /// or `UnexpectedEof`.
    ///
    /// ```
    /// use proto_splitter_core::container::ChunkedFile;
    ///
    /// let error = ChunkedFile::open("there is no such file.cpb").unwrap_err();
    /// assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    /// ```
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        let source = self.inner.source.as_deref()?;
        Some(source.downcast_ref::<std::io::Error>()?.kind())
    }

    /// Adds the field path, unless a path closer to the cause is already set.
    #[must_use]
    pub fn at_path(mut self, path: impl fmt::Display) -> Self {
        if self.inner.path.is_none() {
            let path = path.to_string();
            self.inner.path = (!path.is_empty()).then_some(path);
        }
        self
    }

    /// Adds the chunk, unless a chunk closer to the cause is already set.
    #[must_use]
    pub fn in_chunk(mut self, chunk: impl Into<ChunkIndex>) -> Self {
        self.inner.chunk.get_or_insert(chunk.into());
        self
    }

    /// Adds the byte offset, unless an offset closer to the cause is already set.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.inner.offset.get_or_insert(offset);
        self
    }

    /// Replaces the byte offset.
    #[must_use]
    pub(crate) fn with_offset(mut self, offset: u64) -> Self {
        self.inner.offset = Some(offset);
        self
    }

    /// Prepends the path of a file to the error's text, and sets the path as the error's
    /// [file](Self::file).
    ///
    /// ```
    /// use proto_splitter_core::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::InvalidMessage, "it ends too early").in_file("model.pb");
    /// assert_eq!(error.to_string(), "model.pb: it ends too early");
    /// ```
    #[must_use]
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.inner.file = Some(path.to_owned());
        self.context(path.display())
    }

    /// Prepends the path of the file that was read, as [`in_file`](Self::in_file) does, unless the
    /// error's text already names that file, or the error isn't about that file.
    #[doc(hidden)]
    #[must_use]
    pub fn in_file_unless_named(mut self, path: &Path) -> Self {
        let about_another = matches!(
            self.kind(),
            ErrorKind::AlreadyExists | ErrorKind::NoFolder | ErrorKind::InvalidConfig
        );
        if about_another || path.as_os_str().is_empty() || self.file() == Some(path) {
            return self;
        }
        if self.names(path) {
            self.inner.file.get_or_insert_with(|| path.to_owned());
            return self;
        }
        self.in_file(path)
    }

    /// Returns true if the error's text contains this path at the start of a word.
    #[doc(hidden)]
    pub fn names(&self, path: &Path) -> bool {
        let (message, path) = (self.to_string(), path.display().to_string());
        let mut found = message.match_indices(&path).map(|(at, _)| at);
        found.any(|at| at == 0 || message[..at].ends_with(' '))
    }

    /// Prepends `what`, which is the operation or the place of the error, to the error's text.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.inner.context = Some(match self.inner.context.take() {
            Some(nearer) => format!("{what}: {nearer}"),
            None => what.to_string(),
        });
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.inner.source = Some(source.into());
        self
    }
}

/// The one-line display of an error.
struct Line<'a>(&'a Inner);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            message,
            context,
            path,
            chunk,
            offset,
            largest,
            ..
        } = self.0;
        if let Some(context) = context {
            write!(f, "{context}: ")?;
        }
        if let Some(path) = path {
            write!(f, "{path}: ")?;
        }
        if let Some(chunk) = chunk {
            write!(f, "chunk {chunk}: ")?;
        }
        f.write_str(message)?;
        if let Some(offset) = offset {
            write!(f, " at 0x{offset:x}")?;
        }
        f.write_str(&largest_named(largest))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.inner.kind)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        // If the cause is an error of this crate that was passed through `io::Read` or `io::Write`,
        // returns that error.
        match error.downcast::<Error>() {
            Ok(own) => own,
            Err(error) => match error.downcast::<record_file::Error>() {
                Ok(record) => record.into(),
                Err(error) => Error::new(ErrorKind::Io, error.to_string()).with_source(error),
            },
        }
    }
}

impl From<record_file::Error> for Error {
    fn from(error: record_file::Error) -> Self {
        if let Some(own) = own_cause(&error) {
            return own;
        }
        let kind = match error.kind() {
            record_file::ErrorKind::Io => ErrorKind::Io,
            record_file::ErrorKind::LimitExceeded => ErrorKind::LimitExceeded,
            record_file::ErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
            _ => ErrorKind::Record,
        };
        Error::new(kind, error.to_string()).with_source(error)
    }
}

/// If a record writer failed because a reader of this crate failed, returns the reader's error;
/// otherwise `None`.
fn own_cause(error: &record_file::Error) -> Option<Error> {
    let io = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    let Inner {
        kind,
        message,
        context,
        file,
        path,
        chunk,
        offset,
        refuses_size,
        largest,
        ..
    } = &*io.get_ref()?.downcast_ref::<Error>()?.inner;
    let inner = Inner {
        kind: *kind,
        message: message.clone(),
        context: context.clone(),
        file: file.clone(),
        path: path.clone(),
        chunk: *chunk,
        offset: *offset,
        refuses_size: *refuses_size,
        largest: largest.clone(),
        source: None,
    };
    Some(Error {
        inner: Box::new(inner),
    })
}

/// Converts a decoding error from prost.
#[cold]
pub(crate) fn undecodable(error: prost::DecodeError) -> Error {
    Error::new(
        ErrorKind::InvalidMessage,
        format!("the bytes are not a message of the requested type: {error}"),
    )
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::InvalidConfig | ErrorKind::InvalidPath => std::io::ErrorKind::InvalidInput,
            ErrorKind::AlreadyExists => std::io::ErrorKind::AlreadyExists,
            ErrorKind::NoFolder => std::io::ErrorKind::NotFound,
            ErrorKind::UnsupportedVersion => std::io::ErrorKind::Unsupported,
            // Not `Interrupted`, since readers would retry.
            ErrorKind::Io | ErrorKind::Cancelled => std::io::ErrorKind::Other,
            _ => std::io::ErrorKind::InvalidData,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_file_path_chunk_message_and_offset_in_one_line() {
        let error = Error::new(ErrorKind::InvalidMessage, "length runs past the end")
            .at_path("a.b[3]")
            .in_chunk(2)
            .at_offset(0x1f)
            .at_path("ignored: the first is nearest to the cause");
        let line = "a.b[3]: chunk 2: length runs past the end at 0x1f";
        assert_eq!(error.to_string(), line);
        let error = error.context("the trailer").context("model.cpb");
        assert_eq!(error.to_string(), format!("model.cpb: the trailer: {line}"));
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    }

    #[test]
    fn a_file_is_named_once_and_only_by_errors_about_it() {
        let said = |kind, message| {
            let error = Error::new(kind, message).in_file_unless_named("m.cpb".as_ref());
            (error.file().is_some(), error.to_string())
        };
        for (kind, message, expected) in [
            (ErrorKind::Record, "cut", (true, "m.cpb: cut")),
            (ErrorKind::Record, "m.cpb: cut", (true, "m.cpb: cut")),
            (
                ErrorKind::Record,
                "xm.cpb: cut",
                (true, "m.cpb: xm.cpb: cut"),
            ),
            (
                ErrorKind::AlreadyExists,
                "o.pb is there",
                (false, "o.pb is there"),
            ),
        ] {
            let (has_file, line) = said(kind, message);
            assert_eq!((has_file, line.as_str()), expected);
        }
        let unnamed = Error::new(ErrorKind::Record, "cut").in_file_unless_named("".as_ref());
        assert_eq!(unnamed.to_string(), "cut");
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn an_error_survives_the_way_through_io() {
        let io: std::io::Error = Error::new(ErrorKind::ChecksumMismatch, "differs").into();
        assert_eq!(Error::from(io).kind(), ErrorKind::ChecksumMismatch);
    }
}
