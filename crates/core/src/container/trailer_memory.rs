//! Estimating the memory that a trailer needs, before this memory is allocated.

use crate::wire::{WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The type of a message in a trailer.
#[derive(Clone, Copy)]
enum Part {
    Metadata,
    Version,
    ChunkInfo,
    ChunkedMessage,
    ChunkedField,
    FieldIndex,
    MapKey,
    File,
}

impl Part {
    /// Returns the type of the message in field `number` of this type; `None` if the field contains
    /// no message.
    fn below(self, number: u32) -> Option<Part> {
        Some(match (self, number) {
            (Part::Metadata, 1) => Part::Version,
            (Part::Metadata, 2) => Part::ChunkInfo,
            (Part::Metadata, 1007) => Part::File,
            (Part::Metadata, 3 | 1001) | (Part::ChunkedField, 3) => Part::ChunkedMessage,
            (Part::ChunkedMessage, 2) => Part::ChunkedField,
            (Part::ChunkedField, 1) => Part::FieldIndex,
            (Part::FieldIndex, 2) => Part::MapKey,
            _ => return None,
        })
    }

    /// Returns the memory for one message of this type, in bytes. Includes unused capacity, and the
    /// structures that are built from the message when the file is opened, such as the record of a
    /// chunk and the nodes of a path.
    fn cost(self) -> u64 {
        match self {
            Part::Metadata | Part::Version | Part::ChunkedMessage | Part::MapKey => 64,
            Part::ChunkInfo => 320,
            Part::ChunkedField => 240,
            Part::FieldIndex => 160,
            Part::File => 1024,
        }
    }

    /// Returns the memory for each number in a message of this type, in bytes. In a packed field,
    /// each byte counts as a number, since a number may be as short as one byte.
    fn packed(self) -> u64 {
        match self {
            Part::Version => 8,
            _ => 0,
        }
    }
}

/// Maximum memory for one byte of a trailer, in bytes: half of the largest [cost](Part::cost),
/// since the smallest message has two bytes, a tag and a length.
const MOST_FOR_A_BYTE: u64 = 512;

/// Memory for each byte of a trailer, in bytes, in addition to the memory for the trailer's
/// messages. Covers the byte as it was read, and its copy in a string.
const EACH_BYTE: u64 = 3;

/// Fails if parsing a serialized trailer would use more than `most` bytes of memory.
///
/// An empty message has two bytes on the wire, and even fewer in a compressed record, but uses many
/// times that in memory.
pub(crate) fn check(trailer: &[u8], most: u64) -> Result<()> {
    let len = trailer.len() as u64;
    if len.saturating_mul(MOST_FOR_A_BYTE) <= most {
        return Ok(());
    }
    let mut cost = len.saturating_mul(EACH_BYTE);
    let mut open = vec![(Part::Metadata, 0..len)];
    let mut cursor = WireCursor::new(trailer);
    while let Some((part, range)) = open.pop() {
        cursor.set_range(range);
        while let Some(field) = cursor.next()? {
            if field.wire_type != WireType::Len {
                cost += part.packed();
            } else if let Some(below) = part.below(field.number.0) {
                cost += below.cost();
                if !field.value.is_empty() {
                    open.push((below, field.value));
                }
            } else {
                cost = cost.saturating_add((field.value.end - field.value.start) * part.packed());
            }
            if cost > most {
                let message = format!("a trailer that takes more than {most} bytes of memory");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lowest memory limit with which [`check`] accepts a trailer.
    fn cost(trailer: &[u8]) -> u64 {
        let (mut low, mut high) = (0, 1 << 40);
        while low < high {
            let middle = (low + high) / 2;
            if check(trailer, middle).is_ok() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    #[test]
    fn messages_are_counted_wherever_they_are_nested() {
        // The trailer has two chunks, a message with a field whose path has two tags, and a message
        // with an empty field.
        let trailer = b"\x12\x02\x08\x01\x12\x00\x1a\x0e\x12\x0c\x0a\x02\x08\x05\x0a\x02\x18\x00\x1a\x02\x12\x00";
        let messages = 2 * 320 + 64 + 240 + 2 * 160 + 64 + 240;
        assert_eq!(cost(trailer), messages + 3 * trailer.len() as u64);
        let error = check(trailer, 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert_eq!(
            error.to_string(),
            "a trailer that takes more than 1000 bytes of memory"
        );
    }

    #[test]
    fn a_packed_run_of_numbers_costs_what_they_take_in_memory() {
        let run = vec![1; 100_000];
        let version = [b"\x1a\xa0\x8d\x06".as_slice(), &run].concat();
        let trailer = [b"\x0a\xa4\x8d\x06".as_slice(), &version].concat();
        assert!(cost(&trailer) > 8 * 100_000);
        let singly = b"\x18\x01".repeat(1000);
        let trailer = [b"\x0a\xd0\x0f".as_slice(), &singly].concat();
        assert!(cost(&trailer) > 8 * 1000);
    }

    #[test]
    fn empty_messages_count_too() {
        let trailer = [b"\x1a\xc0\x3e".as_slice(), &b"\x12\x00".repeat(4000)].concat();
        assert!(cost(&trailer) > 4000 * 240);
    }
}
