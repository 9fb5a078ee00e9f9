//! A buffer that is filled from its end.
use super::fast::TOO_LARGE;
use crate::codec::reserve;
use crate::error::{Error, Result};

/// Minimum size of the buffer, in bytes.
const FIRST: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Backward {
    /// Start of the chunk in the file, for errors.
    begin: u64,
    buf: Vec<u8>,
    /// Start of the filled part.
    start: usize,
    /// Maximum final size, in bytes.
    limit: usize,
}

impl Backward {
    /// Creates a buffer for at most `size` bytes, a size claimed by the chunk at `begin`. Memory is
    /// allocated as bytes are added, since a projection may select few of them.
    pub(crate) fn new(begin: u64, size: u64) -> Result<Self> {
        let limit = usize::try_from(size).map_err(|_| Error::no_room_for(size).or_at(begin))?;
        Ok(Backward {
            begin,
            buf: Vec::new(),
            start: 0,
            limit,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Returns room for `len` more bytes before the current bytes. Fails if the size would exceed
    /// the limit.
    #[inline]
    pub(crate) fn prepend(&mut self, len: usize) -> Result<&mut [u8]> {
        if len > self.start {
            self.grow(len)?;
        }
        let end = self.start;
        self.start -= len;
        Ok(&mut self.buf[self.start..end])
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.prepend(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    #[cold]
    fn grow(&mut self, len: usize) -> Result<()> {
        let needed = self.len().checked_add(len);
        let needed = needed.filter(|&needed| needed <= self.limit);
        let needed = needed.ok_or_else(|| Error::corrupt(self.begin, TOO_LARGE))?;
        let size = needed.max(self.buf.len().saturating_mul(2).max(FIRST));
        let size = size.min(self.limit);
        let start = size - self.len();
        self.buf = with_gap(&[], &self.buf[self.start..], size)
            .map_err(|error| error.or_at(self.begin))?;
        self.start = start;
        Ok(())
    }

    /// Returns the bytes, and the start of the filled part.
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.buf, self.start)
    }
}

/// Returns a buffer of `size` bytes that begins with `front` and ends with `back`.
pub(crate) fn with_gap(front: &[u8], back: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut buf = Vec::new();
    reserve(&mut buf, size)?;
    buf.extend_from_slice(front);
    buf.resize(size - back.len(), 0);
    buf.extend_from_slice(back);
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_size_for_which_no_memory_is_left_exceeds_a_limit() {
        let mut out = Backward::new(64, 1 << 60).unwrap();
        out.push(b"b").unwrap();
        let error = out.prepend(1 << 59).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(error.offset(), Some(64));
        out.push(b"a").unwrap();
        let (buf, start) = out.into_parts();
        assert_eq!(buf[start..], *b"ab");
        let error = with_gap(b"a", b"b", 1 << 60).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(with_gap(b"a", b"bc", 5).unwrap(), b"a\0\0bc");
    }
}
