//! Sequential output with a byte count and a checksum.

use std::io::{self, BufWriter, Write};

use crate::Result;
use crate::progress::Meter;

/// Size of the buffer that gathers small writes: 256 KiB. Larger writes bypass the buffer.
const GATHER: usize = 256 << 10;

/// A writer that counts the bytes that pass through it, and computes their checksum.
pub(crate) struct CountingWriter<'a> {
    inner: BufWriter<&'a mut dyn Write>,
    size: u64,
    crc32c: u32,
    meter: &'a Meter,
}

impl<'a> CountingWriter<'a> {
    pub(crate) fn new(inner: &'a mut dyn Write, meter: &'a Meter) -> Self {
        CountingWriter {
            inner: BufWriter::with_capacity(GATHER, inner),
            size: 0,
            crc32c: 0,
            meter,
        }
    }

    /// Writes the bytes that are still buffered, and returns the number and the crc32c of all bytes
    /// written. A cancellation is reported here at the latest.
    pub(crate) fn finish(mut self) -> Result<(u64, u32)> {
        self.inner.flush()?;
        self.meter.check()?;
        Ok((self.size, self.crc32c))
    }
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(bytes)?;
        self.meter.advance(bytes.len() as u64)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
