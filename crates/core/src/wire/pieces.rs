//! Reading a range of an input piece by piece.

use std::ops::Range;

use super::cursor::WireCursor;
use super::input::Input;
use crate::Result;

/// Number of bytes to read at a time.
const PIECE_LEN: usize = 64 << 10;

impl<I: Input> WireCursor<I> {
    /// Reads the bytes at `range` in pieces of at most 64 KiB, and passes each piece to `take`.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes); any error from `take`.
    pub(crate) fn read_pieces(
        &mut self,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let end = at + left.min(PIECE_LEN) as u64;
            take(self.bytes(at..end)?)?;
            at = end;
        }
        Ok(())
    }

    /// Returns the offset of the first bytes at `range` that aren't UTF-8; `None` if all are.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes).
    #[doc(hidden)]
    pub fn first_not_utf8(&mut self, range: Range<u64>) -> Result<Option<u64>> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(PIECE_LEN as u64));
            let Err(error) = std::str::from_utf8(self.bytes(at..end)?) else {
                at = end;
                continue;
            };
            at += error.valid_up_to() as u64;
            // A character at the end of a piece may continue in the next one.
            if error.error_len().is_some() || end == range.end {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
