//! Reading the fields of a message in memory.

use std::ops::Range;

use proto_splitter_core::wire::{Input, WireCursor, WireType, decode_varint};
use proto_splitter_core::{Error, ErrorKind, Result};

/// A field that was read from a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) number: u32,
    pub(crate) wire: WireType,
    /// Offset of the field's tag in the buffer.
    pub(crate) start: usize,
    /// Value of a varint, or bits of a fixed-size number.
    pub(crate) bits: u64,
    /// Range in the buffer of a length-delimited value, or of a group without its tags.
    pub(crate) value: Range<usize>,
}

/// The position of an element in a buffer, and in the message from which the element was copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Offset of the element in the buffer.
    pub(crate) begin: usize,
    /// Offset of the element in the message.
    pub(crate) start: u64,
    /// True if the buffer contains all bytes of the element in one piece. Otherwise, the positions
    /// of the element's fields in the message are unknown.
    pub(crate) is_exact: bool,
}

impl Origin {
    /// Converts an offset in the buffer to an offset in the message. Returns the element's offset
    /// if the exact position is unknown.
    fn offset(&self, at: usize) -> u64 {
        match at.checked_sub(self.begin) {
            Some(within) if self.is_exact => self.start + within as u64,
            _ => self.start,
        }
    }

    /// Converts an offset in the buffer to an offset in the message, even if `is_exact` is false.
    fn here(&self, at: usize) -> u64 {
        self.start + at.saturating_sub(self.begin) as u64
    }

    /// Converts an offset in the message to an offset in the buffer.
    fn there(&self, position: u64) -> usize {
        let within = position.saturating_sub(self.start);
        self.begin + usize::try_from(within).unwrap_or(usize::MAX - self.begin)
    }

    /// Creates an error about the bytes at the offset `at` in the buffer. The error contains the
    /// corresponding offset in the message.
    #[cold]
    pub(crate) fn broken(&self, message: impl Into<String>, at: usize) -> Error {
        Error::new(ErrorKind::InvalidMessage, message).at_offset(self.offset(at))
    }
}

/// A reader for the fields of a message in a buffer.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    origin: Origin,
}

impl<'a> Fields<'a> {
    /// Creates a reader for the message at `range` in a buffer.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], range: &Range<usize>, origin: Origin) -> Self {
        Fields {
            bytes,
            at: range.start,
            end: range.end,
            origin,
        }
    }

    /// Returns the offset in the buffer at which the next field starts.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the next field; `None` at the end of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`], with the offset, if the bytes aren't valid wire format.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Met>> {
        if self.at >= self.end {
            return Ok(None);
        }
        match self.read() {
            Some(met) => Ok(Some(met)),
            None => self.read_slowly(),
        }
    }

    /// Reads the next field. Returns `None` if the field is a group or malformed.
    #[inline]
    fn read(&mut self) -> Option<Met> {
        let rest = self.bytes.get(self.at..self.end)?;
        let (tag, tag_len) = decode_varint(rest)?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..=0x1fff_ffff).contains(number))?;
        let wire = WireType::from_bits(tag)?;
        let behind = rest.get(tag_len..)?;
        let after_tag = self.at + tag_len;
        let (bits, value) = match wire {
            WireType::Varint | WireType::Fixed64 | WireType::Fixed32 => {
                let (bits, len) = self::number(behind, wire)?;
                (bits, after_tag..after_tag + len)
            }
            WireType::Len => {
                let (len, len_len) = decode_varint(behind)?;
                let len = usize::try_from(len).ok()?;
                let start = after_tag + len_len;
                let end = start.checked_add(len).filter(|&end| end <= self.end)?;
                (0, start..end)
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let start = std::mem::replace(&mut self.at, value.end);
        Some(Met {
            number,
            wire,
            start,
            bits,
            value,
        })
    }

    /// Reads the next field, which is a group or malformed, with the slower, general parser.
    #[cold]
    fn read_slowly(&mut self) -> Result<Option<Met>> {
        let origin = self.origin;
        let mut cursor = WireCursor::new(Placed {
            bytes: self.bytes,
            origin,
        });
        cursor.set_range(origin.here(self.at)..origin.here(self.end));
        let field = match cursor.next() {
            Ok(Some(field)) => field,
            Ok(None) => return Ok(None),
            Err(error) if origin.is_exact => return Err(error),
            Err(_) => return Err(origin.broken("the bytes are not a valid message", self.at)),
        };
        let met = Met {
            number: field.number.0,
            wire: field.wire_type,
            start: self.at,
            bits: 0,
            value: origin.there(field.value.start)..origin.there(field.value.end),
        };
        self.at = origin.there(field.end);
        Ok(Some(met))
    }
}

/// Decodes the number at the start of `bytes`, and returns the number and its length in bytes.
/// Returns `None` if the number is incomplete or malformed.
#[inline]
pub(crate) fn number(bytes: &[u8], wire: WireType) -> Option<(u64, usize)> {
    match wire {
        WireType::Fixed64 => Some((u64::from_le_bytes(*bytes.first_chunk()?), 8)),
        WireType::Fixed32 => Some((u32::from_le_bytes(*bytes.first_chunk()?).into(), 4)),
        _ => decode_varint(bytes),
    }
}

/// Mask for the bits of a [packed range](pack) that contain the range's length.
pub(crate) const LEN: u64 = 0xffff_ffff;

/// Packs a range of a buffer into 64 bits. The buffer must be smaller than 4 GiB.
#[inline]
pub(crate) fn pack(range: &Range<usize>) -> u64 {
    (range.start as u64) << 32 | (range.end - range.start) as u64 & LEN
}

/// Returns the range that [`pack`] has packed into 64 bits.
#[inline]
pub(crate) fn unpack(bits: u64) -> Range<usize> {
    let part = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
    let start = part(bits >> 32);
    start..start.saturating_add(part(bits & LEN))
}

/// An input for the general parser that reads from a buffer. The parser uses offsets in the
/// message, which are converted to offsets in the buffer.
struct Placed<'a> {
    bytes: &'a [u8],
    origin: Origin,
}

impl Input for Placed<'_> {
    fn size(&self) -> u64 {
        self.origin.here(self.bytes.len())
    }

    fn fetch(&mut self, position: u64, _want: usize) -> Result<&[u8]> {
        let at = self.origin.there(position);
        Ok(self.bytes.get(at..).unwrap_or_default())
    }
}
