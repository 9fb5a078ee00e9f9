//! A sink for writers that continue to write when they are dropped.

use std::io::{self, Seek, SeekFrom, Write};

/// A sink that reports only its first error. After a failed write it accepts and discards all bytes.
///
/// It is meant for writers that complete their file on drop, such as the writer of a zip archive.
/// Otherwise, they would fail again during the drop, and could only print the error to the terminal.
///
/// ```
/// use std::io::Write;
/// use proto_splitter_core::atomic::FailsOnce;
///
/// let mut room = [0; 4];
/// let mut sink = FailsOnce::new(&mut room[..]);
/// assert!(sink.write_all(b"12345").is_err());
/// assert!(sink.write_all(b"6").is_ok());
/// assert!(sink.into_inner().is_err());
/// ```
#[derive(Debug)]
pub struct FailsOnce<W> {
    inner: W,
    has_failed: bool,
    /// Position in bytes, as if the discarded bytes had been written.
    at: u64,
    /// Length in bytes, as if the discarded bytes had been written.
    len: u64,
}

impl<W> FailsOnce<W> {
    /// Wraps an empty sink.
    pub fn new(inner: W) -> FailsOnce<W> {
        FailsOnce {
            inner,
            has_failed: false,
            at: 0,
            len: 0,
        }
    }

    /// Returns the wrapped sink.
    ///
    /// # Errors
    ///
    /// If a write failed, so that the sink lacks bytes.
    pub fn into_inner(self) -> io::Result<W> {
        if self.has_failed {
            return Err(io::Error::other("a write failed before"));
        }
        Ok(self.inner)
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        self.has_failed |= result.as_ref().is_err_and(|error| !interrupted(error));
        result
    }
}

impl<W: Write> Write for FailsOnce<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.has_failed {
            bytes.len()
        } else {
            let written = self.inner.write(bytes);
            match self.noting(written)? {
                // Callers that need all bytes written treat a write of 0 bytes as a failure.
                0 if !bytes.is_empty() => {
                    self.has_failed = true;
                    return Ok(0);
                }
                written => written,
            }
        };
        self.at += written as u64;
        self.len = self.len.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.noting(flushed)
    }
}

impl<W: Seek> Seek for FailsOnce<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if !self.has_failed {
            let sought = self.inner.seek(to);
            self.at = self.noting(sought)?;
            return Ok(self.at);
        }
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink whose second field is the maximum number of bytes that it accepts.
    struct Full(io::Cursor<Vec<u8>>, u64);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.position() + bytes.len() as u64 > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn after_a_failed_write_positions_go_on_as_if_it_had_not_failed() {
        let mut sink = FailsOnce::new(Full(io::Cursor::new(Vec::new()), 4));
        sink.write_all(b"1234").unwrap();
        assert_eq!(sink.seek(SeekFrom::Start(2)).unwrap(), 2);
        assert_eq!(sink.seek(SeekFrom::End(0)).unwrap(), 4);
        let error = sink.write_all(b"56").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        sink.write_all(b"789").unwrap();
        assert_eq!(sink.stream_position().unwrap(), 7);
        assert_eq!(sink.seek(SeekFrom::Start(1)).unwrap(), 1);
        assert_eq!(sink.seek(SeekFrom::End(-1)).unwrap(), 6);
        assert!(sink.seek(SeekFrom::Current(-7)).is_err());
        sink.flush().unwrap();
        assert!(sink.into_inner().is_err());
    }
}
