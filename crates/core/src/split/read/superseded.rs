//! Superseded values. They stay in place, so a merge walks through them before it reaches the value
//! that counts.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::source::Source;
use crate::container::LARGEST_DEPTH_LIMIT;
use crate::path::{FieldRef, parse_entry};
use crate::wire::{Field, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Returns true if a merge can walk past the superseded value at `range`: the value isn't empty,
/// since an empty value would be a second placeholder, and if it is a message, all messages in it
/// can be walked.
pub(in crate::split) fn is_passable(
    source: &Source,
    range: Range<u64>,
    message: Option<&MessageDescriptor>,
) -> Result<bool> {
    if range.is_empty() {
        return Ok(false);
    }
    match message.map_or(Ok(true), |message| walk(source, range, message)) {
        Err(error) if is_of_content(&error) => Ok(false),
        result => result,
    }
}

fn is_of_content(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidMessage | ErrorKind::LimitExceeded
    )
}

/// Walks through all messages inside a message of this type. Returns `false` if one of them is a
/// map entry that no path could name, or they nest very deeply; fails if one is malformed.
fn walk(source: &Source, range: Range<u64>, message: &MessageDescriptor) -> Result<bool> {
    let mut cursor = WireCursor::new(source.input());
    // Remainders of the enclosing messages.
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

/// Returns the message in a field of a message type: the field's value or, for a map entry, the
/// entry's value if that is a message. Returns `None` for an entry that no path could name.
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
    let message = match inner.map_entry_value_field().kind() {
        Kind::Message(message) => Some(message),
        _ => None,
    };
    Ok(Some(match entry.value {
        Some(value) => (value.value, message),
        None => (0..0, None),
    }))
}
