//! Parsing of a field's tag and length, without reading the value.

use std::ops::Range;

use super::cursor::{Field, WireCursor};
use super::input::Input;
use super::tag::{FieldNumber, WireType};
use super::varint::{MAX_VARINT_LEN, decode_varint};
use crate::{Error, ErrorKind, Result};

/// Returns the field at the beginning of `range`; `None` if the range is empty. If the field is a
/// group, reads to the end of the group.
///
/// For a length-delimited field, no byte after its length is requested: in a chunked message, that
/// byte may be the first of a large chunk.
pub(crate) fn field<I: Input + ?Sized>(input: &mut I, range: Range<u64>) -> Result<Option<Field>> {
    let (start, left) = (range.start, range.end - range.start);
    if left == 0 {
        return Ok(None);
    }
    let mut want = 1;
    loop {
        let bytes = input.fetch(start, want)?;
        let len = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(len)];
        match parse(bytes, start, left) {
            Some(Header::Field(field)) => return Ok(Some(field)),
            None if bytes.len() < len && bytes.len() < 2 * MAX_VARINT_LEN => want = bytes.len() + 1,
            // A group, or malformed: the cursor finds the group's end or reports the error.
            _ => {
                let mut cursor = WireCursor::new(input);
                cursor.set_range(range);
                return cursor.next();
            }
        }
    }
}

enum Header {
    Field(Field),
    Other,
}

/// Parses a header. Returns `None` if it is incomplete.
fn parse(bytes: &[u8], start: u64, left: u64) -> Option<Header> {
    let (tag, tag_len) = decode_varint(bytes)?;
    let rest = &bytes[tag_len..];
    let (skip, len) = match WireType::from_bits(tag) {
        Some(WireType::Varint) => (0, decode_varint(rest)?.1 as u64),
        Some(WireType::Fixed64) => (0, 8),
        Some(WireType::Fixed32) => (0, 4),
        Some(WireType::Len) => {
            let (len, skip) = decode_varint(rest)?;
            (skip, len)
        }
        _ => return Some(Header::Other),
    };
    let header = (tag_len + skip) as u64;
    let number = u32::try_from(tag >> 3).ok();
    Some(match (number, WireType::from_bits(tag)) {
        (Some(number @ 1..=0x1fff_ffff), Some(wire_type)) if len <= left.saturating_sub(header) => {
            let value = start + header..start + header + len;
            Header::Field(Field {
                number: FieldNumber(number),
                wire_type,
                start,
                tag_end: start + tag_len as u64,
                end: value.end,
                value,
            })
        }
        _ => Header::Other,
    })
}

/// Returns the field at the beginning of `range`; `None` if the range is empty or the field is
/// malformed. Used by callers that can continue without the field.
pub(crate) fn field_if_any<I: Input + ?Sized>(
    input: &mut I,
    range: Range<u64>,
) -> Result<Option<Field>> {
    match field(input, range) {
        Err(error) if is_malformed(&error) => Ok(None),
        found => found,
    }
}

/// Returns true if malformed bytes caused the error, false if reading failed.
pub(crate) fn is_malformed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidMessage | ErrorKind::LimitExceeded
    )
}
