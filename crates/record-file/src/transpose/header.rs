//! Reading the header of a transposed chunk.

use crate::codec::{TRUSTED_SIZE, reserve};
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::varint;

/// Upper bound on the memory that one bucket, buffer or state takes in all lists together, in
/// bytes.
const ITEM_SIZE: u64 = 128;

/// A reader for the numbers in the header of a transposed chunk.
pub(super) struct Header<'a> {
    pub(super) rest: &'a [u8],
    pub(super) begin: u64,
    pub(super) options: &'a ReaderOptions,
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
    /// header is too short for the items, or if lists of so many items need more memory than is
    /// allowed.
    pub(super) fn count(&mut self, what: &'static str) -> Result<usize> {
        let claimed = self.u32(what)?;
        let count = usize::try_from(claimed)
            .ok()
            .filter(|&count| count <= self.rest.len())
            .ok_or_else(|| {
                Error::corrupt(
                    self.begin,
                    format!("transposed chunk: {what} is more than the header has room for"),
                )
            })?;
        let lists = u64::from(claimed) * ITEM_SIZE;
        self.options
            .check_memory(self.begin, lists.saturating_sub(TRUSTED_SIZE))?;
        Ok(count)
    }

    /// Returns an empty list with memory for `count` items.
    pub(super) fn list<T>(&self, count: usize) -> Result<Vec<T>> {
        let mut list = Vec::new();
        reserve(&mut list, count).map_err(|error| error.or_at(self.begin))?;
        Ok(list)
    }
}
