//! Sources that record reads, make reads fail, or consist mostly of zeros.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use record_file::ReadAt;

/// A source that records the byte ranges that are read.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

/// The byte ranges that were read from a [`Watched`] source, in the order of the reads.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Mutex<Vec<Range<u64>>>>);

impl Reads {
    /// Returns the number of bytes that were read since the previous call.
    pub fn bytes(&self) -> u64 {
        self.take().iter().map(|read| read.end - read.start).sum()
    }

    /// Returns the byte ranges that were read since the previous call.
    pub fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Watched<S> {
    /// Wraps a source. Returns the wrapper, and the list to which the wrapper adds each byte range
    /// that is read.
    pub fn new(inner: S) -> (Self, Reads) {
        let reads = Reads::default();
        let watched = Watched {
            inner,
            reads: Arc::clone(&reads.0),
        };
        (watched, reads)
    }
}

impl<S: ReadAt> ReadAt for Watched<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read_at(offset, buf)?;
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.push(offset..offset + n as u64);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

/// A source that calls a function before each read. If the function fails, the read fails, too.
pub struct Guarded<S, F> {
    inner: S,
    guard: F,
    reads: AtomicU64,
}

impl<S, F> std::fmt::Debug for Guarded<S, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded")
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}

impl<S, F: Fn(u64) -> io::Result<()>> Guarded<S, F> {
    /// Wraps a source. The argument of `guard` is the number of the read, starting at 0.
    pub fn new(inner: S, guard: F) -> Self {
        Guarded {
            inner,
            guard,
            reads: AtomicU64::new(0),
        }
    }
}

impl<S: ReadAt, F: Fn(u64) -> io::Result<()> + Send + Sync> ReadAt for Guarded<S, F> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (self.guard)(self.reads.fetch_add(1, Ordering::Relaxed))?;
        self.inner.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

/// A source of any size that consists of zeros, except for a few byte ranges. Callers should read
/// it in small pieces.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    parts: Vec<(u64, Vec<u8>)>,
    size: u64,
}

impl Sparse {
    /// Appends bytes to the source.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        self.parts.push((self.size, bytes));
        self.size += len;
        self
    }

    /// Appends `count` zeros to the source.
    #[must_use]
    pub fn zeros(mut self, count: u64) -> Self {
        self.size += count;
        self
    }

    /// Wraps the content in a length-delimited field whose number is at most 15.
    #[must_use]
    pub fn field(self, number: u8) -> Sparse {
        let mut head = vec![number << 3 | 2];
        proto_splitter_core::wire::put_varint(&mut head, self.size);
        Sparse::default().bytes(head).and(self)
    }

    /// Appends the content of another source.
    #[must_use]
    pub fn and(mut self, other: Sparse) -> Self {
        let behind = self.size;
        let parts = other.parts.into_iter();
        self.parts
            .extend(parts.map(|(at, bytes)| (behind + at, bytes)));
        self.size += other.size;
        self
    }

    /// Returns the size of the source, in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Returns true if the source has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = self.size.min(offset.saturating_add(buf.len() as u64));
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        buf[..len].fill(0);
        let is_before = |part: &(u64, Vec<u8>)| part.0 + part.1.len() as u64 <= offset;
        let first = self.parts.partition_point(is_before);
        for (at, bytes) in &self.parts[first..] {
            if *at >= end {
                break;
            }
            let from = offset.max(*at);
            let to = end.min(at + bytes.len() as u64);
            let index = |at: u64, start: u64| usize::try_from(at - start).unwrap_or(0);
            buf[index(from, offset)..index(to, offset)]
                .copy_from_slice(&bytes[index(from, *at)..index(to, *at)]);
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
