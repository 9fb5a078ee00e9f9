//! Printing messages of unknown type as text, with the same guesses as `protoc --decode_raw`.

use std::io::Write;

use proto_splitter::Error;
use proto_splitter::size_tree::looks_like_message;
use proto_splitter::wire::{WireCursor, WireType, decode_varint};

use super::{cut, quoted};

/// Maximum nesting depth to decode. Deeper messages are shown as bytes.
const MAX_DEPTH: usize = 100;

/// Writes a value with the wire type `wire`, or a whole message if `wire` is `None`. Fields are
/// printed in the order in which they are encoded, with their numbers as names. Strings and bytes
/// are cut after `most` bytes. Numbers are printed in their encoded form. A length-delimited value
/// is printed as a message if it looks like one.
///
/// # Errors
///
/// Fails if the bytes of a message aren't a sequence of fields, or if writing fails.
pub(crate) fn value(
    bytes: &[u8],
    wire: Option<WireType>,
    most: usize,
    sink: &mut dyn Write,
) -> Result<(), Error> {
    let line = match wire {
        None | Some(WireType::StartGroup) => return fields(bytes, 0, most, sink),
        Some(WireType::Len) if looks_like_message(bytes) => return fields(bytes, 0, most, sink),
        Some(WireType::Len) => text(bytes, most),
        Some(wire) => shown(bytes, wire),
    };
    Ok(writeln!(sink, "{line}")?)
}

fn fields(bytes: &[u8], depth: usize, most: usize, sink: &mut dyn Write) -> Result<(), Error> {
    let mut cursor = WireCursor::new(bytes);
    let indent = 2 * depth;
    while let Some(field) = cursor.next()? {
        let (number, wire) = (field.number, field.wire_type);
        let value = cursor.bytes(field.value)?;
        let inside = match wire {
            WireType::StartGroup => depth < MAX_DEPTH,
            WireType::Len => depth < MAX_DEPTH && looks_like_message(value),
            _ => false,
        };
        if inside {
            writeln!(sink, "{:indent$}{number} {{", "")?;
            fields(value, depth + 1, most, sink)?;
            writeln!(sink, "{:indent$}}}", "")?;
            continue;
        }
        let shown = match wire {
            WireType::Len | WireType::StartGroup => text(value, most),
            _ => shown(value, wire),
        };
        writeln!(sink, "{:indent$}{number}: {shown}", "")?;
    }
    Ok(())
}

fn text(bytes: &[u8], most: usize) -> String {
    let is_text = std::str::from_utf8(bytes).is_ok();
    let (front, more) = cut(bytes, most, is_text);
    format!("{}{more}", quoted(front, is_text))
}

fn shown(bytes: &[u8], wire: WireType) -> String {
    let mut word = [0; 8];
    for (slot, byte) in word.iter_mut().zip(bytes) {
        *slot = *byte;
    }
    let word = u64::from_le_bytes(word);
    match wire {
        WireType::Fixed32 => format!("0x{word:08x}"),
        WireType::Fixed64 => format!("0x{word:016x}"),
        _ => decode_varint(bytes).map_or_else(String::new, |(value, _)| value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_guessed_as_protoc_guesses_them() {
        // The fields are a varint, a message with a string, a group, fixed numbers of 4 and 8
        // bytes, and bytes.
        let bytes = b"\x08\x96\x01\x12\x09\x0a\x07testing\x1b\x08\x05\x1c\x25\x01\x00\x00\x00\x29\x02\x00\x00\x00\x00\x00\x00\x00\x32\x02\xff\x00\x3a\x00";
        let mut out = Vec::new();
        value(bytes, None, 4, &mut out).unwrap();
        let expected = "1: 150\n2 {\n  1: \"test\" # and 3 more bytes\n}\n3 {\n  1: 5\n}\n4: 0x00000001\n5: 0x0000000000000002\n6: \"\\377\\000\"\n7: \"\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_nests_deeper_than_is_looked_is_shown_as_bytes() {
        let mut bytes = b"\x08\x01".to_vec();
        for _ in 0..200 {
            let mut outer = vec![0x0a];
            proto_splitter::wire::put_varint(&mut outer, bytes.len() as u64);
            outer.extend(bytes);
            bytes = outer;
        }
        let mut out = Vec::new();
        value(&bytes, None, 10, &mut out).unwrap();
        assert!(out.len() < 100_000);
        assert!(value(b"\x0a\x05a", None, 10, &mut Vec::new()).is_err());
    }
}
