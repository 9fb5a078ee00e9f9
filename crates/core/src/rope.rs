//! One message out of many files: spans of files and literals, one behind the other.
//!
//! A model is often several files that belong together: a graph here, its weights there. A
//! [`Rope`] is the one message that nobody ever wrote: it is read by position like a file, but its
//! bytes stay where they are. Nothing is copied, and a piece takes about 24 bytes of memory,
//! whatever its length.
//!
//! ```text
//! the rope   | literal | span of model.onnx | literal | span of model.data     | span of model.onnx |
//!            0         2                    75        82                 2000082              2000107
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//! use proto_splitter_core::prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
//! use proto_splitter_core::rope::RopeBuilder;
//! use proto_splitter_core::split::Source;
//! use proto_splitter_core::wire::FieldNumber;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("weights");
//! std::fs::write(&path, b"..the name..")?;
//!
//! // Field 1 is 8 bytes of the file; the message in field 4 has a field 1 of its own.
//! let mut builder = RopeBuilder::new();
//! let weights = builder.open(&path)?;
//! builder.begin_field(FieldNumber(1))?;
//! builder.span(weights, 2..10)?;
//! builder.end_field()?;
//! builder.begin_field(FieldNumber(4))?;
//! builder.begin_field(FieldNumber(1))?;
//! builder.literal(b"Inner")?;
//! builder.end_field()?;
//! builder.end_field()?;
//! let rope = Arc::new(builder.finish()?);
//!
//! let view = MessageView::of_plain(&*rope, ReadOptions::new())?;
//! let file: FileDescriptorProto = view.message(&"".parse()?)?;
//! assert_eq!((file.name(), file.message_type[0].name()), ("the name", "Inner"));
//!
//! let source = Source::from_rope(rope, file.descriptor());
//! assert_eq!(source.size(), 2 + 8 + 2 + 2 + 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod checks;
mod files;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use record_file::ReadAt;

pub use builder::{Mark, RopeBuilder};
use checks::Checks;
use files::{FileReader, Files};

use crate::progress::Progress;
use crate::{Error, ErrorKind, Result};

/// The most files that a rope keeps open at once, unless its builder says otherwise.
pub const DEFAULT_MAX_OPEN_FILES: usize = 64;

/// The most bytes a rope may have: 2^63 - 1, what a file can have.
pub const MAX_ROPE_SIZE: u64 = i64::MAX.cast_unsigned();

/// One of the files that a rope takes spans of: see [`RopeBuilder::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RopeFileId(u32);

impl RopeFileId {
    /// What stands in its place in pieces that are literals.
    const LITERAL: RopeFileId = RopeFileId(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A run of bytes of a rope.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// While the rope is built, how long it is; then, where in the rope it begins.
    extent: u64,
    /// Where its bytes begin, in the file or among the literals.
    at: u64,
    file: RopeFileId,
}

/// Where a piece of a rope comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RopeSpan<'a> {
    /// These bytes, which are in no file.
    Literal(&'a [u8]),
    /// A span of a file, which begins at this offset there.
    File(RopeFileId, u64),
}

/// Spans of files and literals that together are one message, read by position.
///
/// The files are opened when they are read, a bounded number of them at once, and each is compared
/// with what it was when the rope was built: a file that was changed or replaced meanwhile is an
/// error ([`ErrorKind::SourceChanged`]), never other bytes.
#[derive(Debug)]
pub struct Rope {
    pieces: Vec<Piece>,
    literals: Vec<u8>,
    size: u64,
    files: Files,
    checks: Checks,
}

impl Rope {
    /// Bytes in all.
    pub fn total_size(&self) -> u64 {
        self.size
    }

    /// How many pieces it has.
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// The paths, or names, of the files it takes spans of, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.names()
    }

    /// The path, or name, of one file.
    pub fn file(&self, id: RopeFileId) -> &Path {
        self.files.name(id)
    }

    /// How many bytes a file has. The rope may use only some of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the file is one of another rope.
    pub fn file_size(&self, file: RopeFileId) -> Result<u64> {
        Ok(self.files.get(file)?.size())
    }

    /// Fills `buf` from `at` in a file, whether or not these bytes are in the rope.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if the file hasn't got these bytes or isn't what it was;
    /// [`ErrorKind::Io`] if reading fails.
    pub fn read_file(&self, file: RopeFileId, at: u64, buf: &mut [u8]) -> Result<()> {
        self.files.read(file, at, buf)
    }

    /// The piece that the byte at `offset` is in: where the byte comes from, and how many bytes
    /// follow it in the same piece, itself included. `None` from the end on.
    ///
    /// ```
    /// use proto_splitter_core::rope::{RopeBuilder, RopeSpan};
    ///
    /// let mut builder = RopeBuilder::new();
    /// let file = builder.reader("weights", std::sync::Arc::new(*b"0123456789"))?;
    /// builder.literal(b"ab")?;
    /// builder.span(file, 4..9)?;
    /// let rope = builder.finish()?;
    /// assert_eq!(rope.locate(1), Some((RopeSpan::Literal(b"b"), 1)));
    /// assert_eq!(rope.locate(3), Some((RopeSpan::File(file, 5), 4)));
    /// assert_eq!(rope.locate(7), None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn locate(&self, offset: u64) -> Option<(RopeSpan<'_>, u64)> {
        let index = self.index_of(offset)?;
        let piece = self.pieces.get(index)?;
        let skip = offset - piece.extent;
        let left = self.end_of(index) - offset;
        let span = match piece.file {
            RopeFileId::LITERAL => RopeSpan::Literal(self.literal(piece.at + skip, left)),
            file => RopeSpan::File(file, piece.at + skip),
        };
        Some((span, left))
    }

    /// Fails unless every file is still what it was when the rope was built.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] with the file that was changed or replaced; [`ErrorKind::Io`]
    /// if a file can't be opened any more.
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.check_unchanged()
    }

    /// Makes the checks that were set with [`RopeBuilder::check_when_read`] now, and returns how
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

    /// The piece that the byte at `offset` is in.
    fn index_of(&self, offset: u64) -> Option<usize> {
        if offset >= self.size {
            return None;
        }
        self.pieces
            .partition_point(|piece| piece.extent <= offset)
            .checked_sub(1)
    }

    fn end_of(&self, index: usize) -> u64 {
        self.pieces
            .get(index + 1)
            .map_or(self.size, |next| next.extent)
    }

    fn literal(&self, at: u64, len: u64) -> &[u8] {
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        self.literals
            .get(index(at)..index(at.saturating_add(len)))
            .unwrap_or_default()
    }

    /// Fills `buf`, which lies within the piece.
    fn read_piece(&self, piece: &Piece, skip: u64, buf: &mut [u8]) -> Result<()> {
        let at = piece.at + skip;
        if piece.file == RopeFileId::LITERAL {
            let bytes = self.literal(at, buf.len() as u64);
            if bytes.len() != buf.len() {
                let message = "a rope's literal ends early";
                return Err(Error::new(ErrorKind::SourceChanged, message));
            }
            buf.copy_from_slice(bytes);
            return Ok(());
        }
        self.files.read(piece.file, at, buf)?;
        match self.checks.get(piece.file) {
            Some(check) => {
                let range = at..at.saturating_add(buf.len() as u64);
                check.was_read(range, &FileReader::new(&self.files, piece.file))
            }
            None => Ok(()),
        }
    }
}

impl ReadAt for Rope {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some(mut index) = self.index_of(offset) else {
            return Ok(0);
        };
        let (mut filled, mut at) = (0, offset);
        while let (Some(piece), true) = (self.pieces.get(index), filled < buf.len()) {
            let left = usize::try_from(self.end_of(index) - at).unwrap_or(usize::MAX);
            let len = left.min(buf.len() - filled);
            let part = &mut buf[filled..filled + len];
            self.read_piece(piece, at - piece.extent, part)?;
            filled += len;
            at += len as u64;
            index += 1;
        }
        Ok(filled)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
