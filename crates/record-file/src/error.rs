//! The error type, with the kind of error and the offset in the file.
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// An error while reading or writing a record file. It has a kind and, if known, the offset in the
/// file at which the error occurred.
///
/// # Examples
///
/// ```
/// use record_file::{ErrorKind, ReaderOptions, RecordFile};
///
/// let not_ours = [7u8; 100];
/// let error = RecordFile::open(&not_ours[..], ReaderOptions::new()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotARecordFile);
/// assert_eq!(error.offset(), Some(0));
/// ```
pub struct Error {
    // Boxed, so that the size of an error is one word, and the results of hot functions stay small.
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    offset: Option<u64>,
    detail: Cow<'static, str>,
    /// The underlying I/O error, if any, shared by copies of this error.
    source: Option<Arc<io::Error>>,
}

/// Kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file doesn't begin with the signature of record files.
    NotARecordFile,
    /// The file ends in the middle of a header or chunk.
    Truncated,
    /// Stored bytes contradict the format, or each other.
    Corrupt,
    /// Stored bytes don't match the hash stored with them.
    ChecksumMismatch,
    /// Continuing would exceed a limit in the options, a limit of the file format or of a
    /// compressor, or the available memory.
    LimitExceeded,
    /// The data has a chunk type or a compression that this crate or this build doesn't support,
    /// and is otherwise valid as far as it was read.
    Unsupported,
    /// An option or argument has an invalid value.
    InvalidConfig,
    /// No record or chunk begins at the given position.
    InvalidPosition,
    /// The source of a record to be written has fewer bytes than announced.
    SourceEnded,
    /// The writer or stream was finished or has failed before, so it can't be used any more.
    Closed,
    /// Reading from the underlying source or writing to the underlying sink failed.
    Io,
}

impl Error {
    #[cold]
    #[inline(never)]
    fn new(
        kind: ErrorKind,
        offset: Option<u64>,
        detail: Cow<'static, str>,
        source: Option<Arc<io::Error>>,
    ) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                offset,
                detail,
                source,
            }),
        }
    }

    pub(crate) fn at(kind: ErrorKind, offset: u64, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::new(kind, Some(offset), detail.into(), None)
    }

    pub(crate) fn corrupt(offset: u64, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::at(ErrorKind::Corrupt, offset, detail)
    }

    pub(crate) fn truncated(offset: u64, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::at(ErrorKind::Truncated, offset, detail)
    }

    pub(crate) fn config(detail: impl Into<Cow<'static, str>>) -> Self {
        Error::new(ErrorKind::InvalidConfig, None, detail.into(), None)
    }

    pub(crate) fn closed(detail: &'static str) -> Self {
        Error::new(ErrorKind::Closed, None, detail.into(), None)
    }

    pub(crate) fn plain(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Error::new(kind, None, detail.into(), None)
    }

    pub(crate) fn hash(offset: u64, what: &str, stored: u64, computed: u64) -> Self {
        Error::at(
            ErrorKind::ChecksumMismatch,
            offset,
            format!("{what} hash mismatch: stored {stored:#018x}, computed {computed:#018x}"),
        )
    }

    /// Converts an I/O error. If it wraps an [`Error`] of this crate, returns that error.
    pub(crate) fn io(offset: Option<u64>, source: io::Error) -> Self {
        match source.downcast::<Error>() {
            Ok(ours) => ours,
            Err(source) => Error::new(
                ErrorKind::Io,
                offset,
                Cow::Borrowed(""),
                Some(Arc::new(source)),
            ),
        }
    }

    /// Sets the offset if the error doesn't have an offset yet.
    pub(crate) fn or_at(mut self, offset: u64) -> Self {
        self.inner.offset.get_or_insert(offset);
        self
    }

    /// Returns a copy of the error, so that a permanent failure can be returned repeatedly.
    pub(crate) fn again(&self) -> Self {
        let Inner {
            kind,
            offset,
            detail,
            source,
        } = &*self.inner;
        Error::new(*kind, *offset, detail.clone(), source.clone())
    }

    /// Returns the error for a buffer of `bytes` bytes that can't be allocated.
    pub(crate) fn no_room_for(bytes: u64) -> Self {
        Error::plain(
            ErrorKind::LimitExceeded,
            format!("{bytes} bytes don't fit in memory"),
        )
    }

    /// Returns the error for a position that is not a chunk boundary or is outside the file.
    pub(crate) fn no_chunk_at(offset: u64) -> Self {
        Error::at(
            ErrorKind::InvalidPosition,
            offset,
            "no chunk can begin here",
        )
    }

    /// Returns the error for a numeric position that no record has.
    pub(crate) fn no_record_at(numeric: u64) -> Self {
        Error::at(
            ErrorKind::InvalidPosition,
            numeric,
            "no record has this position",
        )
    }

    /// Returns the error for a file without the signature of record files.
    pub(crate) fn not_ours() -> Self {
        Error::at(
            ErrorKind::NotARecordFile,
            0,
            "not a record file: wrong signature",
        )
    }

    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the offset in the file, in bytes, if the error has one.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.inner.offset
    }

    /// Returns true if the error means that the stored data is damaged: it is corrupt or truncated,
    /// has a wrong hash, or isn't a record file.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(
            self.inner.kind,
            ErrorKind::NotARecordFile
                | ErrorKind::Truncated
                | ErrorKind::Corrupt
                | ErrorKind::ChecksumMismatch
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.inner.offset {
            write!(f, "at {offset:#x}: ")?;
        }
        match &self.inner.source {
            Some(source) if self.inner.detail.is_empty() => write!(f, "{source}"),
            Some(source) => write!(f, "{}: {source}", self.inner.detail),
            None => f.write_str(&self.inner.detail),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("message", &format_args!("{self}"))
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Truncated | ErrorKind::SourceEnded => io::ErrorKind::UnexpectedEof,
            ErrorKind::NotARecordFile | ErrorKind::Corrupt | ErrorKind::ChecksumMismatch => {
                io::ErrorKind::InvalidData
            }
            ErrorKind::LimitExceeded => io::ErrorKind::OutOfMemory,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::InvalidConfig | ErrorKind::InvalidPosition => io::ErrorKind::InvalidInput,
            ErrorKind::Closed => io::ErrorKind::BrokenPipe,
            ErrorKind::Io => match &error.inner.source {
                Some(source) => source.kind(),
                None => io::ErrorKind::Other,
            },
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn displays_the_offset_first_and_survives_io() {
        let error = Error::corrupt(0x10018, "sizes end early");
        assert_eq!(error.to_string(), "at 0x10018: sizes end early");
        let error = Error::io(None, io::Error::from(error));
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.offset(), Some(0x10018));
        let error = Error::io(Some(3), io::Error::other("disk on fire"));
        assert_eq!(error.to_string(), "at 0x3: disk on fire");
        assert_eq!(error.kind(), ErrorKind::Io);
    }

    #[test]
    fn an_io_error_that_stays_is_of_the_same_kind_again() {
        let reset = io::Error::new(io::ErrorKind::ConnectionReset, "gone");
        let error = Error::io(Some(3), reset);
        let again = error.again().again();
        assert_eq!(again.to_string(), error.to_string());
        assert!(std::error::Error::source(&again).is_some());
        assert_eq!(
            io::Error::from(again).kind(),
            io::ErrorKind::ConnectionReset
        );
    }
}
