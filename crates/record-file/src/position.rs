//! Positions of records and chunks.
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Offset in a file at which a chunk begins, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChunkOffset(pub u64);

impl fmt::Display for ChunkOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for ChunkOffset {
    fn from(offset: u64) -> Self {
        ChunkOffset(offset)
    }
}

/// The position of a record: the offset of the record's chunk, and the index of the record in this
/// chunk.
///
/// A chunk has at least one byte per record, so a record is also identified by its
/// [`numeric`](Self::numeric) form: the sum of the offset and the index.
///
/// # Examples
///
/// ```
/// use record_file::RecordPosition;
///
/// let position = RecordPosition::new(3986, 2);
/// assert_eq!(position.to_string(), "3986/2");
/// assert_eq!("3986/2".parse::<RecordPosition>()?, position);
/// assert_eq!(position.numeric(), 3988);
/// assert_eq!(RecordPosition::from_bytes(&position.to_bytes())?, position);
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordPosition {
    chunk_begin: u64,
    record_index: u64,
}

impl RecordPosition {
    /// Returns the position of the record at `record_index` in the chunk that begins at
    /// `chunk_begin`.
    ///
    /// If the [numeric form](Self::numeric) of the position wouldn't fit in 64 bits, the index is
    /// reduced so that it does.
    #[must_use]
    pub const fn new(chunk_begin: u64, record_index: u64) -> Self {
        let most = u64::MAX - chunk_begin;
        RecordPosition {
            chunk_begin,
            record_index: if record_index < most {
                record_index
            } else {
                most
            },
        }
    }

    /// Returns the position where the record's chunk begins.
    #[must_use]
    pub const fn chunk_begin(self) -> ChunkOffset {
        ChunkOffset(self.chunk_begin)
    }

    /// Returns the index of the record in its chunk.
    #[must_use]
    pub const fn record_index(self) -> u64 {
        self.record_index
    }

    /// Returns the sum of the chunk's offset and the record's index. The sum is unique in the file.
    #[must_use]
    pub const fn numeric(self) -> u64 {
        self.chunk_begin + self.record_index
    }

    /// Returns a byte form that sorts in the same order as the positions: the chunk's offset and
    /// the record's index, each as a big-endian integer with the integer's length in the leading
    /// bits.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18);
        push_ordered(&mut out, self.chunk_begin);
        push_ordered(&mut out, self.record_index);
        out
    }

    /// Parses the result of [`to_bytes`](Self::to_bytes), or the older form of two big-endian
    /// 64-bit integers.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if the bytes have neither form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        if let (Some(begin), Some(index)) = (take_ordered(&mut rest), take_ordered(&mut rest))
            && rest.is_empty()
        {
            return Self::checked(begin, index);
        }
        if let Ok(old) = <[u8; 16]>::try_from(bytes) {
            let both = u128::from_be_bytes(old);
            let begin = u64::try_from(both >> 64).unwrap_or(u64::MAX);
            let index = u64::try_from(both & u128::from(u64::MAX)).unwrap_or(u64::MAX);
            return Self::checked(begin, index);
        }
        Err(invalid("not the bytes of a record position"))
    }

    fn checked(chunk_begin: u64, record_index: u64) -> Result<Self> {
        match chunk_begin.checked_add(record_index) {
            Some(_) => Ok(RecordPosition {
                chunk_begin,
                record_index,
            }),
            None => Err(invalid("record position doesn't fit in 64 bits")),
        }
    }
}

fn invalid(detail: &'static str) -> Error {
    Error::plain(crate::ErrorKind::InvalidPosition, detail)
}

/// Appends the value in big-endian order. The number of leading one bits in the first byte is the
/// number of bytes that follow it, so a longer encoding sorts later.
fn push_ordered(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros();
    let length = (bits.max(1)).div_ceil(7).min(9);
    if length == 9 {
        out.push(0xff);
        out.extend(value.to_be_bytes());
        return;
    }
    // The first byte has length - 1 ones followed by a zero.
    let marked = value | !(u64::MAX >> (length - 1)) >> (64 - 8 * length);
    out.extend(&marked.to_be_bytes()[8 - length as usize..]);
}

fn take_ordered(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let more = first.leading_ones() as usize;
    let (taken, rest) = bytes.split_at_checked(1 + more)?;
    let mut value = if more >= 7 {
        0
    } else {
        u64::from(first & (0x7f >> more))
    };
    for &byte in &taken[1..] {
        value = value << 8 | u64::from(byte);
    }
    // Only the shortest form is valid, so that every position has one form.
    let shortest = more == 0 || value >> (7 * more) != 0;
    *bytes = rest;
    shortest.then_some(value)
}

impl fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chunk_begin, self.record_index)
    }
}

impl FromStr for RecordPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |part: &str| {
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                part.parse().ok()
            } else {
                None
            }
        };
        match text.split_once('/') {
            Some((begin, index)) => match (number(begin), number(index)) {
                (Some(begin), Some(index)) => Self::checked(begin, index),
                _ => Err(invalid("not of the form chunk/record")),
            },
            None => Err(invalid("not of the form chunk/record")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_form_round_trips_and_sorts() {
        let mut values = vec![0, 1, u64::MAX / 2];
        values.extend((0..63).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]));
        values.sort_unstable();
        let forms: Vec<_> = values
            .iter()
            .map(|&value| RecordPosition::new(value, 5).to_bytes())
            .collect();
        assert!(forms.is_sorted());
        for (value, form) in values.iter().zip(&forms) {
            let position = RecordPosition::new(*value, 5);
            assert_eq!(RecordPosition::from_bytes(form).unwrap(), position);
            for cut in 0..form.len() {
                assert!(RecordPosition::from_bytes(&form[..cut]).is_err());
            }
        }
    }

    #[test]
    fn old_byte_form_is_read() {
        let mut old = [0; 16];
        old[7] = 64;
        old[15] = 3;
        let position = RecordPosition::from_bytes(&old).unwrap();
        assert_eq!(position, RecordPosition::new(64, 3));
    }

    #[test]
    fn bad_text_is_refused() {
        for text in [
            "",
            "/",
            "1",
            "1/",
            "/1",
            "+1/2",
            "1/ 2",
            "1/2/3",
            "-1/2",
            "18446744073709551615/1",
        ] {
            assert!(text.parse::<RecordPosition>().is_err(), "{text}");
        }
        assert_eq!(
            "0/0".parse::<RecordPosition>().unwrap(),
            RecordPosition::default()
        );
    }
}
