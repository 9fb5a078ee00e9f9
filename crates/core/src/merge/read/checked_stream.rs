//! Streams of chunks that verify the data while it is read.

use std::io::{self, Read};

use crate::proto::ChunkInfo;
use crate::{Error, ErrorKind, Result};

/// A reader that reads a chunk's record, and compares the chunk's crc32c with the one in the
/// trailer, if the trailer has one. On a mismatch, the read of the last byte fails.
pub(in crate::merge) struct CheckedStream<'a, R> {
    record: R,
    /// Name of the record's file; `None` for the main file, which needs no name in errors.
    file: Option<&'a str>,
    left: u64,
    crc32c: u32,
    expected: Option<u32>,
    checked: bool,
}

/// Compares the crc32c of a chunk with the one in the trailer, if the trailer has one.
pub(in crate::merge) fn check_crc32c(found: u32, expected: Option<u32>) -> Result<()> {
    match expected {
        Some(expected) if expected != found => {
            let message = format!("crc32c is {found:08x} where the trailer says {expected:08x}");
            Err(Error::new(ErrorKind::ChecksumMismatch, message))
        }
        _ => Ok(()),
    }
}

impl<'a, R: Read> CheckedStream<'a, R> {
    pub(in crate::merge) fn new(record: R, info: &ChunkInfo, file: Option<&'a str>) -> Self {
        CheckedStream {
            record,
            file,
            left: info.size,
            crc32c: 0,
            expected: info.crc32c,
            checked: false,
        }
    }

    fn check(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.checked, true) {
            return Ok(());
        }
        // The record's stream runs its own checks at its end.
        if self.record.read(&mut [0])? != 0 {
            let error = Error::new(
                ErrorKind::InvalidTrailer,
                "the record is longer than the trailer says",
            );
            return Err(error.into());
        }
        Ok(check_crc32c(self.crc32c, self.expected)?)
    }

    fn read_checked(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.check()?;
            return Ok(0);
        }
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.record.read(&mut buffer[..want])?;
        if read == 0 && want > 0 {
            let error = Error::new(
                ErrorKind::InvalidTrailer,
                "the record is shorter than the trailer says",
            );
            return Err(error.into());
        }
        if self.expected.is_some() {
            self.crc32c = crc32c::crc32c_append(self.crc32c, &buffer[..read]);
        }
        self.left -= read as u64;
        if self.left == 0 {
            self.check()?;
        }
        Ok(read)
    }
}

impl<R: Read> Read for CheckedStream<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_checked(buffer);
        read.map_err(|error| match self.file {
            // An interrupted read is returned as it is, so that readers repeat it.
            Some(file) if error.kind() != io::ErrorKind::Interrupted => {
                Error::from(error).context(file.escape_debug()).into()
            }
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the record `b"chunk"` as a chunk with this size and checksum. If a check fails, the
    /// last byte isn't returned.
    fn read(size: u64, crc32c: Option<u32>) -> std::result::Result<Vec<u8>, String> {
        let info = ChunkInfo {
            size,
            crc32c,
            ..Default::default()
        };
        let mut stream = CheckedStream::new(&b"chunk"[..], &info, None);
        let mut bytes = Vec::new();
        let mut byte = [0];
        loop {
            match stream.read(&mut byte) {
                Ok(0) => return Ok(bytes),
                Ok(_) => bytes.extend(byte),
                Err(error) => {
                    assert!(bytes.is_empty() || (bytes.len() as u64) < size, "{error}");
                    return Err(Error::from(error).to_string());
                }
            }
        }
    }

    #[test]
    fn the_last_byte_of_a_record_comes_only_if_it_is_what_the_trailer_says() {
        let sum = crc32c::crc32c(b"chunk");
        assert_eq!(read(5, Some(sum)).unwrap(), b"chunk");
        assert_eq!(read(5, None).unwrap(), b"chunk");
        for (size, crc32c, expected) in [
            (4, None, "the record is longer than the trailer says"),
            (0, None, "the record is longer than the trailer says"),
            (6, None, "the record is shorter than the trailer says"),
            (5, Some(sum ^ 1), "where the trailer says"),
            (4, Some(sum), "the record is longer than the trailer says"),
        ] {
            match read(size, crc32c) {
                Err(error) => assert!(error.contains(expected), "{size}: {error}"),
                Ok(bytes) => panic!("{size}: {bytes:?}"),
            }
        }
    }
}
