//! A buffer that is filled from its end.
use crate::codec::TRUSTED_SIZE;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct Backward {
    buf: Vec<u8>,
    /// Start of the filled part.
    start: usize,
    /// Maximum final size, in bytes.
    limit: usize,
}

impl Backward {
    /// Creates a buffer for at most `size` bytes, a size claimed by a chunk of `stored` bytes. The
    /// limit on the memory allocated at once depends on `stored`.
    pub(crate) fn new(size: u64, stored: u64) -> Result<Self> {
        let limit = usize::try_from(size).map_err(|_| Error::no_room_for(size))?;
        let first = size.min(TRUSTED_SIZE.max(stored.saturating_mul(16)));
        let first = usize::try_from(first).unwrap_or(limit);
        Ok(Backward {
            buf: vec![0; first],
            start: first,
            limit,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Returns room for `len` more bytes before the current bytes, or `None` if the size would
    /// exceed the limit.
    #[inline]
    pub(crate) fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.start {
            self.grow(len)?;
        }
        let end = self.start;
        self.start -= len;
        self.buf.get_mut(self.start..end)
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.prepend(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    #[cold]
    fn grow(&mut self, len: usize) -> Option<()> {
        let needed = self.len().checked_add(len)?;
        if needed > self.limit {
            return None;
        }
        let size = needed.max(self.buf.len().saturating_mul(2)).min(self.limit);
        let mut buf = vec![0; size];
        let start = size - self.len();
        buf[start..].copy_from_slice(&self.buf[self.start..]);
        self.buf = buf;
        self.start = start;
        Some(())
    }

    /// Returns the bytes, and the start of the filled part.
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.buf, self.start)
    }
}
