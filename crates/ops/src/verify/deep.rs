//! Parsing a message without loading it, to check the nesting of messages, wire types, packed runs
//! and strings.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::path::{FieldPath, FieldRef, Step};
use proto_splitter_core::wire::{Field, Input, MAX_VARINT_LEN, WireCursor, WireType, wire_type};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Number of bytes of a long value to check at a time.
const PIECE: u64 = 64 << 10;

/// Statistics about a completely parsed message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Parsed {
    /// Number of messages: the outermost message and all messages nested in it.
    pub messages: u64,
    /// Number of fields in all messages.
    pub fields: u64,
    /// Number of fields that the message type doesn't declare, or declares with a different wire
    /// type.
    pub unknown_fields: u64,
}

/// Parses `input`, which must consist of one message of the given type. Messages may be nested at
/// most `max_depth` deep.
pub(super) fn parse(
    input: impl Input,
    descriptor: &MessageDescriptor,
    max_depth: usize,
) -> Result<Parsed> {
    let cursor = WireCursor::new(input);
    let mut parser = Parser {
        cursor,
        path: FieldPath::root(),
        parsed: Parsed::default(),
        max_depth,
    };
    let parsed = parser.message(descriptor, None);
    parsed.map_err(|error| error.at_path(parser.path.display(Some(descriptor))))?;
    Ok(parser.parsed)
}

struct Parser<I> {
    cursor: WireCursor<I>,
    /// Path of the current field or, after an error, of the field with the error.
    path: FieldPath,
    parsed: Parsed,
    max_depth: usize,
}

impl<I: Input> Parser<I> {
    /// Parses the message at the cursor up to the message's end or, for a group, its end tag.
    fn message(&mut self, descriptor: &MessageDescriptor, group: Option<&Field>) -> Result<()> {
        if self.path.steps().len() > self.max_depth {
            let message = format!(
                "messages nest deeper than the maximum depth of {}",
                self.max_depth
            );
            return Err(
                Error::new(ErrorKind::LimitExceeded, message).at_offset(self.cursor.position())
            );
        }
        self.parsed.messages += 1;
        let mut counts = Counts::default();
        while let Some(field) = self.cursor.header()? {
            if field.wire_type == WireType::EndGroup {
                return match group {
                    Some(group) if group.number == field.number => Ok(()),
                    _ => Err(invalid("the end tag closes no group", field.start)),
                };
            }
            self.field(descriptor, field, &mut counts)?;
        }
        match group {
            Some(group) => Err(invalid(
                &format!("group {} has no end tag", group.number),
                group.start,
            )),
            None => Ok(()),
        }
    }

    fn field(
        &mut self,
        descriptor: &MessageDescriptor,
        mut field: Field,
        counts: &mut Counts,
    ) -> Result<()> {
        self.parsed.fields += 1;
        let end = self.cursor.end();
        let known = FieldRef::by_number(descriptor, field.number.0);
        match known
            .as_ref()
            .map(|known| (known, reading(known, field.wire_type)))
        {
            None | Some((_, None)) => {
                self.parsed.unknown_fields += 1;
                if field.wire_type == WireType::StartGroup {
                    self.cursor.skip_group(&mut field)?;
                    return Ok(());
                }
            }
            Some((known, Some(reading))) => {
                self.path.push(step(known, counts));
                self.value(&field, reading)?;
                self.path.pop();
                if field.wire_type == WireType::StartGroup {
                    return Ok(());
                }
            }
        }
        self.cursor.set_range(field.end..end);
        Ok(())
    }

    fn value(&mut self, field: &Field, reading: Reading) -> Result<()> {
        match reading {
            Reading::Message(inner) if field.wire_type == WireType::StartGroup => {
                self.message(&inner, Some(field))
            }
            Reading::Message(inner) => {
                self.cursor.set_range(field.value.clone());
                self.message(&inner, None)
            }
            Reading::Utf8 => self.utf8(field.value.clone()),
            Reading::Varints => self.varints(field.value.clone()),
            Reading::Fixed(width)
                if !(field.value.end - field.value.start).is_multiple_of(width) =>
            {
                Err(invalid(
                    &format!("the size of the packed run is not a multiple of {width} bytes"),
                    field.value.start,
                ))
            }
            Reading::Fixed(_) | Reading::Any => Ok(()),
        }
    }

    fn utf8(&mut self, value: Range<u64>) -> Result<()> {
        match self.cursor.first_not_utf8(value)? {
            None => Ok(()),
            Some(at) => Err(invalid("the string is not UTF-8", at)),
        }
    }

    fn varints(&mut self, value: Range<u64>) -> Result<()> {
        let mut position = value.start;
        while position < value.end {
            let piece = position..value.end.min(position + PIECE);
            let last = piece.end == value.end;
            let bytes = self.cursor.bytes(piece)?;
            let (mut done, mut is_too_long) = (0, false);
            for (at, byte) in bytes.iter().enumerate() {
                if *byte < 0x80 {
                    done = at + 1;
                } else if at + 1 - done >= MAX_VARINT_LEN {
                    is_too_long = true;
                    break;
                }
            }
            let whole = done == bytes.len();
            position += done as u64;
            if !whole && (last || is_too_long) {
                let message = "a varint in the packed run is truncated or too long";
                return Err(invalid(message, position));
            }
        }
        Ok(())
    }
}

/// The way in which a field's value is checked.
enum Reading {
    Message(MessageDescriptor),
    Utf8,
    /// Checks a packed run of varints.
    Varints,
    /// Checks a packed run of values, each with this number of bytes.
    Fixed(u64),
    /// Checks nothing, since any value is valid.
    Any,
}

/// Returns the way to check a declared field with this wire type; `None` if protobuf parsers would
/// treat the field as unknown because of its wire type.
fn reading(field: &FieldRef, wire: WireType) -> Option<Reading> {
    let kind = field.kind();
    let own = wire_type(&kind, field.is_group());
    let reading = match kind {
        Kind::Message(message) => Reading::Message(message),
        Kind::String if field.verifies_utf8() => Reading::Utf8,
        Kind::String | Kind::Bytes => Reading::Any,
        _ if field.is_list() && wire == WireType::Len => {
            let each = |width: u8| Reading::Fixed(width.into());
            return Some(own.width().map_or(Reading::Varints, each));
        }
        _ => Reading::Any,
    };
    (wire == own).then_some(reading)
}

/// The number of elements parsed so far for each repeated field, by field number.
#[derive(Debug, Default)]
struct Counts(Vec<(u32, u64)>);

fn step(field: &FieldRef, counts: &mut Counts) -> Step {
    let number = field.number();
    if !field.is_list() && !field.is_map() {
        return Step::field(number);
    }
    let count = match counts.0.iter().position(|(known, _)| *known == number) {
        Some(at) => &mut counts.0[at].1,
        None => {
            counts.0.push((number, 0));
            let last = counts.0.len() - 1;
            &mut counts.0[last].1
        }
    };
    *count += 1;
    Step::index(number, *count - 1)
}

#[cold]
fn invalid(message: &str, offset: u64) -> Error {
    Error::new(ErrorKind::InvalidMessage, message).at_offset(offset)
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::formats::Format;
    use proto_splitter_graph_def::GraphDefFormat;

    use super::*;

    fn parse_as(name: &str, bytes: &[u8]) -> Result<Parsed> {
        let pool = GraphDefFormat.descriptor_pool().unwrap();
        parse(bytes, &pool.get_message_by_name(name).unwrap(), 100)
    }

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        proto_splitter_core::wire::put_varint(&mut bytes, content.len() as u64);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn messages_and_fields_are_counted() {
        let node = [
            field(1, b"name"),
            field(3, b"input"),
            field(5, &field(1, b"key")),
        ]
        .concat();
        let graph = [field(1, &node), field(15, b"new")].concat();
        let parsed = parse_as("tensorflow.GraphDef", &graph).unwrap();
        assert_eq!(
            parsed,
            Parsed {
                messages: 3,
                fields: 6,
                unknown_fields: 1
            }
        );
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path_and_offset() {
        let node = [field(1, b"ok"), field(3, b"a"), field(3, b"\xff")].concat();
        let graph = [field(1, b""), field(1, &node)].concat();
        let error = parse_as("tensorflow.GraphDef", &graph).unwrap_err();
        assert_eq!(
            error.to_string(),
            "node[1].input[1]: the string is not UTF-8 at 0xd"
        );
    }

    #[test]
    fn long_strings_are_checked_across_pieces() {
        let text = "a".to_owned() + &"é".repeat(100_000);
        assert!(parse_as("tensorflow.NodeDef", &field(1, text.as_bytes())).is_ok());
        let cut = &text.as_bytes()[..text.len() - 1];
        let error = parse_as("tensorflow.NodeDef", &field(1, cut)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("name: the string is not UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn strings_of_an_edition_are_checked_unless_its_features_say_otherwise() {
        let set = include_bytes!("../../../../tests/data/schemas/editions.binpb");
        let pool = proto_splitter_core::schema::decode_descriptor_set(set).unwrap();
        let name = "editions.presence.Sensor";
        let parsed = |number| {
            let message = field(number, b"\xff");
            parse(
                message.as_slice(),
                &pool.get_message_by_name(name).unwrap(),
                100,
            )
        };
        assert!(parsed(1).is_err());
        assert!(parsed(5).is_ok());
    }

    #[test]
    fn packed_runs_are_whole() {
        let tensor = "tensorflow.TensorProto";
        assert!(parse_as(tensor, &field(5, &[0; 8])).is_ok());
        assert!(parse_as(tensor, &field(5, &[0; 7])).is_err());
        assert!(parse_as(tensor, &field(10, &[0x80, 1, 5])).is_ok());
        assert!(parse_as(tensor, &field(10, &[0x80])).is_err());
        let too_long = [[0x80; 10].as_slice(), &[1]].concat();
        assert!(parse_as(tensor, &field(10, &too_long)).is_err());
        // The length of a piece isn't a multiple of three, so pieces end inside these varints.
        assert!(parse_as(tensor, &field(10, &[0xff, 0xff, 1].repeat(100_000))).is_ok());
    }

    #[test]
    fn another_wire_type_makes_an_unknown_field() {
        let parsed = parse_as("tensorflow.NodeDef", &[0x08, 1, 0x13, 0x08, 1, 0x14]).unwrap();
        assert_eq!(
            parsed,
            Parsed {
                messages: 1,
                fields: 2,
                unknown_fields: 2
            }
        );
    }

    #[test]
    fn nesting_has_an_end() {
        // An AttrValue can contain a function, whose attributes are AttrValues in turn.
        let nested = |levels| {
            (0..levels).fold(Vec::new(), |inner, _| {
                field(10, &field(2, &field(2, &inner)))
            })
        };
        assert!(parse_as("tensorflow.AttrValue", &nested(33)).is_ok());
        let error = parse_as("tensorflow.AttrValue", &nested(34)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
}
