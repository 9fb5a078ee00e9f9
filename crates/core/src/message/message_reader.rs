//! A message for random access, however it is stored.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use record_file::ReadAt;

use crate::error::ChunkIndex;
use crate::io::atomic_file::writer_at;
use crate::io::{WRITE_LEN, threads};
use crate::merge::FilePlace;
use crate::message::ChunkedFile;
use crate::message::MergedMessage;
use crate::progress::Meter;
use crate::spans::{copy_range, read_pieces};
use crate::{Error, ErrorKind, Result};

/// Size of the parts into which a range is divided for copying if the message is in one piece: 32
/// MiB. Several threads can thus copy one large value.
const PIECE_LEN: u64 = 32 << 20;

/// Number of bytes to write between two calls of `leave_out` if the message is in one piece: 64
/// KiB.
const STEP: u64 = 64 << 10;

/// The bytes of a message, for random access. The message is in one piece, or in the chunks of a
/// file. Chunks are merged while they are read, as [`MergedMessage`] describes.
///
/// Clones share the data that was read.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::MessageReader;
/// use record_file::ReadAt;
///
/// let message = MessageReader::new(Arc::new(b"\x0a\x04name".to_vec()), 6);
/// let mut name = [0; 4];
/// message.read_exact_at(2, &mut name)?;
/// assert_eq!((&name, message.total_size()), (b"name", 6));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct MessageReader {
    bytes: Arc<dyn ReadAt>,
    size: u64,
    /// The merged message that provides the bytes; `None` if the message is in one piece.
    merged: Option<Arc<MergedMessage<Arc<dyn ReadAt>>>>,
}

impl std::fmt::Debug for MessageReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageReader")
            .field("size", &self.size)
            .field("merged", &self.merged)
            .finish_non_exhaustive()
    }
}

impl From<MergedMessage<Arc<dyn ReadAt>>> for MessageReader {
    fn from(merged: MergedMessage<Arc<dyn ReadAt>>) -> Self {
        let merged = Arc::new(merged);
        MessageReader {
            size: merged.total_size(),
            bytes: Arc::clone(&merged) as Arc<dyn ReadAt>,
            merged: Some(merged),
        }
    }
}

impl From<MessageReader> for Arc<dyn ReadAt> {
    /// Returns the message as a source that ends at the end of the message.
    fn from(reader: MessageReader) -> Self {
        match reader.bytes.size() {
            Ok(size) if size == reader.size => reader.bytes,
            _ => Arc::new(reader),
        }
    }
}

impl MessageReader {
    /// Creates a reader for the message in the first `size` bytes of a source.
    pub fn new(bytes: Arc<dyn ReadAt>, size: u64) -> MessageReader {
        MessageReader {
            bytes,
            size,
            merged: None,
        }
    }

    /// Opens the message in a chunked file. `descriptor` is the type of the message, if known.
    ///
    /// # Errors
    ///
    /// The errors of [`MergedMessage::new`].
    pub fn of_chunks(
        file: impl Into<Arc<ChunkedFile<Arc<dyn ReadAt>>>>,
        descriptor: impl Into<Option<MessageDescriptor>>,
    ) -> Result<MessageReader> {
        MergedMessage::new(file, descriptor).map(MessageReader::from)
    }

    /// Returns the size of the message in bytes.
    pub fn total_size(&self) -> u64 {
        self.size
    }

    /// Returns the chunked file that the message is merged from; `None` if the message is in one
    /// piece.
    pub fn chunked_file(&self) -> Option<&ChunkedFile<Arc<dyn ReadAt>>> {
        self.merged().map(MergedMessage::file)
    }

    /// Returns the merged message that provides the bytes; `None` if the message is in one piece.
    pub(crate) fn merged(&self) -> Option<&MergedMessage<Arc<dyn ReadAt>>> {
        self.merged.as_deref()
    }

    /// Returns the chunks that a range of the message consists of; `None` if the range doesn't
    /// consist only of whole chunks, or the message is in one piece.
    pub fn whole_chunks(&self, range: &Range<u64>) -> Option<Vec<ChunkIndex>> {
        self.merged()?.whole_chunks(range)
    }

    /// Writes a range of the message to `sink`. Streams each chunk, verifies all its checksums, and
    /// keeps nothing in memory.
    pub(crate) fn stream_range(&self, range: Range<u64>, sink: &mut dyn Write) -> Result<()> {
        match &self.merged {
            Some(merged) => merged.stream_range(range, sink),
            None => copy_range(&*self.bytes, range, sink),
        }
    }

    /// Copies parts of the message to places in files, on `threads` threads; `None` means the
    /// number of cores.
    ///
    /// Each needed chunk is streamed once, directly to its destinations; all its checksums are
    /// verified, and the chunk isn't kept in memory. Don't use the copied bytes unless this
    /// succeeds.
    ///
    /// # Errors
    ///
    /// If the message can't be read, or a file can't be written; [`ErrorKind::InvalidConfig`] if a
    /// part exceeds the message; [`ErrorKind::Cancelled`].
    pub fn copy_to_files(
        &self,
        places: &[FilePlace<'_>],
        threads: Option<NonZeroUsize>,
        meter: &Meter,
    ) -> Result<()> {
        if let Some(merged) = &self.merged {
            return merged.copy_to_files(places, threads, meter);
        }
        for place in places {
            self.check_range(place.range.start.get()..place.range.end.get())?;
        }
        let pieces: Vec<_> = places.iter().flat_map(pieces).collect();
        let threads = threads::count(threads);
        let buffer = || vec![0; WRITE_LEN];
        threads::map_with(threads, pieces.len(), buffer, |at, buffer| {
            let (range, place, offset) = &pieces[at];
            let mut sink = writer_at(place.file, *offset);
            read_pieces(&*self.bytes, range.clone(), buffer, |_, bytes| {
                sink.write_all(bytes)?;
                meter.advance(bytes.len() as u64)
            })
        })
        .map(drop)
    }

    /// Writes the message to `sink` in order, except for the parts that `leave_out` skips. Copy
    /// these parts with [`copy_to_files`](Self::copy_to_files).
    ///
    /// `leave_out` is called with a range of the message that begins at the next byte: a whole
    /// chunk, or, for a message in one piece, the remainder of the message. The closure returns the
    /// number of bytes to skip at the start of the range, which may be 0.
    ///
    /// Each written chunk is streamed, all its checksums are verified, and the chunk isn't kept in
    /// memory. This way, code that takes a message apart can parse the small parts, and copy the
    /// large parts on several threads.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::MessageReader;
    ///
    /// let message = MessageReader::new(Arc::new(b"\x0a\x04name\x10\x01".to_vec()), 8);
    /// let mut sink = Vec::new();
    /// message.write_around(&mut sink, &mut |sink, range| {
    ///     // The name, after its tag and its length.
    ///     Ok(if sink.is_empty() && range.start == 0 { 6 } else { 0 })
    /// })?;
    /// assert_eq!(sink, b"\x10\x01");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the message can't be read, or the sink or `leave_out` fails.
    pub fn write_around<W: Write + ?Sized>(
        &self,
        sink: &mut W,
        leave_out: &mut dyn FnMut(&mut W, Range<u64>) -> Result<u64>,
    ) -> Result<()> {
        if let Some(merged) = &self.merged {
            return merged.write_around(sink, leave_out);
        }
        let (mut at, mut buffer) = (0, Vec::new());
        while at < self.size {
            let left = self.size - at;
            let taken = leave_out(sink, at..self.size)?.min(left);
            if taken > 0 {
                at += taken;
                continue;
            }
            let end = at + left.min(STEP);
            read_pieces(&*self.bytes, at..end, &mut buffer, |_, bytes| {
                Ok(sink.write_all(bytes)?)
            })?;
            at = end;
        }
        Ok(())
    }

    fn check_range(&self, range: Range<u64>) -> Result<()> {
        if range.end <= self.size {
            return Ok(());
        }
        let message = format!(
            "the range ends at {}, but the message has only {} bytes",
            range.end, self.size
        );
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }
}

impl ReadAt for MessageReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        self.bytes.read_at(offset, &mut buf[..len])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.bytes
            .as_slice()?
            .get(..usize::try_from(self.size).ok()?)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.bytes.prefetch(ranges);
    }

    fn extent(&self, offset: u64) -> Option<Range<u64>> {
        self.bytes.extent(offset)
    }

    fn is_prefetched(&self) -> bool {
        self.bytes.is_prefetched()
    }
}

/// Divides the range of a [`FilePlace`] into pieces. Returns, for each piece, its range in the
/// message, the place, and the piece's offset in the place's file.
fn pieces<'p, 'f>(
    place: &'p FilePlace<'f>,
) -> impl Iterator<Item = (Range<u64>, &'p FilePlace<'f>, u64)> {
    let (start, end) = (place.range.start.get(), place.range.end.get());
    let count = end.saturating_sub(start).div_ceil(PIECE_LEN);
    (0..count).map(move |index| {
        let skip = index * PIECE_LEN;
        let from = start + skip;
        (from..end.min(from + PIECE_LEN), place, place.offset + skip)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::error::MessageOffset;
    use crate::progress::Progress;

    fn place(file: &File, range: Range<u64>, offset: u64) -> FilePlace<'_> {
        FilePlace {
            range: MessageOffset::range(&range),
            file,
            offset,
        }
    }

    #[test]
    fn parts_of_a_message_in_one_piece_come_to_their_places() {
        let size = 3 * STEP;
        let bytes: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
        // The source continues after the message.
        let source = [&bytes[..], b"more"].concat();
        let message = MessageReader::new(Arc::new(source), size);
        let file = tempfile::tempfile().unwrap();
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        let taken = STEP + 1;
        message
            .write_around(&mut kept, &mut |kept, range| {
                assert_eq!(range.end, size);
                if kept.is_empty() || range.start > STEP {
                    return Ok(0);
                }
                left.push(range.start..range.start + taken);
                Ok(taken)
            })
            .unwrap();
        let [left] = &left[..] else {
            panic!("{left:?} were left out");
        };
        let meter = Progress::none().meter(taken);
        let places = [place(&file, left.clone(), left.start + 7)];
        message.copy_to_files(&places, None, &meter).unwrap();
        let mut copied = vec![0; usize::try_from(taken).unwrap()];
        file.read_exact_at(left.start + 7, &mut copied).unwrap();
        let at = usize::try_from(left.start).unwrap();
        kept.splice(at..at, copied);
        assert!(kept == bytes);
    }

    #[test]
    fn a_message_before_other_bytes_is_a_source_without_them() {
        let message = MessageReader::new(Arc::new(b"\x08\x01more".to_vec()), 2);
        let source: Arc<dyn ReadAt> = message.into();
        let mut buffer = [0; 6];
        assert_eq!(source.read_at(0, &mut buffer).unwrap(), 2);
        assert_eq!(
            (source.size().unwrap(), &buffer[..2]),
            (2, &b"\x08\x01"[..])
        );
    }

    #[test]
    fn a_part_that_exceeds_the_message_is_refused_before_anything_is_written() {
        let message = MessageReader::new(Arc::new(b"\x08\x01more".to_vec()), 2);
        let file = tempfile::tempfile().unwrap();
        let places = [place(&file, 0..2, 0), place(&file, 1..3, 2)];
        let copied = message.copy_to_files(&places, None, &Progress::none().meter(4));
        let error = copied.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert_eq!(
            error.to_string(),
            "the range ends at 3, but the message has only 2 bytes"
        );
        assert_eq!(file.metadata().unwrap().len(), 0);
        let mut buffer = [0; 3];
        assert_eq!(message.read_at(0, &mut buffer).unwrap(), 2);
    }
}
