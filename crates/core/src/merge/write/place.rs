//! The destinations of a merged message's bytes: a range of a file, or of memory.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::Result;
use crate::io::{FileAt, WRITE_LEN};
use crate::progress::Meter;
use crate::spans::COPY_LEN;

/// The destination of a segment's bytes.
pub(super) trait Place: Send {
    /// Writes the next `len` bytes of `source` to the destination, and computes their checksum.
    fn fill(
        &mut self,
        source: &mut dyn Read,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()>;

    /// Writes `len` bytes, which one call of `read` provides, to the destination.
    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()>;
}

/// The state of a thread that fills destinations.
pub(super) struct Filling<'a> {
    pub(super) meter: &'a Meter,
    buffer: Vec<u8>,
    /// Checksum of the bytes written to the current destination; not computed if it is already
    /// known.
    pub(super) crc32c: u32,
    is_known: bool,
    /// True if checksums must be computed.
    sums: bool,
}

impl<'a> Filling<'a> {
    /// Creates the state of a thread, which computes checksums if `sums` is true.
    pub(super) fn new(meter: &'a Meter, sums: bool) -> Self {
        Filling {
            meter,
            buffer: Vec::new(),
            crc32c: 0,
            is_known: false,
            sums,
        }
    }

    /// Starts the checksum of the next bytes. If `crc32c` provides the checksum, it isn't computed.
    pub(super) fn expect(&mut self, crc32c: Option<u32>) {
        self.is_known = crc32c.is_some() || !self.sums;
        self.crc32c = crc32c.unwrap_or(0);
    }

    fn filled(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_known {
            self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        }
        Ok(self.meter.advance(bytes.len() as u64)?)
    }
}

/// A destination in a file, to which bytes are written through a buffer.
impl Place for FileAt<&File> {
    fn fill(
        &mut self,
        source: &mut dyn Read,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut filling.buffer);
        buffer.resize(WRITE_LEN, 0);
        let mut left = len;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(WRITE_LEN);
            source.read_exact(&mut buffer[..step])?;
            self.write_all(&buffer[..step])?;
            filling.filled(&buffer[..step])?;
            left -= step as u64;
        }
        filling.buffer = buffer;
        Ok(())
    }

    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut filling.buffer);
        buffer.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        read(&mut buffer)?;
        self.write_all(&buffer)?;
        filling.filled(&buffer)?;
        filling.buffer = buffer;
        Ok(())
    }
}

/// A destination in memory, into which bytes are read without an intermediate buffer.
pub(super) struct InMemory<'a>(pub(super) &'a mut [u8]);

impl Place for InMemory<'_> {
    fn fill(
        &mut self,
        source: &mut dyn Read,
        _len: u64,
        filling: &mut Filling<'_>,
    ) -> io::Result<()> {
        for step in self.0.chunks_mut(COPY_LEN) {
            source.read_exact(step)?;
            filling.filled(step)?;
        }
        Ok(())
    }

    fn fill_whole(
        &mut self,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        _len: u64,
        filling: &mut Filling<'_>,
    ) -> Result<()> {
        read(self.0)?;
        Ok(filling.filled(self.0)?)
    }
}
