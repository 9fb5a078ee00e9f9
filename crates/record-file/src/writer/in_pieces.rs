//! Writing a record whose bytes arrive in pieces.
use std::io::{Seek, Write};

use super::RecordWriter;
use super::sink::{BlockSink, Frame};
use super::streamed::{end_of, plain_header};
use crate::chunk::ChunkHeader;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Hasher;
use crate::position::RecordPosition;

/// An uncompressed record of known length that is being written.
#[derive(Debug)]
pub(super) struct Plain {
    begin: u64,
    end: u64,
    header: ChunkHeader,
    hasher: Hasher,
    left: u64,
}

impl Plain {
    fn frame(&self) -> Frame {
        let (begin, end) = (self.begin, self.end);
        Frame::Known { begin, end }
    }
}

/// Methods that write an uncompressed record of known length. All other lengths and the block
/// headers are thus known in advance, but the hash isn't known until the end.
impl<W: Write + Seek> RecordWriter<W> {
    pub(super) fn begin_plain(&mut self, len: u64) -> Result<Plain> {
        let (header, front) = plain_header(&mut self.encoder.codecs, len)?;
        let begin = self.sink.pos();
        let end = end_of(&header, begin)?;
        let mut hasher = Hasher::new();
        hasher.update(&front);
        self.emit(Frame::Known { begin, end }, &[&header.encode(), &front])?;
        Ok(Plain {
            begin,
            end,
            header,
            hasher,
            left: len,
        })
    }

    pub(super) fn push_plain(&mut self, record: &mut Plain, piece: &[u8]) -> Result<()> {
        let left = record.left.checked_sub(piece.len() as u64);
        // The length is checked before writing, since no block header may be after the end.
        record.left = left.ok_or_else(|| {
            let (len, left) = (piece.len(), record.left);
            let message = format!("a piece has {len} bytes, but the record has only {left} left");
            Error::plain(ErrorKind::InvalidConfig, message)
        })?;
        record.hasher.update(piece);
        self.emit(record.frame(), &[piece])
    }

    pub(super) fn end_plain(&mut self, record: Plain) -> Result<()> {
        if record.left > 0 {
            let message = format!("a record ended {} bytes early", record.left);
            return Err(Error::plain(ErrorKind::SourceEnded, message));
        }
        let frame = record.frame();
        let mut header = record.header;
        self.sink
            .pad(frame, record.end)
            .map_err(|error| self.io(error))?;
        header.data_hash = record.hasher.finish();
        self.last_data_size = header.data_size;
        BlockSink::patch(&mut self.sink, record.begin, &header, frame)
            .map_err(|error| self.io(error))
    }
}

/// A writer that is writing an uncompressed record, whose bytes are pushed as they arrive.
///
/// Dropping this writer leaves an incomplete record, which [`RecordWriter::starting_at`] can
/// overwrite.
///
/// # Examples
///
/// ```
/// use std::io::Cursor;
///
/// use record_file::{ReaderOptions, RecordFile, RecordWriter};
///
/// let writer = RecordWriter::with_defaults(Cursor::new(Vec::new()));
/// let mut record = writer.begin_record(10)?;
/// record.push(b"hello ")?;
/// record.push(b"you!")?;
/// let (writer, position) = record.finish()?;
///
/// let file = RecordFile::open(writer.finish()?.into_inner(), ReaderOptions::new())?;
/// assert_eq!(file.read_record(position)?, &b"hello you!"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RecordInPieces<W: Write> {
    writer: RecordWriter<W>,
    record: Plain,
}

impl<W: Write + Seek> RecordWriter<W> {
    /// Begins an uncompressed record of `len` bytes, in its own chunk. The writer can't be used for
    /// anything else until the record is finished.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if writing fails; [`LimitExceeded`](ErrorKind::LimitExceeded) if the
    /// record is longer than a file can be.
    pub fn begin_record(mut self, len: u64) -> Result<RecordInPieces<W>> {
        let record = self.attempt(|writer| {
            writer.close_chunk()?;
            writer.settle()?;
            writer.begin_plain(len)
        })?;
        Ok(RecordInPieces {
            writer: self,
            record,
        })
    }
}

impl<W: Write + Seek> RecordInPieces<W> {
    /// Writes the next bytes of the record.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) if `piece` has more bytes than remain of the
    /// record; [`Io`](ErrorKind::Io) if writing fails.
    pub fn push(&mut self, piece: &[u8]) -> Result<()> {
        let record = &mut self.record;
        self.writer
            .attempt(|writer| writer.push_plain(record, piece))
    }

    /// Ends the record, and returns the writer and the record's position.
    ///
    /// # Errors
    ///
    /// [`SourceEnded`](ErrorKind::SourceEnded) if bytes of the record are missing;
    /// [`Io`](ErrorKind::Io) if writing fails.
    pub fn finish(mut self) -> Result<(RecordWriter<W>, RecordPosition)> {
        let (begin, record) = (self.record.begin, self.record);
        self.writer.attempt(|writer| writer.end_plain(record))?;
        let position = self.writer.wrote_alone(begin);
        Ok((self.writer, position))
    }
}
