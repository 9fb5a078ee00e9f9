//! The error type of this crate. An error names the problem, the entry, and the line or byte
//! offset.

use std::fmt;
use std::io;

use proto_splitter_core as core;

/// The kind of an [`Error`]. Kinds are stable, so callers can branch on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not a zip archive.
    NotAnArchive,
    /// The archive's records contradict each other or the file's size.
    DamagedArchive,
    /// Two entries in the archive have the same name.
    DuplicateEntry,
    /// An entry's name is not a plain relative path, so it could lead outside of a folder.
    UnsafeName,
    /// Two entries of the archive occupy the same bytes.
    OverlappingEntries,
    /// An entry is encrypted, or its compression method isn't deflate.
    UnsupportedEntry,
    /// The bytes of an entry don't match its checksum in the archive.
    ChecksumMismatch,
    /// An entry that the SameDiff format requires is missing.
    MissingEntry,
    /// A text file of the model is not UTF-8, or contains a blank line or a NUL.
    InvalidText,
    /// A tag's name is not allowed.
    InvalidTag,
    /// Two tags have the same name, ignoring case.
    DuplicateTag,
    /// The model has no tag with this name.
    UnknownTag,
    /// A line of `params.txt` or `updater.txt` doesn't follow the grammar.
    InvalidLine,
    /// A line of `params.txt` has a third column with a type, which this reader doesn't support.
    UnsupportedLineType,
    /// Two lines of `params.txt` or `updater.txt` have the same name.
    DuplicateLine,
    /// A reference to an array's file is not in the form `id` or `tag/id`.
    InvalidReference,
    /// A reference points to an array's file that doesn't exist.
    DanglingReference,
    /// `graph.fb`, or the graph of a classic file, can't be decoded.
    InvalidGraph,
    /// Two variables, or two operations, in a graph have the same name.
    DuplicateName,
    /// An operation refers to a variable that the graph doesn't have.
    UnknownVariable,
    /// The number of an operation's arguments differs from the number of the arguments' names.
    ArgumentMismatch,
    /// A variable or constant of the graph has no values, or no parameter has the requested name.
    MissingParameter,
    /// A parameter or updater state belongs to a variable that can't have any, according to the
    /// graph.
    UnexpectedParameter,
    /// The data or the description of an array is inconsistent.
    InvalidArray,
    /// An array has an unsupported kind or type.
    UnsupportedArray,
    /// The type or shape of an array differs from that of its variable in the graph.
    ArrayMismatch,
    /// An array is too large for a FlatBuffer, whose limit is 2 GiB.
    ArrayTooLarge,
    /// A name contains whitespace, so it can't be written to `params.txt` or `updater.txt`.
    NameNotRepresentable,
    /// The target format of a conversion can't represent the source's content.
    NotConvertible,
    /// The input exceeds one of the reader's limits.
    LimitExceeded,
    /// An argument or option has an invalid value.
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

/// An error from reading, checking, editing or writing a model.
///
/// The error is displayed as one line in lower case: the file, the entry, the line number, the
/// problem, and the byte offset.
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
    /// True if the message already begins with the name of a field.
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

    /// Returns the name of the archive entry with the problem, if known.
    #[must_use]
    pub fn entry(&self) -> Option<&str> {
        self.inner.entry.as_deref()
    }

    /// Returns the number of the line with the problem in a text file, counted from 1, if known.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.inner.line
    }

    /// Returns the byte offset of the problem, if known. It is relative to [`entry`](Self::entry)
    /// if there is one, and otherwise to the file.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.inner.offset
    }

    /// Sets the entry's name, unless it is already set.
    #[must_use]
    pub(crate) fn in_entry(mut self, entry: impl fmt::Display) -> Self {
        self.inner.entry.get_or_insert_with(|| entry.to_string());
        self
    }

    /// Sets the line number, unless it is already set.
    #[must_use]
    pub(crate) fn on_line(mut self, line: u64) -> Self {
        self.inner.line.get_or_insert(line);
        self
    }

    /// Sets the byte offset, unless it is already set.
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

    /// Prefixes the message with the kind and the name of the thing that has the problem.
    #[must_use]
    pub(crate) fn about(mut self, what: &str, name: &str) -> Self {
        self.inner.message = format!("{what} {name:?}: {}", self.inner.message);
        self
    }

    /// Sets the file's name, unless it is already set.
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
        // Unwraps an [`Error`] that was passed through `io::Read` or `io::Write`.
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
        // An error of `core` that got no file, entry, line or offset is returned unchanged, to keep
        // its cause.
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
