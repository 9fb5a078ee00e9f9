//! Reading the header of a transposed chunk.

use crate::error::{Error, Result};
use crate::varint;

/// A reader for the numbers in the header of a transposed chunk.
pub(super) struct Header<'a> {
    pub(super) rest: &'a [u8],
    pub(super) begin: u64,
}

impl Header<'_> {
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64> {
        let begin = self.begin;
        varint::take(&mut self.rest)
            .ok_or_else(|| Error::corrupt(begin, format!("transposed chunk: no {what}")))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32> {
        let begin = self.begin;
        u32::try_from(self.u64(what)?)
            .map_err(|_| Error::corrupt(begin, format!("transposed chunk: {what} out of range")))
    }

    /// Reads the number of items, each of which takes at least one byte in the header. Fails if the
    /// header is too short for the items.
    pub(super) fn count(&mut self, what: &'static str) -> Result<usize> {
        let count = self.u32(what)?;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.rest.len())
            .ok_or_else(|| {
                Error::corrupt(
                    self.begin,
                    format!("transposed chunk: {what} is more than the header has room for"),
                )
            })
    }
}
