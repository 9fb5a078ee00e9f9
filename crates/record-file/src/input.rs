//! The inputs of a reader: sources with positioned reads, and plain streams that only move forward.
use std::io::{self, IoSliceMut, Read};

use crate::codec::TRUSTED_SIZE;
use crate::error::{Error, Result};
use crate::read_at::{ReadAt, read_full_at, read_full_vectored_at};

/// An input for a [`RecordReader`](crate::RecordReader). Every [`ReadAt`] is an input, and so is
/// [`Sequential`].
///
/// This trait is sealed.
pub trait RecordInput: sealed::Sealed {
    /// Reads until `buf` is full or the input ends, and returns the number of bytes read.
    #[doc(hidden)]
    fn read_full(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Fills several buffers, one after another, like `read_full`.
    #[doc(hidden)]
    fn read_full_vectored(
        &mut self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let mut filled = 0;
        for buf in bufs {
            let got = self.read_full(offset + filled as u64, buf)?;
            filled += got;
            if got < buf.len() {
                break;
            }
        }
        Ok(filled)
    }

    /// Returns true if reading into several buffers is faster than reading into one buffer and
    /// copying.
    #[doc(hidden)]
    fn is_vectored(&self) -> bool {
        false
    }

    /// Returns all bytes of the input if they are in memory, otherwise `None`.
    #[doc(hidden)]
    fn as_slice(&self) -> Option<&[u8]>;

    /// Returns true if bytes that were already read can be read again.
    #[doc(hidden)]
    fn goes_back(&self) -> bool;

    /// Returns the size of the input, in bytes, or `None` if the size isn't known without reading.
    #[doc(hidden)]
    fn size(&self) -> io::Result<Option<u64>>;
}

/// Reserves memory for `size` bytes to be read, or for at most [`TRUSTED_SIZE`] bytes if the input
/// is a stream, which can't confirm that the bytes exist.
pub(crate) fn reserve_trusted<I: RecordInput + ?Sized>(
    out: &mut Vec<u8>,
    size: u64,
    input: &I,
) -> Result<()> {
    let trusted = if input.goes_back() {
        size
    } else {
        size.min(TRUSTED_SIZE)
    };
    usize::try_from(trusted)
        .ok()
        .and_then(|trusted| out.try_reserve(trusted).ok())
        .ok_or_else(|| Error::no_room_for(trusted))
}

mod sealed {
    pub trait Sealed {}
    impl<S: super::ReadAt> Sealed for S {}
    impl<R: std::io::Read> Sealed for super::Sequential<R> {}
}

impl<S: ReadAt> RecordInput for S {
    fn read_full(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        read_full_at(self, offset, buf)
    }

    fn read_full_vectored(
        &mut self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        read_full_vectored_at(self, offset, bufs)
    }

    fn is_vectored(&self) -> bool {
        ReadAt::is_vectored(self)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        ReadAt::as_slice(self)
    }

    fn goes_back(&self) -> bool {
        true
    }

    fn size(&self) -> io::Result<Option<u64>> {
        ReadAt::size(self).map(Some)
    }
}

/// Number of recent bytes of a stream that can be read again, since resynchronizing reads recent
/// headers again.
const KEPT: usize = 256;

/// An input that reads a plain stream, which only moves forward.
#[derive(Debug)]
pub struct Sequential<R> {
    inner: R,
    /// Number of bytes of `inner` read so far.
    pos: u64,
    /// The most recently read bytes, at most [`KEPT`].
    kept: Vec<u8>,
    /// True if the last read found the end of `inner`.
    ended: bool,
}

impl<R: Read> Sequential<R> {
    /// Wraps a stream; the record file begins at the stream's current position.
    pub fn new(inner: R) -> Self {
        Sequential {
            inner,
            pos: 0,
            kept: Vec::new(),
            ended: false,
        }
    }

    /// Returns the stream, which remains at its current position.
    pub fn into_inner(self) -> R {
        self.inner
    }

    fn fill(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        let result = loop {
            if filled == buf.len() {
                break Ok(filled);
            }
            match self.inner.read(&mut buf[filled..]) {
                Ok(0) => break Ok(filled),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.ended = result.as_ref().is_ok_and(|&filled| filled < buf.len());
        // The stream has moved even if there was an error.
        self.pos += filled as u64;
        let tail = &buf[filled.saturating_sub(KEPT)..filled];
        self.kept.extend_from_slice(tail);
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
        result
    }
}

impl<R: Read> RecordInput for Sequential<R> {
    fn read_full(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        if offset < self.pos {
            let back = usize::try_from(self.pos - offset).unwrap_or(usize::MAX);
            let Some(start) = self.kept.len().checked_sub(back) else {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a stream can't be read backwards",
                ));
            };
            filled = buf.len().min(back);
            buf[..filled].copy_from_slice(&self.kept[start..start + filled]);
        }
        let mut skipped = [0; 8192];
        while filled < buf.len() && self.pos < offset {
            let step = usize::try_from(offset - self.pos)
                .map_or(skipped.len(), |left| left.min(skipped.len()));
            if self.fill(&mut skipped[..step])? < step {
                return Ok(0);
            }
        }
        Ok(filled + self.fill(&mut buf[filled..])?)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    fn goes_back(&self) -> bool {
        false
    }

    fn size(&self) -> io::Result<Option<u64>> {
        Ok(self.ended.then_some(self.pos))
    }
}

/// Number of bytes that are read for a small request. The additional bytes serve later requests.
const AHEAD: usize = 256 << 10;

/// An input that reads more bytes than a small request needs, and serves later small requests, such
/// as those for headers, from these bytes.
#[derive(Debug)]
pub(crate) struct ReadAhead<I> {
    pub(crate) inner: I,
    begin: u64,
    buf: Vec<u8>,
    /// Most recently reported size of the input, in bytes. The input may have grown since.
    size: u64,
}

impl<I: RecordInput> ReadAhead<I> {
    pub(crate) fn new(inner: I) -> Self {
        ReadAhead {
            inner,
            begin: 0,
            buf: Vec::new(),
            size: 0,
        }
    }

    /// Checks that the input has bytes up to `end`; otherwise returns the input's size as the inner
    /// error.
    pub(crate) fn reaches(&mut self, end: u64) -> io::Result<Result<(), u64>> {
        if end <= self.size {
            return Ok(Ok(()));
        }
        let mut size = self.inner.size()?;
        if size.is_none() {
            // Only reading shows whether the input reaches that far.
            let got = self.read_full(end.saturating_sub(1), &mut [0])?;
            size = if got == 1 {
                Some(end)
            } else {
                self.inner.size()?
            };
        }
        let size = size.unwrap_or(end);
        self.size = size;
        Ok(if end <= size { Ok(()) } else { Err(size) })
    }

    /// Forgets the bytes that were read ahead. The input may have other bytes there by now.
    pub(crate) fn forget(&mut self) {
        self.buf.clear();
    }

    fn buffered(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        self.buf.get(at..)?.get(..len)
    }
}

impl<I: RecordInput> sealed::Sealed for ReadAhead<I> {}

impl<I: RecordInput> RecordInput for ReadAhead<I> {
    fn read_full(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(bytes) = self.buffered(offset, buf.len()) {
            buf.copy_from_slice(bytes);
            return Ok(buf.len());
        }
        // A stream keeps its recent bytes itself, and must not be read beyond the requested bytes.
        if self.inner.as_slice().is_some() || !self.goes_back() || buf.len() > AHEAD / 2 {
            return self.inner.read_full(offset, buf);
        }
        self.buf.resize(AHEAD, 0);
        self.begin = offset;
        let Ok(got) = self.inner.read_full(offset, &mut self.buf) else {
            // The failure may concern only bytes after the requested bytes.
            self.buf.clear();
            return self.inner.read_full(offset, buf);
        };
        self.buf.truncate(got);
        let n = self.buf.len().min(buf.len());
        buf[..n].copy_from_slice(&self.buf[..n]);
        Ok(n)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.inner.as_slice()
    }

    fn goes_back(&self) -> bool {
        self.inner.goes_back()
    }

    fn size(&self) -> io::Result<Option<u64>> {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_skips_forward_and_looks_back_a_little() {
        let bytes: Vec<u8> = (0..100_000u32)
            .map(|index| index.to_le_bytes()[0])
            .collect();
        let mut input = Sequential::new(&bytes[..]);
        let mut buf = [0; 64];
        assert_eq!(input.read_full(20_000, &mut buf).unwrap(), 64);
        assert_eq!(buf[..], bytes[20_000..20_064]);
        assert_eq!(input.read_full(20_010, &mut buf).unwrap(), 64);
        assert_eq!(buf[..], bytes[20_010..20_074]);
        assert_eq!(input.read_full(99_990, &mut buf).unwrap(), 10);
        assert_eq!(input.read_full(99_990, &mut buf).unwrap(), 10);
        assert_eq!(input.read_full(200_000, &mut buf).unwrap(), 0);
        assert!(input.read_full(5, &mut buf).is_err());
    }
}
