//! Decoding and encoding the keys of map entries.

use prost_reflect::Kind;

use super::map_key::MapKey;
use crate::wire::{
    Field, FieldNumber, WireCursor, WireType, decode_varint, put_varint, tag, unzigzag, zigzag,
};
use crate::{Error, Result};

/// The encoding of a map's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCodec {
    String,
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
}

impl KeyCodec {
    pub(crate) fn of_kind(kind: &Kind) -> Option<KeyCodec> {
        Some(match kind {
            Kind::String => KeyCodec::String,
            Kind::Bool => KeyCodec::Bool,
            Kind::Int32 => KeyCodec::Int32,
            Kind::Int64 => KeyCodec::Int64,
            Kind::Uint32 => KeyCodec::Uint32,
            Kind::Uint64 => KeyCodec::Uint64,
            Kind::Sint32 => KeyCodec::Sint32,
            Kind::Sint64 => KeyCodec::Sint64,
            Kind::Fixed32 => KeyCodec::Fixed32,
            Kind::Fixed64 => KeyCodec::Fixed64,
            Kind::Sfixed32 => KeyCodec::Sfixed32,
            Kind::Sfixed64 => KeyCodec::Sfixed64,
            _ => return None,
        })
    }

    /// Returns the default encoding for a key in a path.
    pub(crate) fn plain(key: &MapKey) -> KeyCodec {
        match key {
            MapKey::String(_) => KeyCodec::String,
            MapKey::Bool(_) => KeyCodec::Bool,
            MapKey::U32(_) => KeyCodec::Uint32,
            MapKey::U64(_) => KeyCodec::Uint64,
            MapKey::I32(_) => KeyCodec::Int32,
            MapKey::I64(_) => KeyCodec::Int64,
        }
    }

    /// Returns the fixed-width variant of this encoding if `wire` is the wire type of that variant,
    /// otherwise this encoding.
    fn with_wire(self, wire: WireType) -> KeyCodec {
        match (self, wire) {
            (KeyCodec::Uint32, WireType::Fixed32) => KeyCodec::Fixed32,
            (KeyCodec::Uint64, WireType::Fixed64) => KeyCodec::Fixed64,
            (KeyCodec::Int32, WireType::Fixed32) => KeyCodec::Sfixed32,
            (KeyCodec::Int64, WireType::Fixed64) => KeyCodec::Sfixed64,
            _ => self,
        }
    }

    /// Returns true if keys in this encoding are varints that mean different numbers with and
    /// without zigzag encoding, so that the key's type matters.
    pub(crate) fn has_zigzag_twin(self) -> bool {
        matches!(self, KeyCodec::Int32 | KeyCodec::Int64)
    }

    /// Returns the wire type of keys.
    pub(crate) fn wire(self) -> WireType {
        match self {
            KeyCodec::String => WireType::Len,
            KeyCodec::Fixed32 | KeyCodec::Sfixed32 => WireType::Fixed32,
            KeyCodec::Fixed64 | KeyCodec::Sfixed64 => WireType::Fixed64,
            _ => WireType::Varint,
        }
    }

    /// Converts the number that encodes a key on the wire to its canonical form. Keys are compared
    /// by this form.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "32-bit keys are the low half of the number on the wire"
    )]
    pub(crate) fn canonical(self, wire: u64) -> u64 {
        let sign_extended = |value: i32| i64::from(value).cast_unsigned();
        match self {
            KeyCodec::Bool => u64::from(wire != 0),
            KeyCodec::Int32 | KeyCodec::Sfixed32 => sign_extended((wire as u32).cast_signed()),
            KeyCodec::Uint32 | KeyCodec::Fixed32 => u64::from(wire as u32),
            KeyCodec::Sint32 => sign_extended(unzigzag(u64::from(wire as u32)) as i32),
            KeyCodec::Sint64 => unzigzag(wire).cast_unsigned(),
            _ => wire,
        }
    }

    /// Returns the key of a map entry, in the type that paths use for such keys.
    pub(crate) fn key(self, entry: EntryKey<'_>) -> MapKey {
        let number = match entry {
            EntryKey::Number(wire, value) if self.wire() == wire => self.canonical(value),
            _ => 0,
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the canonical form of a 32-bit key has 32 significant bits"
        )]
        let low = number as u32;
        match self {
            KeyCodec::String => MapKey::String(match entry {
                EntryKey::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            }),
            KeyCodec::Bool => MapKey::Bool(number != 0),
            KeyCodec::Int32 | KeyCodec::Sint32 | KeyCodec::Sfixed32 => {
                MapKey::I32(low.cast_signed())
            }
            KeyCodec::Int64 | KeyCodec::Sint64 | KeyCodec::Sfixed64 => {
                MapKey::I64(number.cast_signed())
            }
            KeyCodec::Uint32 | KeyCodec::Fixed32 => MapKey::U32(low),
            KeyCodec::Uint64 | KeyCodec::Fixed64 => MapKey::U64(number),
        }
    }

    /// Returns the key of a map entry; `None` if a path can't represent the key exactly. A string
    /// must be valid text, and a number must fit the key's type.
    pub(crate) fn exact_key(self, entry: EntryKey<'_>) -> Option<MapKey> {
        let is_exact = match entry {
            EntryKey::Absent => true,
            EntryKey::Bytes(_) => self.wire() == WireType::Len && !entry.is_invalid_text(),
            EntryKey::Number(wire, value) => {
                wire == self.wire() && value == self.on_wire(self.canonical(value))
            }
        };
        is_exact.then(|| self.key(entry))
    }

    /// Returns the wire encoding of a canonical number.
    fn on_wire(self, canonical: u64) -> u64 {
        match self {
            KeyCodec::Fixed32 | KeyCodec::Sfixed32 => canonical & u64::from(u32::MAX),
            KeyCodec::Sint32 | KeyCodec::Sint64 => zigzag(canonical.cast_signed()),
            _ => canonical,
        }
    }

    /// Encodes a map entry's key field, with its tag.
    pub(crate) fn encode(self, key: &MapKey) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, tag(FieldNumber(1), self.wire()));
        match canonical_key(key) {
            CanonicalKey::String(text) => {
                put_varint(&mut out, text.len() as u64);
                out.extend_from_slice(text);
            }
            CanonicalKey::Number(value) => {
                let bytes = self.on_wire(value).to_le_bytes();
                match self.wire().width() {
                    Some(width) => out.extend_from_slice(&bytes[..usize::from(width)]),
                    None => put_varint(&mut out, u64::from_le_bytes(bytes)),
                }
            }
        }
        out
    }
}

pub(crate) enum CanonicalKey<'a> {
    String(&'a [u8]),
    Number(u64),
}

pub(crate) fn canonical_key(key: &MapKey) -> CanonicalKey<'_> {
    CanonicalKey::Number(match key {
        MapKey::String(key) => return CanonicalKey::String(key.as_bytes()),
        MapKey::Bool(key) => u64::from(*key),
        MapKey::U32(key) => u64::from(*key),
        MapKey::U64(key) => *key,
        MapKey::I32(key) => i64::from(*key).cast_unsigned(),
        MapKey::I64(key) => key.cast_unsigned(),
    })
}

/// The encoding of a map's keys, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyForm {
    /// The encoding that the map's type defines.
    Typed(KeyCodec),
    /// The encoding if the map's type is unknown: the default encoding for a key in a path, or the
    /// fixed-width variant of that encoding.
    Plain(KeyCodec),
}

impl KeyForm {
    /// Returns the encoding to assume for a map of unknown type with this key.
    pub(crate) fn plain(key: &MapKey) -> KeyForm {
        KeyForm::Plain(KeyCodec::plain(key))
    }

    /// Returns the encoding of a key with this wire type; `None` if a field with this wire type is
    /// an unknown field instead of the key.
    pub(crate) fn on_wire(self, wire: WireType) -> Option<KeyCodec> {
        let codec = match self {
            KeyForm::Typed(codec) => codec,
            KeyForm::Plain(codec) => codec.with_wire(wire),
        };
        (codec.wire() == wire).then_some(codec)
    }
}

/// Returns true if `key`, the key in a map entry, is `wanted`.
pub(crate) fn is_key(wanted: &MapKey, form: KeyForm, key: EntryKey<'_>) -> bool {
    let codec = key.wire().and_then(|wire| form.on_wire(wire));
    match (canonical_key(wanted), key, codec) {
        (CanonicalKey::String(wanted), EntryKey::Bytes(key), _) => wanted == key,
        (CanonicalKey::String(wanted), ..) => wanted.is_empty(),
        (CanonicalKey::Number(wanted), EntryKey::Number(_, value), Some(codec)) => {
            wanted == codec.canonical(value)
        }
        (CanonicalKey::Number(wanted), ..) => wanted == 0,
    }
}

/// A map entry's key in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKey<'a> {
    Absent,
    Bytes(&'a [u8]),
    Number(WireType, u64),
}

impl<'a> EntryKey<'a> {
    pub(crate) fn wire(self) -> Option<WireType> {
        match self {
            EntryKey::Absent => None,
            EntryKey::Bytes(_) => Some(WireType::Len),
            EntryKey::Number(wire, _) => Some(wire),
        }
    }

    /// Returns true for bytes that are not valid UTF-8. Such bytes can't be a string key.
    pub(crate) fn is_invalid_text(self) -> bool {
        matches!(self, EntryKey::Bytes(bytes) if std::str::from_utf8(bytes).is_err())
    }

    /// Returns the key in a field with these bytes; [`Absent`](Self::Absent) for a group, which is
    /// not a key.
    pub(crate) fn of_value(wire: WireType, bytes: &'a [u8]) -> Self {
        let number = match wire {
            WireType::Len => return EntryKey::Bytes(bytes),
            WireType::Varint => decode_varint(bytes).map(|(number, _)| number),
            WireType::Fixed32 => bytes
                .first_chunk()
                .map(|four| u32::from_le_bytes(*four).into()),
            WireType::Fixed64 => bytes.first_chunk().map(|eight| u64::from_le_bytes(*eight)),
            WireType::StartGroup | WireType::EndGroup => None,
        };
        number.map_or(EntryKey::Absent, |number| EntryKey::Number(wire, number))
    }
}

/// Finds the key in `window`, the first bytes of a map entry of `len` bytes. Returns the key, and
/// the offset up to which the entry was searched.
///
/// If field 1 occurs several times with the key's wire type, the last occurrence is the key.
/// Writers usually put the key first, so callers limit the bytes to search.
pub(crate) fn entry_key(window: &[u8], len: u64, form: KeyForm) -> Result<(EntryKey<'_>, u64)> {
    let mut key = EntryKey::Absent;
    let mut cursor = WireCursor::new(window);
    loop {
        let at = cursor.position();
        match cursor.next() {
            Ok(Some(field)) if field.number.0 == 1 && form.on_wire(field.wire_type).is_some() => {
                key = value_of(window, &field).unwrap_or(key);
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok((key, at)),
            Err(_) if (window.len() as u64) < len => return Ok((key, at)),
            Err(error) => {
                let offset = error.offset().unwrap_or(at);
                let message = "the map entry is truncated";
                return Err(Error::new(error.kind(), message).at_offset(offset));
            }
        }
    }
}

/// Returns the value of a field in `window`; `None` for a group, which is not a key.
fn value_of<'a>(window: &'a [u8], field: &Field) -> Option<EntryKey<'a>> {
    let [start, end] = [field.value.start, field.value.end].map(usize::try_from);
    let bytes = window.get(start.ok()?..end.ok()?)?;
    match EntryKey::of_value(field.wire_type, bytes) {
        EntryKey::Absent => None,
        key => Some(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn the_key_of_an_entry_is_the_last_wherever_it_stands() {
        let two = EntryKey::Number(WireType::Varint, 2);
        let fixed = EntryKey::Number(WireType::Fixed32, 3);
        let text = KeyForm::plain(&MapKey::String(String::new()));
        let (number, varint) = (
            KeyForm::plain(&MapKey::U32(0)),
            KeyForm::Typed(KeyCodec::Uint32),
        );
        for (form, entry, expected) in [
            (number, &b"\x08\x02\x12\x01v"[..], two),
            (number, b"\x12\x01v\x08\x02", two),
            (number, b"\x08\x01\x08\x02", two),
            (number, b"\x88\x80\x00\x82\x00", two),
            // A group that contains a decoy key, before and after the real key.
            (number, b"\x1b\x08\x01\x1c\x08\x02", two),
            (number, b"\x08\x02\x1b\x08\x01\x1c", two),
            (number, b"\x12\x01v", EntryKey::Absent),
            (number, b"\x0b\x0c", EntryKey::Absent),
            (number, b"", EntryKey::Absent),
            (text, b"\x0a\x03key", EntryKey::Bytes(b"key")),
            // Fields with the key's number, but not its wire type.
            (number, b"\x08\x02\x0a\x01v", two),
            (number, b"\x08\x02\x0d\x03\0\0\0", fixed),
            (varint, b"\x08\x02\x0d\x03\0\0\0", two),
            (varint, b"\x0a\x01v", EntryKey::Absent),
            (text, b"\x0a\x01v\x08\x02", EntryKey::Bytes(b"v")),
        ] {
            let len = entry.len() as u64;
            assert_eq!(
                entry_key(entry, len, form).unwrap(),
                (expected, len),
                "{entry:x?}"
            );
            for end in 0..entry.len() {
                let (_, looked) = entry_key(&entry[..end], len, form).unwrap();
                assert!(looked <= end as u64, "{entry:x?} up to {end}");
            }
        }
        let cut = entry_key(b"\x08\x02\x12\x05v", 5, number).unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::InvalidMessage);
    }
}
