//! A builder of a message of spans.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record_file::ReadAt;

use super::checks::Checks;
use super::files::{Files, Origin};
use super::list_builder::check_size;
use super::{DEFAULT_MAX_OPEN_FILES, Mark, SourceId, SpanListBuilder, Spans};
use crate::io::open_regular;
use crate::progress::Progress;
use crate::wire::{FieldNumber, WireType, encode_varint, tag};
use crate::{Error, ErrorKind, Result};

/// A builder that makes a [`Spans`] by appending literal bytes and ranges of files.
///
/// Begin a length-delimited field of unknown length with [`begin_field`](Self::begin_field), and
/// end it with [`end_field`](Self::end_field). Fields may nest.
#[derive(Debug)]
pub struct SpansBuilder {
    list: SpanListBuilder,
    files: Files,
    checks: Checks,
}

impl Default for SpansBuilder {
    fn default() -> Self {
        SpansBuilder::new()
    }
}

impl SpansBuilder {
    /// Creates a builder for a message that is empty so far.
    pub fn new() -> Self {
        SpansBuilder {
            list: SpanListBuilder::default(),
            files: Files::new(DEFAULT_MAX_OPEN_FILES),
            checks: Checks::default(),
        }
    }

    /// Sets the maximum number of files that are open at a time. Default:
    /// [`DEFAULT_MAX_OPEN_FILES`].
    #[must_use]
    pub fn max_open_files(mut self, most: NonZeroUsize) -> Self {
        self.files.set_most_open(most.get());
        self
    }

    /// Adds a regular file as a source of spans, by its path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened or isn't a regular file.
    pub fn open(&mut self, path: impl Into<PathBuf>) -> Result<SourceId> {
        let path = path.into();
        let opened = path.clone();
        self.open_with(path, move || open_regular(&opened))
    }

    /// Adds a regular file, which `open` opens, as a source of spans. Used for files whose paths
    /// can't be trusted. `name` identifies the file in errors.
    ///
    /// `open` may be called several times, and must always open the same, unchanged file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened or isn't a regular file.
    pub fn open_with(
        &mut self,
        name: impl Into<PathBuf>,
        open: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> Result<SourceId> {
        let (origin, file) = Origin::file(name.into(), Box::new(open))?;
        self.files.add(origin, Some(file))
    }

    /// Adds a random-access reader as a source of spans. Its bytes must not change. `name`
    /// identifies the reader in errors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the source's size is unavailable.
    pub fn reader(
        &mut self,
        name: impl Into<PathBuf>,
        reader: Arc<dyn ReadAt>,
    ) -> Result<SourceId> {
        let origin = Origin::reader(name.into(), reader)?;
        self.files.add(origin, None)
    }

    /// Sets a check of a file, such as a checksum of its entire content, that runs once all of the
    /// file's spans in the message have been read, in any order and by any number of threads.
    /// `check` reads the file itself. If `check` fails, the read that triggered it fails. If it
    /// fails with [`ErrorKind::ChecksumMismatch`], so does every later read of the file. After
    /// another error, the next read runs it again.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::spans::SpansBuilder;
    /// use proto_splitter_core::{Error, ErrorKind};
    /// use record_file::ReadAt;
    ///
    /// let mut builder = SpansBuilder::new();
    /// let file = builder.reader("weights", Arc::new(*b"0123456789"))?;
    /// builder.span(file, 2..4)?;
    /// builder.span(file, 8..10)?;
    /// builder.check_when_read(file, |_file, _progress| {
    ///     Err(Error::new(ErrorKind::ChecksumMismatch, "weights: another checksum"))
    /// });
    /// let spans = builder.finish()?;
    /// let mut part = [0; 2];
    /// spans.read_exact_at(0, &mut part)?;
    /// assert!(spans.read_exact_at(2, &mut part).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_when_read(
        &mut self,
        file: SourceId,
        check: impl Fn(&dyn ReadAt, &Progress) -> Result<()> + Send + Sync + 'static,
    ) {
        self.checks.set(file, Box::new(check));
    }

    /// Returns the size of a file in bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the file belongs to another message.
    pub fn file_size(&self, file: SourceId) -> Result<u64> {
        Ok(self.files.get(file)?.size())
    }

    /// Returns the current size of the message in bytes, not counting the length prefixes of fields
    /// that are still open.
    pub fn size(&self) -> u64 {
        self.list.size()
    }

    /// Returns a reader for a file, for deciding which ranges of the file to append.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if the file has changed; [`ErrorKind::Io`] if it can no longer
    /// be opened.
    pub fn handle(&self, file: SourceId) -> Result<Arc<dyn ReadAt>> {
        self.files.handle(file)
    }

    /// Appends literal bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the message exceeds
    /// [`MAX_SPANS_SIZE`](super::MAX_SPANS_SIZE).
    pub fn literal(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_size(bytes.len() as u64)?;
        self.list.push_literal(bytes);
        Ok(())
    }

    /// Appends a range of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the file lacks these bytes; [`ErrorKind::LimitExceeded`] if
    /// the message exceeds [`MAX_SPANS_SIZE`](super::MAX_SPANS_SIZE).
    pub fn span(&mut self, file: SourceId, range: Range<u64>) -> Result<()> {
        let origin = self.files.get(file)?;
        let Some(len) = range
            .end
            .checked_sub(range.start)
            .filter(|_| range.end <= origin.size())
        else {
            let message = format!(
                "{}: bytes {} to {} exceed the file, which has {} bytes",
                origin.name().display(),
                range.start,
                range.end,
                origin.size()
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        };
        self.check_size(len)?;
        self.list.push_span(file, range);
        Ok(())
    }

    /// Begins a length-delimited field: appends its tag, and reserves its length, which
    /// [`end_field`](Self::end_field) fills in.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the message exceeds
    /// [`MAX_SPANS_SIZE`](super::MAX_SPANS_SIZE).
    pub fn begin_field(&mut self, number: FieldNumber) -> Result<()> {
        let (bytes, len) = encode_varint(tag(number, WireType::Len));
        self.literal(&bytes[..len])?;
        self.begin_length();
        Ok(())
    }

    /// Begins a length-delimited field whose tag was already appended: reserves only its length.
    pub fn begin_length(&mut self) {
        self.list.begin_length();
    }

    /// Ends the most recently begun field. The field's value is everything appended since the field
    /// was begun.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if no field is open; [`ErrorKind::LimitExceeded`] if the
    /// message exceeds [`MAX_SPANS_SIZE`](super::MAX_SPANS_SIZE).
    pub fn end_field(&mut self) -> Result<()> {
        self.list.end_length()?;
        self.check_size(0)
    }

    /// Returns the current position, for [`rewind`](Self::rewind).
    ///
    /// ```
    /// use proto_splitter_core::spans::SpansBuilder;
    /// use proto_splitter_core::wire::FieldNumber;
    ///
    /// let mut builder = SpansBuilder::new();
    /// builder.literal(b"kept")?;
    /// let mark = builder.mark();
    /// builder.begin_field(FieldNumber(1))?;
    /// builder.literal(b"not kept")?;
    /// builder.rewind(mark);
    /// assert_eq!(builder.finish()?.total_size(), 4);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.list.mark()
    }

    /// Removes everything appended since the mark. Fields that were open at the mark must still be
    /// open. Added files are kept.
    pub fn rewind(&mut self, mark: Mark) {
        self.list.rewind(mark);
    }

    /// Returns the finished message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a field was begun but not ended.
    pub fn finish(self) -> Result<Spans> {
        let SpansBuilder {
            list,
            files,
            mut checks,
        } = self;
        let list = list.finish()?;
        checks.begin(&list);
        Ok(Spans {
            list,
            files,
            checks,
        })
    }

    /// Returns the file's path or name, as it appears in error messages.
    pub fn file_name(&self, file: SourceId) -> &Path {
        self.files.name(file)
    }

    /// Fails if appending `by` more bytes would make the message too large.
    fn check_size(&self, by: u64) -> Result<()> {
        check_size(self.list.size().saturating_add(by))
    }
}
