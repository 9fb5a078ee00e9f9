//! A reader or writer that computes the crc32c of the bytes that pass through it.

use std::io::{self, Read, Write};

/// A wrapper around a reader or writer that computes the crc32c of the bytes read or written.
#[derive(Debug)]
pub struct Summed<T> {
    inner: T,
    crc32c: u32,
}

impl<T> Summed<T> {
    /// Wraps a reader or writer. The checksum starts as the checksum of no bytes.
    pub fn new(inner: T) -> Summed<T> {
        Summed { inner, crc32c: 0 }
    }

    /// Returns the crc32c of all bytes that were read or written.
    pub fn crc32c(&self) -> u32 {
        self.crc32c
    }

    fn add(&mut self, bytes: &[u8]) {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.add(&buffer[..read]);
        Ok(read)
    }
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_summed_up_as_they_pass() {
        let mut written = Summed::new(Vec::new());
        for part in ["1234", "", "56789"] {
            written.write_all(part.as_bytes()).unwrap();
        }
        let mut read = Summed::new(&b"123456789"[..]);
        io::copy(&mut read, &mut io::sink()).unwrap();
        // The check value of CRC-32C.
        assert_eq!(
            (written.crc32c(), read.crc32c()),
            (0xe306_9283, 0xe306_9283)
        );
        assert_eq!(written.inner, b"123456789");
    }
}
