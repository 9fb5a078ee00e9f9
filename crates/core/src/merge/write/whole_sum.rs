//! The checksum of a whole message that is read in parts.

use std::io::{self, Write};
use std::ops::Range;

use crate::container::Trailer;
use crate::io::CrcOfPieces;
use crate::{Error, ErrorKind, Result};

/// The crc32c of a message that is read in parts. The read that completes the message compares the
/// crc32c with the one that the trailer stores. Any thread may read any part, in any order.
#[derive(Debug)]
pub(crate) struct WholeSum {
    expected: u32,
    read: CrcOfPieces,
}

impl WholeSum {
    /// Creates the checksum of a message of `size` bytes. Returns `None` if the trailer stores no
    /// checksum for the merged message.
    pub(crate) fn of(trailer: &Trailer, size: u64) -> Option<WholeSum> {
        Some(WholeSum {
            expected: trailer.merged_crc32c()?,
            read: CrcOfPieces::new(size),
        })
    }

    /// Adds bytes of the message that were read at the offset `at`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`](crate::ErrorKind::ChecksumMismatch) if these were the last
    /// missing bytes, and the message differs from the original message.
    pub(crate) fn add(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.compare(self.read.add(at, bytes))
    }

    /// Adds a range of the message that was read, given its crc32c.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub(crate) fn add_summed(&self, range: Range<u64>, crc32c: u32) -> Result<()> {
        self.compare(self.read.add_summed(range, crc32c))
    }

    fn compare(&self, whole: Option<u32>) -> Result<()> {
        match whole {
            Some(found) if found != self.expected => Err(other_message(found, self.expected)),
            _ => Ok(()),
        }
    }
}

/// Returns the error for a merged message whose crc32c differs from the stored one.
#[cold]
pub(super) fn other_message(found: u32, expected: u32) -> Error {
    let message =
        format!("the merged message has crc32c {found:08x}, but the original had {expected:08x}");
    Error::new(ErrorKind::ChecksumMismatch, message)
}

/// A writer that forwards bytes to `sink`, and adds them to the checksum of the message.
pub(super) struct Passing<'a, W: ?Sized> {
    pub(super) sink: &'a mut W,
    pub(super) sum: Option<&'a WholeSum>,
    /// Offset of the next byte in the message.
    pub(super) at: u64,
}

impl<W: Write + ?Sized> Write for Passing<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        if let (Some(sum), Some(passed)) = (self.sum, bytes.get(..written)) {
            sum.add(self.at, passed)?;
        }
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
