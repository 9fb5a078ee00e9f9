//! Readers and writers with unusual behavior that their traits allow.
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

use record_file::ReadAt;

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error of the kind [`KIND`], which doesn't occur otherwise.
    Error,
    /// A result of 0 bytes, like at the end of a file or on a full disk.
    Zero,
}

/// The condition after which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// An offset in the file. Writes before this offset still succeed after a failure.
    Offset(u64),
    /// A number of bytes, at any offsets.
    Bytes(u64),
    /// A number of calls, including seeks and flushes.
    Calls(u64),
}

/// Kind of the error for [`Fault::Error`].
pub(crate) const KIND: io::ErrorKind = io::ErrorKind::ConnectionReset;

/// The behavior of calls before the first failure, and the failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Maximum number of bytes per call.
    pub(crate) most: usize,
    /// True if every other call is interrupted.
    pub(crate) interrupted: bool,
    /// The condition after which calls fail, and the way in which they fail; `None` if calls never
    /// fail.
    pub(crate) fault: Option<(From, Fault)>,
}

/// The numbers of calls and bytes so far.
#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    bytes: u64,
}

impl Manner {
    pub(crate) const KIND: Manner = Manner {
        most: usize::MAX,
        interrupted: false,
        fault: None,
    };

    pub(crate) fn failing(at: u64, fault: Fault) -> Self {
        Manner::failing_from(From::Offset(at), fault)
    }

    pub(crate) fn failing_from(from: From, fault: Fault) -> Self {
        Manner {
            fault: Some((from, fault)),
            ..Manner::KIND
        }
    }

    /// Returns all kinds of behavior in which no bytes are lost.
    pub(crate) fn harmless() -> Vec<Self> {
        let mut manners = Vec::new();
        for most in [1, 7, 1000, usize::MAX] {
            for interrupted in [false, true] {
                manners.push(Manner {
                    most,
                    interrupted,
                    fault: None,
                });
            }
        }
        manners
    }

    /// Returns the number of bytes that a call for `len` bytes at `offset` may transfer.
    fn allowed(&self, counts: &mut Counts, offset: u64, len: usize) -> io::Result<usize> {
        counts.calls += 1;
        if self.interrupted && counts.calls % 2 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = match self.fault {
            Some((From::Offset(at), _)) => at.saturating_sub(offset),
            Some((From::Bytes(bytes), _)) => bytes.saturating_sub(counts.bytes),
            Some((From::Calls(calls), _)) if counts.calls > calls => 0,
            _ => u64::MAX,
        };
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        match (len.min(self.most).min(left), self.fault) {
            (0, Some((from, Fault::Error))) if len > 0 => {
                Err(io::Error::new(KIND, format!("reset at {from:?}")))
            }
            (n, _) => {
                counts.bytes += n as u64;
                Ok(n)
            }
        }
    }

    /// Counts a call that transfers no bytes, and fails if it isn't allowed.
    fn allows_call(&self, counts: &mut Counts) -> io::Result<()> {
        counts.calls += 1;
        match self.fault {
            Some((From::Calls(calls), Fault::Error)) if counts.calls > calls => {
                Err(io::Error::new(KIND, format!("reset at call {calls}")))
            }
            _ => Ok(()),
        }
    }
}

/// A source or sink with unusual behavior: a stream of bytes, a file for random access, or a file
/// that is being written.
#[derive(Debug)]
pub(crate) struct Hostile<T> {
    inner: T,
    manner: Manner,
    pos: u64,
    counts: Mutex<Counts>,
}

impl<T> Hostile<T> {
    pub(crate) fn new(inner: T, manner: Manner) -> Self {
        Hostile {
            inner,
            manner,
            pos: 0,
            counts: Mutex::default(),
        }
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.inner
    }

    pub(crate) fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    fn allowed(&self, offset: u64, len: usize) -> io::Result<usize> {
        self.manner
            .allowed(&mut self.counts.lock().unwrap(), offset, len)
    }

    fn allows_call(&self) -> io::Result<()> {
        self.manner.allows_call(&mut self.counts.lock().unwrap())
    }

    /// Returns the numbers of calls and bytes so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap();
        (counts.calls, counts.bytes)
    }
}

impl<T: Read> Read for Hostile<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.allowed(self.pos, buf.len())?;
        let n = self.inner.read(&mut buf[..n])?;
        self.pos += n as u64;
        Ok(n)
    }
}

impl<T: ReadAt> ReadAt for Hostile<T> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.allowed(offset, buf.len())?;
        self.inner.read_at(offset, &mut buf[..n])
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

impl<T: Write> Write for Hostile<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.allowed(self.pos, buf.len())?;
        let n = self.inner.write(&buf[..n])?;
        self.pos += n as u64;
        Ok(n)
    }

    // Unlike the default implementation, this can stop inside any slice, not only the first.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        let most = self.allowed(self.pos, len)?;
        let mut left = most;
        for slice in slices {
            let n = left.min(slice.len());
            self.inner.write_all(&slice[..n])?;
            left -= n;
        }
        self.pos += most as u64;
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.allows_call()?;
        self.inner.flush()
    }
}

impl<T: Seek> Seek for Hostile<T> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.allows_call()?;
        self.pos = self.inner.seek(to)?;
        Ok(self.pos)
    }
}

/// Returns the kind of the I/O error inside this crate's error.
pub(crate) fn io_kind(error: &record_file::Error) -> Option<io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    source
        .downcast_ref::<io::Error>()
        .map(|source| source.kind())
}
