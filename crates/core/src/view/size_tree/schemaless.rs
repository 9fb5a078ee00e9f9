//! Guessing whether bytes of an unknown type are a message.

use crate::Result;
use crate::view::{PROBED_TEXT, is_text};
use crate::wire::header::is_malformed;
use crate::wire::{Input, MAX_VARINT_LEN, WireCursor, WireType, decode_varint};

/// Maximum number of fields to inspect in a value that is not in memory.
const PROBED_FIELDS: usize = 1024;

/// Returns true if the bytes are a valid sequence of fields, and unlikely to be text.
///
/// ```
/// use proto_splitter_core::view::size_tree::looks_like_message;
/// assert!(looks_like_message(b"\x08\x96\x01"));
/// assert!(!looks_like_message(b"weights"));
/// ```
pub fn looks_like_message(bytes: &[u8]) -> bool {
    // A message that begins with text in field 1 begins with the tag 0x0a, with which text rarely
    // begins.
    if bytes.is_empty() || (bytes[0] != b'\n' && is_text(bytes)) {
        return false;
    }
    let mut at = 0;
    // Field numbers of the open groups.
    let mut open = Vec::new();
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some((tag, tag_len)) = decode_varint(rest) else {
            return false;
        };
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return false;
        }
        let value = &rest[tag_len..];
        let len = match WireType::from_bits(tag) {
            Some(WireType::Varint) => decode_varint(value).map(|(_, len)| len),
            Some(WireType::Fixed64) => Some(8),
            Some(WireType::Fixed32) => Some(4),
            Some(WireType::Len) => decode_varint(value)
                .and_then(|(len, len_len)| usize::try_from(len).ok()?.checked_add(len_len)),
            Some(WireType::StartGroup) => {
                open.push(number);
                Some(0)
            }
            Some(WireType::EndGroup) => open.pop().filter(|&begun| begun == number).map(|_| 0),
            None => None,
        };
        match len {
            Some(len) if len <= value.len() => at += tag_len + len,
            _ => return false,
        }
    }
    open.is_empty()
}

/// Returns true if the beginning of a long value looks like a message. Leaves the cursor at an
/// arbitrary position.
pub(super) fn begins_as_message<I: Input>(
    cursor: &mut WireCursor<I>,
    start: u64,
    end: u64,
) -> Result<bool> {
    let front = cursor.input_mut().fetch(start, MAX_VARINT_LEN)?;
    let len = usize::try_from(end - start).unwrap_or(usize::MAX);
    let front = &front[..front.len().min(len).min(PROBED_TEXT)];
    if front.first() != Some(&b'\n') && is_text(front) {
        return Ok(false);
    }
    cursor.set_range(start..end);
    for _ in 0..PROBED_FIELDS {
        match cursor.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) if is_malformed(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fields_one_after_the_other_is_a_message_and_text_is_none() {
        for (bytes, message) in [
            (&b"\x08\x96\x01"[..], true),
            (b"\x0a\x04name", true),
            (b"\x0a\x0aabcdefghij", true),
            (b"\x0b\x08\x01\x0c", true),
            (b"", false),
            (b"name", false),
            (b"(A few words, which would be a tag and a length)", false),
            (b"\x0a\x05name", false),
            (b"\x00\x00\x00\x00", false),
            (b"\x0b\x08\x01", false),
            // A group that ends with another group's end tag.
            (b"\x0b\x14", false),
            (b"\x0c", false),
            (b"\x09\x00\x00", false),
        ] {
            assert_eq!(looks_like_message(bytes), message, "{bytes:?}");
        }
    }
}
