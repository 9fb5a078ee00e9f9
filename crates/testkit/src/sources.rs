//! Sources that observe reads or make them fail.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use record_file::ReadAt;

/// A source that records the ranges read.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

/// The ranges that were read, in order.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Mutex<Vec<Range<u64>>>>);

impl Reads {
    /// Takes the ranges read so far.
    pub fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Watched<S> {
    /// Wraps a source.
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

/// A source that calls a function before each read. If the function fails, so does the read.
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
    /// Wraps a source. `guard` receives the number of each read, starting at 0.
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

/// A source of any size for small reads, with bytes at a few places and zeros everywhere else.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    parts: Vec<(u64, Vec<u8>)>,
    size: u64,
}

impl Sparse {
    /// Appends these bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        self.parts.push((self.size, bytes));
        self.size += len;
        self
    }

    /// Appends this many zeros.
    #[must_use]
    pub fn zeros(mut self, count: u64) -> Self {
        self.size += count;
        self
    }

    /// Wraps the source in a length-delimited field with a small number.
    #[must_use]
    pub fn field(self, number: u8) -> Sparse {
        let mut head = vec![number << 3 | 2];
        proto_splitter_core::wire::put_varint(&mut head, self.size);
        Sparse::default().bytes(head).and(self)
    }

    /// Appends another source.
    #[must_use]
    pub fn and(mut self, other: Sparse) -> Self {
        let behind = self.size;
        let parts = other.parts.into_iter();
        self.parts
            .extend(parts.map(|(at, bytes)| (behind + at, bytes)));
        self.size += other.size;
        self
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = self.size.min(offset.saturating_add(buf.len() as u64));
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        buf[..len].fill(0);
        for (at, bytes) in &self.parts {
            let from = offset.max(*at);
            let to = end.min(at + bytes.len() as u64);
            if from < to {
                let index = |at: u64, start: u64| usize::try_from(at - start).unwrap_or(0);
                buf[index(from, offset)..index(to, offset)]
                    .copy_from_slice(&bytes[index(from, *at)..index(to, *at)]);
            }
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
