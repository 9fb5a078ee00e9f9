//! Map entries: their keys, and which of those may stand in a path.

use std::ops::Range;

use prost_reflect::{Kind, MessageDescriptor};

use super::options::Profile;
use crate::Result;
use crate::path::MapKey;
use crate::wire::{Field, Input, WireCursor, WireType, decode_varint};

/// The most bytes a string key may have for its entry to be named by a path.
const LONGEST_KEY: u64 = 64 << 10;

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
    let kind = entry.map_entry_key_field().kind();
    let key = match key {
        Some(field) if field.value.end - field.value.start > LONGEST_KEY => None,
        Some(field) => {
            let wire_type = field.wire_type;
            decode_key(&kind, wire_type, cursor.bytes(field.value)?)
        }
        None => default_key(&kind),
    };
    Ok(key.map(|key| MapEntry { key, value }))
}

fn decode_key(kind: &Kind, wire_type: WireType, bytes: &[u8]) -> Option<MapKey> {
    let varint = || decode_varint(bytes).map(|(value, _)| value);
    match (kind, wire_type) {
        (Kind::String, WireType::Len) => {
            Some(MapKey::String(std::str::from_utf8(bytes).ok()?.to_owned()))
        }
        // Readers cut wider varints down to the key's type; a path then no longer says what is on
        // the wire.
        (Kind::Bool, WireType::Varint) => Some(MapKey::Bool(match varint()? {
            0 => false,
            1 => true,
            _ => return None,
        })),
        (Kind::Uint32, WireType::Varint) => Some(MapKey::U32(u32::try_from(varint()?).ok()?)),
        (Kind::Int32, WireType::Varint) => {
            let wide = i64::from_le_bytes(varint()?.to_le_bytes());
            Some(MapKey::I32(i32::try_from(wide).ok()?))
        }
        (Kind::Uint64, WireType::Varint) => Some(MapKey::U64(varint()?)),
        (Kind::Int64, WireType::Varint) => {
            Some(MapKey::I64(i64::from_le_bytes(varint()?.to_le_bytes())))
        }
        (Kind::Sint32 | Kind::Sint64, WireType::Varint) => {
            let zigzag = varint()?;
            let half = i64::from_le_bytes((zigzag >> 1).to_le_bytes());
            let value = half ^ -i64::from(zigzag & 1 == 1);
            Some(match kind {
                Kind::Sint32 => MapKey::I32(i32::try_from(value).ok()?),
                _ => MapKey::I64(value),
            })
        }
        (Kind::Fixed32, WireType::Fixed32) => {
            Some(MapKey::U32(u32::from_le_bytes(bytes.try_into().ok()?)))
        }
        (Kind::Sfixed32, WireType::Fixed32) => {
            Some(MapKey::I32(i32::from_le_bytes(bytes.try_into().ok()?)))
        }
        (Kind::Fixed64, WireType::Fixed64) => {
            Some(MapKey::U64(u64::from_le_bytes(bytes.try_into().ok()?)))
        }
        (Kind::Sfixed64, WireType::Fixed64) => {
            Some(MapKey::I64(i64::from_le_bytes(bytes.try_into().ok()?)))
        }
        _ => None,
    }
}

fn default_key(kind: &Kind) -> Option<MapKey> {
    Some(match kind {
        Kind::String => MapKey::String(String::new()),
        Kind::Bool => MapKey::Bool(false),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(0),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(0),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(0),
        _ => return None,
    })
}

/// Whether a path may carry this key. TensorFlow's Merger cuts integers down to an int32, and knows
/// no other encodings than these. A merge without the type, as any of ours may be, can't tell
/// zigzag from plain varints.
pub(crate) fn key_is_addressable(key: &MapKey, kind: &Kind, profile: Profile) -> bool {
    match profile {
        Profile::TensorFlow => is_plain(kind) && is_small(key),
        Profile::Extended => !matches!(kind, Kind::Sint32 | Kind::Sint64),
    }
}

fn is_plain(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::String | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64
    )
}

fn is_small(key: &MapKey) -> bool {
    match *key {
        MapKey::String(_) | MapKey::Bool(_) | MapKey::I32(_) => true,
        MapKey::I64(key) => i32::try_from(key).is_ok(),
        MapKey::U32(key) => i32::try_from(key).is_ok(),
        MapKey::U64(key) => i32::try_from(key).is_ok(),
    }
}
