//! A source that can't be read as a slice.
use std::io;

use record_file::ReadAt;

/// A source in memory that doesn't lend its bytes to readers.
pub(crate) struct Elsewhere<'a>(pub(crate) &'a [u8]);

impl ReadAt for Elsewhere<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
