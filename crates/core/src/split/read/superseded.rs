//! Superseded values, such as earlier values of a singular field. They are not cut, so a merge
//! parses them before it reaches the value that is used.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::source::Source;
use crate::Result;
use crate::container::LARGEST_DEPTH_LIMIT;
use crate::path::{FieldRef, parse_entry, value_message};
use crate::wire::header::is_malformed;
use crate::wire::{Field, WireCursor, WireType};

/// Returns true if a merge can skip the superseded value at `range`. An empty value can't be
/// skipped, since it looks like the placeholder that marks the position of a chunk. A message can
/// only be skipped if the merge can parse all messages nested in it.
pub(in crate::split) fn is_passable(
    source: &Source,
    range: Range<u64>,
    message: Option<&MessageDescriptor>,
) -> Result<bool> {
    if range.is_empty() {
        return Ok(false);
    }
    match message.map_or(Ok(true), |message| walk(source, range, message)) {
        Err(error) if is_malformed(&error) => Ok(false),
        result => result,
    }
}

/// Traverses all messages inside a message of this type. Returns false if one of them is a map
/// entry to which no path can lead, or if they nest very deeply. Fails if one of them is malformed.
fn walk(source: &Source, range: Range<u64>, message: &MessageDescriptor) -> Result<bool> {
    let mut cursor = WireCursor::new(source.input());
    // Remaining ranges of the enclosing messages.
    let mut open = vec![(range, message.clone())];
    while let Some((range, message)) = open.pop() {
        cursor.set_range(range.clone());
        while let Some(field) = cursor.next()? {
            if !matches!(field.wire_type, WireType::Len | WireType::StartGroup) {
                continue;
            }
            let Some(known) = FieldRef::by_number(&message, field.number.0) else {
                continue;
            };
            let Kind::Message(inner) = known.kind() else {
                continue;
            };
            let Some((value, inner)) = message_in(source, &field, inner, known.is_map())? else {
                return Ok(false);
            };
            let Some(inner) = inner else { continue };
            if open.len() >= LARGEST_DEPTH_LIMIT as usize {
                return Ok(false);
            }
            open.push((field.end..range.end, message.clone()));
            open.push((value, inner));
            break;
        }
    }
    Ok(true)
}

type MessageIn = (Range<u64>, Option<MessageDescriptor>);

/// Returns the message in a message field: the field's value or, for a map entry, the entry's value
/// if that is a message. Returns `None` for an entry to which no path can lead.
fn message_in(
    source: &Source,
    field: &Field,
    inner: MessageDescriptor,
    is_map: bool,
) -> Result<Option<MessageIn>> {
    if !is_map || field.wire_type != WireType::Len {
        return Ok(Some((field.value.clone(), Some(inner).filter(|_| !is_map))));
    }
    let mut cursor = WireCursor::new(source.input());
    let Some(entry) = parse_entry(&mut cursor, field.value.clone(), &inner)? else {
        return Ok(None);
    };
    let message = value_message(&inner);
    Ok(Some(match entry.value {
        Some(value) => (value.value, message),
        None => (0..0, None),
    }))
}
