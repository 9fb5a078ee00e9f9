//! Adapters between positioned reads and `std::io`'s `Read` and `Seek`.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use crate::ReadAt;

/// An adapter that implements [`Read`] and [`Seek`] for any [`ReadAt`].
///
/// Reads are not buffered; for small reads, wrap the reader in a [`BufReader`](io::BufReader).
///
/// # Examples
///
/// ```
/// use std::io::{Read, Seek, SeekFrom};
///
/// use record_file::PositionReader;
///
/// let mut reader = PositionReader::new(b"by position");
/// reader.seek(SeekFrom::End(-8))?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "position");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PositionReader<S> {
    source: S,
    position: u64,
}

impl<S> PositionReader<S> {
    /// Returns a reader at the beginning of `source`.
    pub const fn new(source: S) -> Self {
        PositionReader {
            source,
            position: 0,
        }
    }

    /// Returns the source.
    pub const fn get_ref(&self) -> &S {
        &self.source
    }

    /// Returns the source, consuming the reader.
    pub fn into_inner(self) -> S {
        self.source
    }
}

impl<S: ReadAt> Read for PositionReader<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(self.position, buf)?;
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }
}

impl<S: ReadAt> Seek for PositionReader<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.source.size()?.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| {
            let message = "can't seek to before the beginning or beyond 64 bits";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        Ok(self.position)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position)
    }
}

/// An adapter that implements [`ReadAt`] for any reader with [`Read`] and [`Seek`]. Concurrent
/// reads wait for each other.
///
/// # Examples
///
/// ```
/// use std::io::Cursor;
///
/// use record_file::{ReadAt, SeekSource};
///
/// let source = SeekSource::new(Cursor::new(b"positioned"));
/// let mut word = [0; 4];
/// source.read_exact_at(2, &mut word)?;
/// assert_eq!((&word, source.size()?), (b"siti", 10));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SeekSource<R>(Mutex<R>);

impl<R> SeekSource<R> {
    /// Wraps a reader. The source begins at the reader's offset 0, not at its current position.
    pub const fn new(reader: R) -> Self {
        SeekSource(Mutex::new(reader))
    }

    /// Returns the reader, whose position is unspecified.
    pub fn into_inner(self) -> R {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Read + Seek + Send> ReadAt for SeekSource<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset))?;
        reader.read(buf)
    }

    fn size(&self) -> io::Result<u64> {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::End(0))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_reader_by_position_reads_and_seeks_as_a_cursor_does() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut expected = Cursor::new(&bytes);
        let mut reader = PositionReader::new(SeekSource::new(Cursor::new(bytes.clone())));
        let steps = [
            SeekFrom::Start(7),
            SeekFrom::Current(30),
            SeekFrom::Current(-60),
            SeekFrom::Current(-1000),
            SeekFrom::End(-3),
            SeekFrom::End(5),
            SeekFrom::End(-201),
            SeekFrom::Start(u64::MAX),
            SeekFrom::Current(1),
        ];
        for step in steps {
            let (a, b) = (expected.seek(step), reader.seek(step));
            assert_eq!(a.is_ok(), b.is_ok(), "{step:?}");
            assert_eq!(a.ok(), b.ok(), "{step:?}");
            let (mut a, mut b) = ([0; 10], [0; 10]);
            let read = [expected.read(&mut a), reader.read(&mut b)].map(Result::ok);
            // A source may reject an offset that no file can have.
            if read[1].is_some() {
                assert_eq!(read[0], read[1], "{step:?}");
                assert_eq!(a, b, "{step:?}");
            }
        }
    }
}
