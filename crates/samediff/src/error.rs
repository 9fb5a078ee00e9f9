//! The error type of this crate: the problem, the entry, and the line or offset.

use std::fmt;
use std::io;

use proto_splitter_core as core;

/// The kind of an error. Kinds are stable, so callers can branch on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not a zip archive.
    NotAnArchive,
    /// The archive's records contradict each other, or the size of the file.
    DamagedArchive,
    /// Two entries in the archive have the same name.
    DuplicateEntry,
    /// An entry's name leads outside the archive, or is not a plain relative path.
    UnsafeName,
    /// Two entries claim the same bytes of the archive.
    OverlappingEntries,
    /// An entry is encrypted, or compressed by a method other than deflate.
    UnsupportedEntry,
    /// The bytes of an entry don't match the checksum in the archive.
    ChecksumMismatch,
    /// An entry that the format requires is missing.
    MissingEntry,
    /// A text file is not UTF-8, or contains a blank line or a NUL.
    InvalidText,
    /// A tag's name is not allowed.
    InvalidTag,
    /// Two tags are equal, or differ only in case.
    DuplicateTag,
    /// The tag doesn't exist.
    UnknownTag,
    /// A line of `params.txt` or `updater.txt` doesn't follow the grammar.
    InvalidLine,
    /// A line of `params.txt` has a type column, which this reader doesn't support.
    UnsupportedLineType,
    /// Two lines in a file have the same name.
    DuplicateLine,
    /// A reference is not `id` or `tag/id`.
    InvalidReference,
    /// A reference points to a missing file.
    DanglingReference,
    /// `graph.fb`, or the graph of a classic file, can't be decoded.
    InvalidGraph,
    /// Two variables, or two operations, in a graph have the same name.
    DuplicateName,
    /// An operation uses a variable that the graph doesn't have.
    UnknownVariable,
    /// An operation's arguments don't have as many names as values.
    ArgumentMismatch,
    /// A variable or constant has no parameter file, or no parameter has this name.
    MissingParameter,
    /// A line names a variable that has no values, according to the graph.
    UnexpectedParameter,
    /// The bytes of an array are inconsistent.
    InvalidArray,
    /// An array has an unsupported kind or type.
    UnsupportedArray,
    /// The array differs from its declaration in the graph.
    ArrayMismatch,
    /// The array is too large for a FlatBuffer, whose limit is 2 GiB.
    ArrayTooLarge,
    /// A name can't be written to one of the format's text files, since it contains whitespace.
    NameNotRepresentable,
    /// The target format can't represent the source's content.
    NotConvertible,
    /// A limit of this reader was exceeded.
    LimitExceeded,
    /// An argument is out of range.
    InvalidConfig,
    /// The output file already exists.
    AlreadyExists,
    /// The folder for the output doesn't exist.
    NoFolder,
    /// The operation was [cancelled](core::progress::CancelToken::cancel).
    Cancelled,
    /// The operating system reported an error while reading or writing.
    Io,
}

/// A failed read, check, edit or write.
///
/// Displays as one line in lower case: the file, the entry, the line, the problem, and the byte
/// offset.
///
/// ```
/// use proto_splitter_samediff::{ErrorKind, Tag};
/// let error = "a/b".parse::<Tag>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidTag);
/// assert_eq!(error.to_string(), "tag \"a/b\" has '/' in it, which no file name may have");
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<String>,
    entry: Option<String>,
    line: Option<u64>,
    offset: Option<u64>,
    /// True if the message already names a field.
    in_field: bool,
    source: Option<core::Error>,
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    #[cold]
    #[inline(never)]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                file: None,
                entry: None,
                line: None,
                offset: None,
                in_field: false,
                source: None,
            }),
        }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the entry of the archive, if known.
    #[must_use]
    pub fn entry(&self) -> Option<&str> {
        self.inner.entry.as_deref()
    }

    /// Returns the line of a text file, counted from 1, if known.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.inner.line
    }

    /// Returns the byte offset, if known. It is relative to the entry if there is one, and
    /// otherwise to the file.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.inner.offset
    }

    /// Sets the entry, unless the cause of the error has set one.
    #[must_use]
    pub(crate) fn in_entry(mut self, entry: impl fmt::Display) -> Self {
        self.inner.entry.get_or_insert_with(|| entry.to_string());
        self
    }

    /// Sets the line, unless the cause of the error has set one.
    #[must_use]
    pub(crate) fn on_line(mut self, line: u64) -> Self {
        self.inner.line.get_or_insert(line);
        self
    }

    /// Sets the byte offset, unless the cause of the error has set one.
    #[must_use]
    pub(crate) fn at_offset(mut self, offset: u64) -> Self {
        self.inner.offset.get_or_insert(offset);
        self
    }

    /// Prefixes the message with the names of a table and its field.
    #[must_use]
    pub(crate) fn in_field(mut self, table: &str, field: &str) -> Self {
        if !self.inner.in_field {
            self.inner.message = format!("{table}.{field}: {}", self.inner.message);
            self.inner.in_field = true;
        }
        self
    }

    /// Prefixes the message with the kind and name of its subject.
    #[must_use]
    pub(crate) fn about(mut self, what: &str, name: &str) -> Self {
        self.inner.message = format!("{what} {name:?}: {}", self.inner.message);
        self
    }

    /// Sets the file, unless the cause of the error has set one.
    #[must_use]
    pub(crate) fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.inner.file.get_or_insert_with(|| file.to_string());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        if let Some(file) = &inner.file {
            write!(f, "{file}: ")?;
        }
        if let Some(entry) = &inner.entry {
            write!(f, "{entry}: ")?;
        }
        if let Some(line) = inner.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&inner.message)?;
        if let Some(offset) = inner.offset {
            write!(f, " at 0x{offset:x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.inner.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source as _)
    }
}

impl From<core::Error> for Error {
    fn from(source: core::Error) -> Self {
        let kind = match source.kind() {
            core::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            core::ErrorKind::NoFolder => ErrorKind::NoFolder,
            core::ErrorKind::Cancelled => ErrorKind::Cancelled,
            core::ErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
            core::ErrorKind::LimitExceeded => ErrorKind::LimitExceeded,
            _ => ErrorKind::Io,
        };
        let mut error = Error::new(kind, source.to_string());
        error.inner.source = Some(source);
        error
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // Unwraps an error of this crate that was passed through `io::Read` or `io::Write`.
        match error.downcast::<Error>() {
            Ok(own) => own,
            Err(error) => Error::from(core::Error::from(error)),
        }
    }
}

impl From<zip::result::ZipError> for Error {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => Error::from(error),
            error => Error::new(ErrorKind::DamagedArchive, error.to_string()),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl From<Error> for core::Error {
    fn from(mut error: Error) -> Self {
        // Unwraps an error of `core` to which nothing was added, along with its cause.
        let text = error.to_string();
        if let Some(own) = error.inner.source.take_if(|own| own.to_string() == text) {
            return own;
        }
        let kind = match error.kind() {
            ErrorKind::ChecksumMismatch => core::ErrorKind::ChecksumMismatch,
            ErrorKind::UnsupportedArray
            | ErrorKind::UnsupportedEntry
            | ErrorKind::UnsupportedLineType
            | ErrorKind::NotConvertible => core::ErrorKind::UnsupportedVersion,
            ErrorKind::LimitExceeded | ErrorKind::ArrayTooLarge => core::ErrorKind::LimitExceeded,
            ErrorKind::InvalidConfig | ErrorKind::NameNotRepresentable => {
                core::ErrorKind::InvalidConfig
            }
            ErrorKind::UnknownTag | ErrorKind::MissingParameter => core::ErrorKind::InvalidPath,
            ErrorKind::AlreadyExists => core::ErrorKind::AlreadyExists,
            ErrorKind::NoFolder => core::ErrorKind::NoFolder,
            ErrorKind::Cancelled => core::ErrorKind::Cancelled,
            ErrorKind::Io => core::ErrorKind::Io,
            _ => core::ErrorKind::InvalidMessage,
        };
        core::Error::new(kind, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_file_entry_line_message_and_offset() {
        let error = Error::new(ErrorKind::InvalidLine, "no reference")
            .at_offset(0x1f)
            .on_line(3)
            .in_entry("a/params.txt")
            .in_entry("ignored: the first is nearest to the cause")
            .in_file("model.sdz");
        let text = "model.sdz: a/params.txt: line 3: no reference at 0x1f";
        assert_eq!(error.to_string(), text);
        let through_io = Error::from(io::Error::from(error));
        assert_eq!(through_io.kind(), ErrorKind::InvalidLine);
    }
}
