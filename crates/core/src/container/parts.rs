//! How many messages a trailer is made of, counted before any of them takes memory.

use crate::wire::{WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The messages in a trailer that hold others.
#[derive(Clone, Copy)]
enum Part {
    Metadata,
    ChunkedMessage,
    ChunkedField,
    FieldIndex,
    /// Holds none.
    Leaf,
}

impl Part {
    /// What a field of this message holds.
    fn below(self, number: u32) -> Option<Part> {
        Some(match (self, number) {
            (Part::Metadata, 1 | 2 | 1007) | (Part::FieldIndex, 2) => Part::Leaf,
            (Part::Metadata, 3 | 1001) | (Part::ChunkedField, 3) => Part::ChunkedMessage,
            (Part::ChunkedMessage, 2) => Part::ChunkedField,
            (Part::ChunkedField, 1) => Part::FieldIndex,
            _ => return None,
        })
    }
}

/// Fails if a serialized trailer consists of more than `most` messages.
///
/// A message of two bytes on the wire takes many times that in memory, and a compressed record a
/// fraction of it in the file.
pub(super) fn check(trailer: &[u8], most: u64) -> Result<()> {
    // Each takes a tag and a length.
    if trailer.len() as u64 / 2 <= most {
        return Ok(());
    }
    let mut count = 0u64;
    let mut open = vec![(Part::Metadata, 0..trailer.len() as u64)];
    let mut cursor = WireCursor::new(trailer);
    while let Some((part, range)) = open.pop() {
        cursor.set_range(range);
        while let Some(field) = cursor.next()? {
            if field.wire_type != WireType::Len {
                continue;
            }
            let Some(below) = part.below(field.number.0) else {
                continue;
            };
            count += 1;
            if count > most {
                let message = format!("a trailer of more than {most} messages");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            if !matches!(below, Part::Leaf) && !field.value.is_empty() {
                open.push((below, field.value));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_wherever_they_are_nested() {
        // Two chunks, and a message with a field that has two tags and a message with an empty
        // field.
        let trailer = b"\x12\x02\x08\x01\x12\x00\x1a\x0e\x12\x0c\x0a\x02\x08\x05\x0a\x02\x18\x00\x1a\x02\x12\x00";
        assert!(check(trailer, 8).is_ok());
        let error = check(trailer, 7).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert_eq!(error.to_string(), "a trailer of more than 7 messages");
    }

    #[test]
    fn empty_messages_count_too() {
        let trailer = [b"\x1a\xc0\x3e".as_slice(), &b"\x12\x00".repeat(4000)].concat();
        assert!(check(&trailer, 4001).is_ok());
        assert!(check(&trailer, 4000).is_err());
    }
}
