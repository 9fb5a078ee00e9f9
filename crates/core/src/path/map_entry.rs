//! Map entries: their keys, and which of those may stand in a path.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::field_ref::FieldRef;
use super::key_codec::{EntryKey, KeyCodec, KeyForm};
use super::map_key::MapKey;
use crate::wire::{Field, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The most bytes a string key may have for its entry to be named by a path.
const LONGEST_KEY: u64 = 64 << 10;

/// Up to which size readers hold a map entry whose key stands behind its value, or is left out: 16
/// MiB. Larger ones they pass over, but don't go into.
pub(crate) const LARGEST_HELD_ENTRY: u64 = 16 << 20;

/// Whether readers get to the value of a map entry, if it stays there, before they know its key,
/// and can't hold it until they do.
pub(crate) fn is_closed(entry: &Field, value: &Field) -> bool {
    value.start == entry.value.start && entry.value.end - entry.value.start > LARGEST_HELD_ENTRY
}

/// A map entry that has at most one key and one value, and nothing else.
pub(crate) struct MapEntry {
    pub(crate) key: MapKey,
    /// None if it is the default one, which some writers leave out.
    pub(crate) value: Option<Field>,
}

/// Reads the key of the map entry at `range`, and where its length-delimited value is. `None` if a
/// path can't name the value: the entry has several, repeats its key, holds more, or its key is no
/// valid text or very long.
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

/// How much of a map entry is looked at to hop to its next field: little, since a value in a chunk
/// of its own may be right behind.
const ENTRY_WINDOW: usize = 16;

pub(crate) fn key_codec(map: &FieldRef) -> Option<KeyCodec> {
    match map.kind() {
        Kind::Message(entry) if map.is_map() => {
            KeyCodec::of_kind(&entry.map_entry_key_field().kind())
        }
        _ => None,
    }
}

/// Has `look` look at the key of an entry: the last, wherever it stands, as in every reader.
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
        let message = format!("a map key of {len} bytes, which may have at most {LONGEST_KEY},");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(value.start));
    }
    Ok(look(EntryKey::of_value(wire_type, cursor.bytes(value)?)))
}

/// The next field of a map entry; `rest` is what is left of it.
fn hop<I: Input>(cursor: &mut WireCursor<I>, rest: Range<u64>) -> Result<Option<Field>> {
    let left = rest.end - rest.start;
    let want = usize::try_from(left).map_or(ENTRY_WINDOW, |left| left.min(ENTRY_WINDOW));
    let mut front = WireCursor::new(cursor.input_mut().fetch(rest.start, want)?);
    front.set_range(0..left);
    match front.next() {
        Ok(field) => Ok(field.map(|field| field.shifted_by(rest.start))),
        // A group that ends behind the window, or a tag or length too long for it; or the entry
        // breaks the wire format.
        Err(_) => {
            cursor.set_range(rest);
            cursor.next()
        }
    }
}
