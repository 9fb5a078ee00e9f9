//! Putting a rope together, front to back.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record_file::ReadAt;

use super::checks::Checks;
use super::files::{Files, Origin};
use super::{DEFAULT_MAX_OPEN_FILES, MAX_ROPE_SIZE, Piece, Rope, RopeFileId};
use crate::progress::Progress;
use crate::wire::{FieldNumber, WireType, encode_varint, tag};
use crate::{Error, ErrorKind, Result};

/// Builds a [`Rope`]: pieces are added one behind the other.
///
/// A length-delimited field whose length is known only once all of it is there is begun with
/// [`begin_field`](Self::begin_field) and ended with [`end_field`](Self::end_field). Fields nest.
#[derive(Debug)]
pub struct RopeBuilder {
    pieces: Vec<Piece>,
    literals: Vec<u8>,
    files: Files,
    checks: Checks,
    /// The fields that were begun and not ended.
    open: Vec<OpenField>,
    /// Bytes so far, without the lengths of open fields.
    size: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenField {
    /// The piece that its length will be.
    length: usize,
    /// How large the rope was when its value began.
    value_start: u64,
}

/// A place in a rope that is being built, to go back to: see [`RopeBuilder::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pieces: usize,
    /// The last piece before it may grow later.
    last_extent: u64,
    literals: usize,
    open: usize,
    size: u64,
}

impl Default for RopeBuilder {
    fn default() -> Self {
        RopeBuilder::new()
    }
}

impl RopeBuilder {
    /// An empty rope.
    pub fn new() -> Self {
        RopeBuilder {
            pieces: Vec::new(),
            literals: Vec::new(),
            files: Files::new(DEFAULT_MAX_OPEN_FILES),
            checks: Checks::default(),
            open: Vec::new(),
            size: 0,
        }
    }

    /// How many files may be open at once; [`DEFAULT_MAX_OPEN_FILES`] by default.
    #[must_use]
    pub fn max_open_files(mut self, most: NonZeroUsize) -> Self {
        self.files.set_most_open(most.get());
        self
    }

    /// Adds a regular file to take spans of, by its path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if it can't be opened or isn't a regular file.
    pub fn open(&mut self, path: impl Into<PathBuf>) -> Result<RopeFileId> {
        let path = path.into();
        let opened = path.clone();
        self.open_with(path, move || {
            // Before it is opened: opening a pipe waits for its other end.
            if fs::metadata(&opened)?.is_file() {
                File::open(&opened)
            } else {
                Err(io::Error::other("not a regular file"))
            }
        })
    }

    /// Adds a regular file that `open` opens, as often as it is asked to: for files whose paths
    /// can't be trusted. `name` is what errors call it.
    ///
    /// A file that `open` gives later must be the one that it gave first, unchanged.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if it can't be opened or isn't a regular file.
    pub fn open_with(
        &mut self,
        name: impl Into<PathBuf>,
        open: impl Fn() -> io::Result<File> + Send + Sync + 'static,
    ) -> Result<RopeFileId> {
        let (origin, file) = Origin::file(name.into(), Box::new(open))?;
        self.files.add(origin, Some(file))
    }

    /// Adds something else to take spans of. Its bytes must not change.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if its size can't be told.
    pub fn reader(
        &mut self,
        name: impl Into<PathBuf>,
        reader: Arc<dyn ReadAt>,
    ) -> Result<RopeFileId> {
        let origin = Origin::reader(name.into(), reader)?;
        self.files.add(origin, None)
    }

    /// Sets what is compared once every span that the rope has of a file was read, in whatever order
    /// and by however many threads: such as a checksum of the whole file. `check` reads the file
    /// itself. If it fails, so does the read that was the last, and every read of the file from
    /// then on.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::rope::RopeBuilder;
    /// use proto_splitter_core::{Error, ErrorKind};
    /// use record_file::ReadAt;
    ///
    /// let mut builder = RopeBuilder::new();
    /// let file = builder.reader("weights", Arc::new(*b"0123456789"))?;
    /// builder.span(file, 2..4)?;
    /// builder.span(file, 8..10)?;
    /// builder.check_when_read(file, |_file, _progress| {
    ///     Err(Error::new(ErrorKind::ChecksumMismatch, "weights: another checksum"))
    /// });
    /// let rope = builder.finish()?;
    /// let mut part = [0; 2];
    /// rope.read_exact_at(0, &mut part)?;
    /// assert!(rope.read_exact_at(2, &mut part).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_when_read(
        &mut self,
        file: RopeFileId,
        check: impl Fn(&dyn ReadAt, &Progress) -> Result<()> + Send + Sync + 'static,
    ) {
        self.checks.set(file, Box::new(check));
    }

    /// How many bytes a file has.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the file is one of another rope.
    pub fn file_size(&self, file: RopeFileId) -> Result<u64> {
        Ok(self.files.get(file)?.size())
    }

    /// Bytes so far. The lengths of fields that aren't ended are not in it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What a file is read by, to plan what of it the rope is to have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if the file isn't what it was; [`ErrorKind::Io`] if it can't be
    /// opened any more.
    pub fn handle(&self, file: RopeFileId) -> Result<Arc<dyn ReadAt>> {
        self.files.handle(file)
    }

    /// Adds these bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the rope gets larger than [`MAX_ROPE_SIZE`].
    pub fn literal(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.literals.len() as u64;
        self.push(RopeFileId::LITERAL, at, bytes.len() as u64)?;
        self.literals.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds the bytes of `range` of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the file hasn't got these bytes;
    /// [`ErrorKind::LimitExceeded`] if the rope gets larger than [`MAX_ROPE_SIZE`].
    pub fn span(&mut self, file: RopeFileId, range: Range<u64>) -> Result<()> {
        let origin = self.files.get(file)?;
        let Some(len) = range
            .end
            .checked_sub(range.start)
            .filter(|_| range.end <= origin.size())
        else {
            let message = format!(
                "{}: bytes {} to {} of a file that has {}",
                origin.name().display(),
                range.start,
                range.end,
                origin.size()
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        };
        self.push(file, range.start, len)
    }

    /// Begins a length-delimited field: its tag, and a length that [`end_field`](Self::end_field)
    /// fills in.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the rope gets larger than [`MAX_ROPE_SIZE`].
    pub fn begin_field(&mut self, number: FieldNumber) -> Result<()> {
        let (bytes, len) = encode_varint(tag(number, WireType::Len));
        self.literal(&bytes[..len])?;
        self.begin_length();
        Ok(())
    }

    /// Begins a length alone, for a field whose tag was added before.
    pub fn begin_length(&mut self) {
        self.open.push(OpenField {
            length: self.pieces.len(),
            value_start: self.size,
        });
        self.pieces.push(Piece {
            extent: 0,
            at: 0,
            file: RopeFileId::LITERAL,
        });
    }

    /// Ends the field that was begun last: everything since is its value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if no field was begun; [`ErrorKind::LimitExceeded`] if the rope
    /// gets larger than [`MAX_ROPE_SIZE`].
    pub fn end_field(&mut self) -> Result<()> {
        let Some(field) = self.open.pop() else {
            let message = "a field is ended that was not begun";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        let (bytes, len) = encode_varint(self.size - field.value_start);
        let at = self.literals.len() as u64;
        self.literals.extend_from_slice(&bytes[..len]);
        self.size = grown(self.size, len as u64)?;
        if let Some(piece) = self.pieces.get_mut(field.length) {
            (piece.at, piece.extent) = (at, len as u64);
        }
        Ok(())
    }

    /// Where the rope is now, to [`rewind`](Self::rewind) to.
    ///
    /// ```
    /// use proto_splitter_core::rope::RopeBuilder;
    /// use proto_splitter_core::wire::FieldNumber;
    ///
    /// let mut builder = RopeBuilder::new();
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
        Mark {
            pieces: self.pieces.len(),
            last_extent: self.pieces.last().map_or(0, |piece| piece.extent),
            literals: self.literals.len(),
            open: self.open.len(),
            size: self.size,
        }
    }

    /// Takes back everything that was added since the mark. Fields that were open then must not
    /// have been ended since; the files stay.
    pub fn rewind(&mut self, mark: Mark) {
        self.pieces.truncate(mark.pieces);
        if let Some(last) = self.pieces.last_mut() {
            last.extent = mark.last_extent;
        }
        self.literals.truncate(mark.literals);
        self.open.truncate(mark.open);
        self.size = mark.size;
    }

    /// The rope.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a field was begun and not ended.
    pub fn finish(self) -> Result<Rope> {
        let RopeBuilder {
            mut pieces,
            literals,
            files,
            mut checks,
            open,
            size,
        } = self;
        if !open.is_empty() {
            let message = "a field was begun and not ended";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        checks.begin(pieces.iter().map(|piece| (*piece, piece.extent)));
        // Lengths were filled in behind what was there by then: literals that follow on each other
        // stand together from now on, and are one piece.
        let mut ordered = Vec::with_capacity(literals.len());
        let (mut offset, mut after_literal) = (0u64, false);
        pieces.retain_mut(|piece| {
            let len = std::mem::replace(&mut piece.extent, offset);
            // What was added was within the limit.
            offset = offset.saturating_add(len);
            let is_literal = piece.file == RopeFileId::LITERAL;
            let follows = std::mem::replace(&mut after_literal, is_literal) && is_literal;
            if is_literal {
                let at = std::mem::replace(&mut piece.at, ordered.len() as u64);
                let bytes = usize::try_from(at).ok().zip(usize::try_from(len).ok());
                let bytes = bytes.and_then(|(at, len)| literals.get(at..)?.get(..len));
                ordered.extend_from_slice(bytes.unwrap_or_default());
            }
            !follows
        });
        let literals = ordered;
        pieces.shrink_to_fit();
        Ok(Rope {
            pieces,
            literals,
            size,
            files,
            checks,
        })
    }

    /// The file's path or name, as errors call it.
    pub fn file_name(&self, file: RopeFileId) -> &Path {
        self.files.name(file)
    }

    fn push(&mut self, file: RopeFileId, at: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.size = grown(self.size, len)?;
        // The length of an open field isn't there yet, and gets a place elsewhere.
        let after_length = self
            .open
            .last()
            .is_some_and(|field| field.length + 1 == self.pieces.len());
        match self.pieces.last_mut() {
            Some(last)
                if !after_length
                    && last.file == file
                    && last.at.checked_add(last.extent) == Some(at) =>
            {
                last.extent += len;
            }
            _ => self.pieces.push(Piece {
                extent: len,
                at,
                file,
            }),
        }
        Ok(())
    }
}

fn grown(size: u64, by: u64) -> Result<u64> {
    size.checked_add(by)
        .filter(|size| *size <= MAX_ROPE_SIZE)
        .ok_or_else(|| {
            let message = format!("{size} and {by} bytes are more than a message can have");
            Error::new(ErrorKind::LimitExceeded, message)
        })
}
