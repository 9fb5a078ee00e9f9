//! Map entries, and the keys that a path may contain.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::field_ref::FieldRef;
use super::key_codec::{EntryKey, KeyCodec, KeyForm};
use super::map_key::MapKey;
use crate::wire::{Field, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a string key in a path: 64 KiB.
const LONGEST_KEY: u64 = 64 << 10;

/// Maximum size of a map entry that readers hold in memory if its key comes after its value or is
/// absent: 16 MiB. Readers skip larger entries without parsing them.
pub(crate) const LARGEST_HELD_ENTRY: u64 = 16 << 20;

/// Returns true if readers can't enter a map entry's value because the value comes before the key,
/// and the entry is too large to be held in memory until the key is found.
pub(crate) fn is_closed(entry: &Field, value: &Field) -> bool {
    value.start == entry.value.start && entry.value.end - entry.value.start > LARGEST_HELD_ENTRY
}

/// A map entry with at most one key and one value, and nothing else.
pub(crate) struct MapEntry {
    pub(crate) key: MapKey,
    /// The value; `None` if the entry has none, since some writers omit default values.
    pub(crate) value: Option<Field>,
}

/// Parses the map entry at `range`: its key, and its length-delimited value. Returns `None` if a
/// path can't name the value, because the entry has several values, several keys or other fields,
/// or because its key is invalid text or too long.
pub(crate) fn parse_entry(
    cursor: &mut WireCursor<impl Input>,
    range: Range<u64>,
    entry: &MessageDescriptor,
) -> Result<Option<MapEntry>> {
    let mut key = None;
    let mut value = None;
    cursor.set_range(range);
    while let Some(field) = cursor.next()? {
        match (field.number.0, &key, &value) {
            (1, None, _) => key = Some(field),
            (2, _, None) if field.wire_type == WireType::Len => value = Some(field),
            _ => return Ok(None),
        }
    }
    let key = match key {
        Some(field) if field.value.end - field.value.start > LONGEST_KEY => return Ok(None),
        Some(field) => EntryKey::of_value(field.wire_type, cursor.bytes(field.value)?),
        None => EntryKey::Absent,
    };
    let codec = KeyCodec::of_kind(&entry.map_entry_key_field().kind());
    let key = codec.and_then(|codec| codec.exact_key(key));
    Ok(key.map(|key| MapEntry { key, value }))
}

/// Number of bytes to read from a map entry for its next field. The number is small to avoid
/// reading from a following value, which may be in a separate chunk.
const ENTRY_WINDOW: usize = 16;

pub(crate) fn key_codec(map: &FieldRef) -> Option<KeyCodec> {
    match map.kind() {
        Kind::Message(entry) if map.is_map() => {
            KeyCodec::of_kind(&entry.map_entry_key_field().kind())
        }
        _ => None,
    }
}

/// Calls `look` with the key of a map entry, and returns the result of `look`. If the entry has
/// several keys, the last one is used, as in protobuf parsers.
pub(crate) fn with_key<I: Input, T>(
    cursor: &mut WireCursor<I>,
    entry: &Field,
    form: KeyForm,
    look: impl FnOnce(EntryKey<'_>) -> T,
) -> Result<T> {
    let mut key = None;
    if entry.wire_type == WireType::Len {
        let mut at = entry.value.start;
        while let Some(field) = hop(cursor, at..entry.value.end)? {
            at = field.end;
            if field.number.0 == 1 && form.on_wire(field.wire_type).is_some() {
                key = Some(field);
            }
        }
    }
    let Some(Field {
        wire_type, value, ..
    }) = key
    else {
        return Ok(look(EntryKey::Absent));
    };
    let len = value.end - value.start;
    if len > LONGEST_KEY {
        let message =
            format!("the map key has {len} bytes, more than the maximum of {LONGEST_KEY},");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(value.start));
    }
    Ok(look(EntryKey::of_value(wire_type, cursor.bytes(value)?)))
}

/// Returns the key of a map entry.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the key isn't UTF-8: a path can't contain such a key, and
/// different keys would be the same in it. Protobuf parsers also refuse such a message.
pub(crate) fn valid_key<I: Input>(
    cursor: &mut WireCursor<I>,
    entry: &Field,
    codec: KeyCodec,
) -> Result<MapKey> {
    let key = with_key(cursor, entry, KeyForm::Typed(codec), |key| {
        (!key.is_invalid_text()).then(|| codec.key(key))
    })?;
    key.ok_or_else(|| {
        let message = "the map has a key that is not UTF-8";
        Error::new(ErrorKind::InvalidMessage, message)
    })
}

/// Returns the next field of a map entry whose remaining bytes are `rest`; `None` at the entry's
/// end.
fn hop<I: Input>(cursor: &mut WireCursor<I>, rest: Range<u64>) -> Result<Option<Field>> {
    let left = rest.end - rest.start;
    let want = usize::try_from(left).map_or(ENTRY_WINDOW, |left| left.min(ENTRY_WINDOW));
    let mut front = WireCursor::new(cursor.input_mut().fetch(rest.start, want)?);
    front.set_range(0..left);
    match front.next() {
        Ok(field) => Ok(field.map(|field| field.shifted_by(rest.start))),
        // Either a group ends after the window, or a tag or length is too long for the window, or
        // the entry breaks the wire format. Parsing without the window returns the field or the
        // error.
        Err(_) => {
            cursor.set_range(rest);
            cursor.next()
        }
    }
}
