//! A message as a list of spans: runs of bytes that are literals, or in a file, or in a chunk.
//!
//! A model is often several files that belong together: a graph here, its weights there. A
//! [`Spans`] is the one message that nobody ever wrote: it is read by position like a file, but its
//! bytes stay where they are. Nothing is copied, and a piece takes about 24 bytes of memory,
//! whatever its length.
//!
//! ```text
//! the message   | literal | span of model.onnx | literal | span of model.data     | span of model.onnx |
//!            0         2                    75        82                 2000082              2000107
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//! use proto_splitter_core::prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
//! use proto_splitter_core::spans::SpansBuilder;
//! use proto_splitter_core::split::Source;
//! use proto_splitter_core::wire::FieldNumber;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("weights");
//! std::fs::write(&path, b"..the name..")?;
//!
//! // Field 1 is 8 bytes of the file; the message in field 4 has a field 1 of its own.
//! let mut builder = SpansBuilder::new();
//! let weights = builder.open(&path)?;
//! builder.begin_field(FieldNumber(1))?;
//! builder.span(weights, 2..10)?;
//! builder.end_field()?;
//! builder.begin_field(FieldNumber(4))?;
//! builder.begin_field(FieldNumber(1))?;
//! builder.literal(b"Inner")?;
//! builder.end_field()?;
//! builder.end_field()?;
//! let spans = Arc::new(builder.finish()?);
//!
//! let view = MessageView::of_plain(&*spans, ReadOptions::new())?;
//! let file: FileDescriptorProto = view.message(&"".parse()?)?;
//! assert_eq!((file.name(), file.message_type[0].name()), ("the name", "Inner"));
//!
//! let source = Source::from_spans(spans, file.descriptor());
//! assert_eq!(source.size(), 2 + 8 + 2 + 2 + 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod checks;
mod copy;
mod files;
mod list;
mod list_builder;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use record_file::ReadAt;

pub use builder::SpansBuilder;
use checks::Checks;
pub(crate) use copy::COPY_LEN;
pub use copy::{copy_range, read_pieces};
use files::{FileReader, Files};
pub use list::{SourceId, Span, SpanList, SpanSource};
pub use list_builder::Mark;
pub(crate) use list_builder::SpanListBuilder;

use crate::Result;
use crate::progress::Progress;

/// The most files that a message of spans keeps open at once, unless its builder says otherwise.
pub const DEFAULT_MAX_OPEN_FILES: usize = 64;

/// The most bytes a message of spans may have: 2^63 - 1, what a file can have.
pub const MAX_SPANS_SIZE: u64 = i64::MAX.cast_unsigned();

/// Spans of files and literals that together are one message, read by position.
///
/// The files are opened when they are read, a bounded number of them at once, and each is compared
/// with what it was when the message was built: a file that was changed or replaced meanwhile is an
/// error ([`SourceChanged`](crate::ErrorKind::SourceChanged)), never other bytes.
#[derive(Debug)]
pub struct Spans {
    list: SpanList,
    files: Files,
    checks: Checks,
}

impl Spans {
    /// Bytes in all.
    pub fn total_size(&self) -> u64 {
        self.list.len()
    }

    /// The spans themselves.
    pub fn list(&self) -> &SpanList {
        &self.list
    }

    /// The paths, or names, of the files it takes spans of, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.names()
    }

    /// The path, or name, of one file.
    pub fn file(&self, id: SourceId) -> &Path {
        self.files.name(id)
    }

    /// How many bytes a file has. The message may use only some of them.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the file is one of another message.
    pub fn file_size(&self, file: SourceId) -> Result<u64> {
        Ok(self.files.get(file)?.size())
    }

    /// Fills `buf` from `at` in a file, whether or not these bytes are in the message.
    ///
    /// # Errors
    ///
    /// [`SourceChanged`](crate::ErrorKind::SourceChanged) if the file hasn't got these bytes or isn't what it was;
    /// [`Io`](crate::ErrorKind::Io) if reading fails.
    pub fn read_file(&self, file: SourceId, at: u64, buf: &mut [u8]) -> Result<()> {
        self.files.read(file, at, buf)
    }

    /// What is left of the span that the byte at `offset` is in, from this byte on. `None` from the
    /// end of the message on.
    ///
    /// ```
    /// use proto_splitter_core::spans::{SpanSource, SpansBuilder};
    ///
    /// let mut builder = SpansBuilder::new();
    /// let file = builder.reader("weights", std::sync::Arc::new(*b"0123456789"))?;
    /// builder.literal(b"ab")?;
    /// builder.span(file, 4..9)?;
    /// let spans = builder.finish()?;
    /// let at = |offset| spans.locate(offset).map(|span| (span.source, span.len));
    /// assert_eq!(at(1), Some((SpanSource::Literal(b"b"), 1)));
    /// assert_eq!(at(3), Some((SpanSource::Stored(file, 5), 4)));
    /// assert_eq!(at(7), None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn locate(&self, offset: u64) -> Option<Span<'_>> {
        self.list.locate(offset)
    }

    /// Fails unless every file is still what it was when the message was built.
    ///
    /// # Errors
    ///
    /// [`SourceChanged`](crate::ErrorKind::SourceChanged) with the file that was changed or replaced; [`Io`](crate::ErrorKind::Io)
    /// if a file can't be opened any more.
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.check_unchanged()
    }

    /// Makes the checks that were set with [`SpansBuilder::check_when_read`] now, and returns how
    /// many files have one. A check that was made before isn't repeated.
    ///
    /// # Errors
    ///
    /// The error of the first check that fails.
    pub fn check_files(&self, progress: &Progress) -> Result<usize> {
        let mut checked = 0;
        for (file, check) in self.checks.iter() {
            check.run(&FileReader::new(&self.files, file), progress)?;
            checked += 1;
        }
        Ok(checked)
    }

    /// Fills `buf` from `at` in a file, and notes that this was read.
    fn read_stored(&self, file: SourceId, at: u64, buf: &mut [u8]) -> Result<()> {
        self.files.read(file, at, buf)?;
        match self.checks.get(file) {
            Some(check) => {
                let range = at..at.saturating_add(buf.len() as u64);
                check.was_read(range, &FileReader::new(&self.files, file))
            }
            None => Ok(()),
        }
    }
}

impl ReadAt for Spans {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = |file, at, place: &mut [u8]| self.read_stored(file, at, place);
        Ok(self.list.read_at(offset, buf, read)?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.total_size())
    }
}
