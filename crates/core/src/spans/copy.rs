//! Reading and copying ranges of random-access sources.

use std::io::Write;
use std::ops::Range;

use record_file::ReadAt;

use crate::progress::Progress;
use crate::{Error, Result};

/// Number of bytes to read at a time: few enough to stay in the CPU cache until they are used.
pub(crate) const COPY_LEN: usize = 256 << 10;

/// Reads a range of a source in pieces, and passes each piece to `take` with its offset.
///
/// Pieces are as long as `buffer`, which is grown to 256 KiB if it is shorter.
///
/// ```
/// use proto_splitter_core::spans::read_pieces;
///
/// let mut sum = 0u64;
/// read_pieces(&b"..range..", 2..7, &mut Vec::new(), |_, bytes| {
///     sum += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///     Ok(())
/// })?;
/// assert_eq!(sum, 525);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io) with the offset if reading fails or the source ends
/// before the range does; any error from `take`.
pub fn read_pieces<S: ReadAt + ?Sized>(
    source: &S,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let left = |at: u64| usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX);
    let least = left(range.start).min(COPY_LEN);
    if buffer.len() < least {
        buffer.resize(least, 0);
    }
    let mut at = range.start;
    while at < range.end {
        let len = left(at).min(buffer.len());
        let piece = &mut buffer[..len];
        let read = source.read_exact_at(at, piece);
        read.map_err(|error| Error::from(error).at_offset(at))?;
        take(at, piece)?;
        at += len as u64;
    }
    Ok(())
}

/// Writes a range of a source to `sink` in pieces.
///
/// ```
/// let mut sink = Vec::new();
/// proto_splitter_core::spans::copy_range(&b"..range..", 2..7, &mut sink)?;
/// assert_eq!(sink, b"range");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// The same errors as [`read_pieces`]; any error from `sink`.
pub fn copy_range<S: ReadAt + ?Sized, W: Write + ?Sized>(
    source: &S,
    range: Range<u64>,
    sink: &mut W,
) -> Result<()> {
    read_pieces(source, range, &mut Vec::new(), |_, piece| {
        Ok(sink.write_all(piece)?)
    })
}

/// Returns the crc32c of a range of a source. Reads the range in pieces, as [`read_pieces`] does,
/// and passes the length of each piece to `read`.
///
/// ```
/// use proto_splitter_core::spans::crc_of_range;
///
/// let crc = crc_of_range(&b"..range..", 2..7, &mut Vec::new(), |_| Ok(()))?;
/// assert_eq!(crc, crc32c::crc32c(b"range"));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// The same errors as [`read_pieces`]; any error from `read`.
pub fn crc_of_range<S: ReadAt + ?Sized>(
    source: &S,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
    mut read: impl FnMut(u64) -> Result<()>,
) -> Result<u32> {
    let mut crc = 0;
    read_pieces(source, range, buffer, |_, piece| {
        crc = crc32c::crc32c_append(crc, piece);
        read(piece.len() as u64)
    })?;
    Ok(crc)
}

/// Returns the first bytes of a source: `most` of them, or all if the source is shorter.
///
/// ```
/// assert_eq!(proto_splitter_core::spans::first_bytes(b"bytes", 2)?, b"by");
/// assert_eq!(proto_splitter_core::spans::first_bytes(b"bytes", 9)?, b"bytes");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if reading fails.
pub fn first_bytes<S: ReadAt + ?Sized>(source: &S, most: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(source.size()?.min(most)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    source.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Reads a source to its end and discards the bytes. A source that verifies the bytes it returns
/// thus verifies all its bytes. Returns the source's size in bytes.
///
/// ```
/// use proto_splitter_core::progress::Progress;
///
/// let size = proto_splitter_core::spans::read_through(&b"bytes", &Progress::default())?;
/// assert_eq!(size, 5);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// The same errors as [`read_pieces`]; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the
/// operation was cancelled.
pub fn read_through<S: ReadAt + ?Sized>(source: &S, progress: &Progress) -> Result<u64> {
    let size = source.size()?;
    let meter = progress.meter(size);
    read_pieces(source, 0..size, &mut Vec::new(), |_, piece| {
        meter.advance(piece.len() as u64)
    })?;
    Ok(size)
}
