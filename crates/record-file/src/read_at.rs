//! Sources that can be read at any offset, by several threads at once.
use std::fmt;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// A source of bytes with positioned reads.
///
/// Reading takes `&self` and moves no cursor, so threads can share a source.
///
/// # Examples
///
/// ```
/// use record_file::ReadAt;
///
/// let source: &[u8] = b"positioned";
/// let mut word = [0; 4];
/// source.read_exact_at(2, &mut word)?;
/// assert_eq!(&word, b"siti");
/// assert_eq!(source.size()?, 10);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`SeekSource`](crate::SeekSource) makes a source from anything that reads and seeks, and
/// [`PositionReader`](crate::PositionReader) reads and seeks in any source.
pub trait ReadAt: Send + Sync {
    /// Reads some bytes at `offset`, and returns their number. A short read is not an error; 0
    /// means the end of the source.
    ///
    /// # Errors
    ///
    /// Any error from the underlying source.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Returns the current size of the source, in bytes.
    ///
    /// # Errors
    ///
    /// Any error from the underlying source.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes that start at `offset`.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the source ends before `buf` is full, or
    /// any error from the source.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if read_full_at(self, offset, buf)? < buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads some bytes at `offset` into several buffers, which are filled one after another.
    /// Otherwise the same as [`read_at`](Self::read_at).
    ///
    /// # Errors
    ///
    /// Any error from the underlying source.
    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match bufs.iter_mut().find(|buf| !buf.is_empty()) {
            Some(buf) => self.read_at(offset, buf),
            None => Ok(0),
        }
    }

    /// Returns true if [`read_vectored_at`](Self::read_vectored_at) can fill several buffers in one
    /// call. Large records are then read directly into their destination, and the block headers
    /// inside the records are read into other buffers.
    fn is_vectored(&self) -> bool {
        false
    }

    /// Returns all bytes of the source if they are in memory, so that readers can borrow instead of
    /// copying them. The default implementation returns `None`.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Announces that these byte ranges will be read next, in this order. The default
    /// implementation does nothing.
    ///
    /// Returns immediately; a slow source can then fetch the ranges in the background, several at a
    /// time. If fetching fails, the read that requests the bytes returns the error.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Returns the byte range that contains `offset` and is best read with one call, for example
    /// because its bytes are decoded together. Returns `None`, the default, if the size of reads
    /// doesn't matter.
    ///
    /// If ranges are returned, a reader of the whole source reads one range after another, or
    /// several ranges at once on several threads.
    fn extent(&self, offset: u64) -> Option<Range<u64>> {
        let _ = offset;
        None
    }

    /// Returns true if [`prefetch`](Self::prefetch) has an effect. Readers through a
    /// [`RecordFile`](crate::RecordFile) then announce their next reads, and don't read bytes before
    /// they need them. A [`RecordReader`](crate::RecordReader) reads 256 KiB ahead in any case.
    fn is_prefetched(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn ReadAt + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadAt")
    }
}

/// Reads until `buf` is full or the source ends, and returns the number of bytes read.
pub(crate) fn read_full_at<S: ReadAt + ?Sized>(
    source: &S,
    mut offset: u64,
    buf: &mut [u8],
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read_at(offset, &mut buf[filled..]) {
            Ok(0) => break,
            Ok(n) => {
                filled += n;
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills several buffers, one after another, like [`read_full_at`].
pub(crate) fn read_full_vectored_at<S: ReadAt + ?Sized>(
    source: &S,
    mut offset: u64,
    mut bufs: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    let mut filled = 0;
    while !bufs.is_empty() {
        match source.read_vectored_at(offset, bufs) {
            Ok(0) => break,
            Ok(n) => {
                filled += n;
                offset += n as u64;
                IoSliceMut::advance_slices(&mut bufs, n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl ReadAt for File {
    #[cfg(unix)]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buf, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buf, offset)
    }

    // On WebAssembly, std can't open files.
    #[cfg(not(any(unix, windows)))]
    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::preadv(self, bufs, offset)?)
    }

    #[cfg(target_os = "linux")]
    fn is_vectored(&self) -> bool {
        true
    }
}

macro_rules! forward {
    ($($(#[$attr:meta])* [$($generics:tt)*] $type:ty => $inner:ty),* $(,)?) => {$(
        impl<$($generics)*> ReadAt for $type {
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
                <$inner as ReadAt>::read_at(self, offset, buf)
            }

            fn size(&self) -> io::Result<u64> {
                <$inner as ReadAt>::size(self)
            }

            fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
                <$inner as ReadAt>::read_exact_at(self, offset, buf)
            }

            fn read_vectored_at(
                &self,
                offset: u64,
                bufs: &mut [IoSliceMut<'_>],
            ) -> io::Result<usize> {
                <$inner as ReadAt>::read_vectored_at(self, offset, bufs)
            }

            fn is_vectored(&self) -> bool {
                <$inner as ReadAt>::is_vectored(self)
            }

            fn as_slice(&self) -> Option<&[u8]> {
                <$inner as ReadAt>::as_slice(self)
            }

            fn prefetch(&self, ranges: &[Range<u64>]) {
                <$inner as ReadAt>::prefetch(self, ranges);
            }

            fn extent(&self, offset: u64) -> Option<Range<u64>> {
                <$inner as ReadAt>::extent(self, offset)
            }

            fn is_prefetched(&self) -> bool {
                <$inner as ReadAt>::is_prefetched(self)
            }
        }
    )*};
}

forward! {
    [] Vec<u8> => [u8],
    [] Bytes => [u8],
    [const N: usize] [u8; N] => [u8],
    [T: ReadAt + ?Sized] &T => T,
    [T: ReadAt + ?Sized] Box<T> => T,
    [T: ReadAt + ?Sized] Arc<T> => T,
}
