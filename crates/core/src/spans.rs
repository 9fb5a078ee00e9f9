//! A message as a list of spans: literal bytes, and ranges of files or chunks.
//!
//! A model often consists of several files: its graph in one file, its weights in another. A
//! [`Spans`] presents them as one message, which can be read at any position like a file. The
//! message is never written as a whole, and no bytes of the files are copied. A span takes about 24
//! bytes of memory, regardless of its length.
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
//! // Field 1 is 8 bytes of the file; the message in field 4 has another field 1.
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
use std::ops::Range;
use std::path::Path;

use record_file::ReadAt;

pub use builder::SpansBuilder;
use checks::Checks;
pub(crate) use copy::COPY_LEN;
#[doc(hidden)]
pub use copy::crc_of_range;
pub use copy::{copy_range, first_bytes, read_pieces, read_through};
use files::{FileReader, Files};
pub use list::{SourceId, Span, SpanList, SpanSource};
pub use list_builder::Mark;
pub(crate) use list_builder::SpanListBuilder;

use crate::Result;
use crate::progress::Progress;

/// Default maximum number of files that a [`Spans`] keeps open.
pub const DEFAULT_MAX_OPEN_FILES: usize = 64;

/// Maximum size of a [`Spans`], in bytes: 2^63 - 1, the maximum size of a file.
pub const MAX_SPANS_SIZE: u64 = i64::MAX.cast_unsigned();

/// A message composed of ranges of files and of literal bytes, for random access.
///
/// Files are opened when they are read, with a bounded number open at a time. Each read compares
/// the file with its state when the message was built: if the file was modified or replaced,
/// reading fails with [`SourceChanged`](crate::ErrorKind::SourceChanged) and never returns other
/// bytes.
#[derive(Debug)]
pub struct Spans {
    list: SpanList,
    files: Files,
    checks: Checks,
}

impl Spans {
    /// Returns the total size of the message in bytes.
    pub fn total_size(&self) -> u64 {
        self.list.len()
    }

    /// Returns the list of the message's spans.
    pub fn list(&self) -> &SpanList {
        &self.list
    }

    /// Returns the paths, or names, of the message's files, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.names()
    }

    /// Returns the path, or name, of one file.
    pub fn file(&self, id: SourceId) -> &Path {
        self.files.name(id)
    }

    /// Returns the size of a file in bytes. The message may use only a part of the file.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the file belongs to another message.
    pub fn file_size(&self, file: SourceId) -> Result<u64> {
        Ok(self.files.get(file)?.size())
    }

    /// Fills `buf` with the bytes at offset `at` in a file, even if the message doesn't contain
    /// these bytes.
    ///
    /// # Errors
    ///
    /// [`SourceChanged`](crate::ErrorKind::SourceChanged) if the file lacks these bytes or has
    /// changed; [`Io`](crate::ErrorKind::Io) if reading fails.
    pub fn read_file(&self, file: SourceId, at: u64, buf: &mut [u8]) -> Result<()> {
        self.files.read(file, at, buf)
    }

    /// Returns the span that contains the byte at `offset`, cut so that it begins with that byte;
    /// `None` if `offset` isn't before the end of the message.
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

    /// Fails if a file has changed since the message was built.
    ///
    /// # Errors
    ///
    /// [`SourceChanged`](crate::ErrorKind::SourceChanged) with the name of the first modified or
    /// replaced file; [`Io`](crate::ErrorKind::Io) if a file can no longer be opened.
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.check_unchanged()
    }

    /// Runs the checks set with [`SpansBuilder::check_when_read`], except checks that already ran,
    /// and returns the number of files that have a check.
    ///
    /// # Errors
    ///
    /// The error from the first failing check.
    pub fn check_files(&self, progress: &Progress) -> Result<usize> {
        let mut checked = 0;
        for (file, check) in self.checks.iter() {
            check.run(&FileReader::new(&self.files, file), progress)?;
            checked += 1;
        }
        Ok(checked)
    }

    /// Fills `buf` with the bytes at offset `at` in a file, and records this range of the file as
    /// read.
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

    fn extent(&self, offset: u64) -> Option<Range<u64>> {
        let span = self.list.get(self.list.index_of(offset)?)?;
        let SpanSource::Stored(file, start) = span.source else {
            return Some(span.offset..span.end());
        };
        let found = self.files.extent(file, start + (offset - span.offset))?;
        let found = found.start.max(start)..found.end.min(start + span.len);
        (!found.is_empty()).then(|| {
            let place = |at| span.offset + (at - start);
            place(found.start)..place(found.end)
        })
    }
}
