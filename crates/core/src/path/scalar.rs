//! Values of scalar fields as Rust's own types.

use std::cmp::Ordering;

use bytes::Bytes;
use prost_reflect::Kind;

use crate::wire::{decode_varint, low_32, unzigzag};

/// A value of a scalar field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScalarValue {
    /// A signed integer of any protobuf type, or the number of an enum value.
    Signed(i64),
    /// An unsigned integer of any protobuf type.
    Unsigned(u64),
    /// A `double`.
    Double(f64),
    /// A `float`.
    Float(f32),
    /// A `bool`.
    Bool(bool),
    /// A `string`.
    String(String),
    /// A `bytes` value.
    Bytes(Bytes),
}

impl ScalarValue {
    /// Decodes a value of this kind from its wire bytes. Returns `None` if the bytes are invalid
    /// for the kind.
    ///
    /// ```
    /// use prost_reflect::Kind;
    /// use proto_splitter_core::view::ScalarValue;
    ///
    /// let value = ScalarValue::decode(&Kind::Sint32, vec![0x03].into());
    /// assert_eq!(value, Some(ScalarValue::Signed(-2)));
    /// ```
    pub fn decode(kind: &Kind, bytes: Bytes) -> Option<ScalarValue> {
        let varint = || {
            let (value, len) = decode_varint(&bytes)?;
            (len == bytes.len()).then_some(value)
        };
        let four = || <[u8; 4]>::try_from(&bytes[..]).ok();
        let eight = || <[u8; 8]>::try_from(&bytes[..]).ok();
        Some(match kind {
            Kind::Int64 => ScalarValue::Signed(varint()?.cast_signed()),
            // Bits beyond the lower 32 are dropped, as protobuf parsers do.
            Kind::Int32 | Kind::Enum(_) => {
                ScalarValue::Signed(low_32(varint()?).cast_signed().into())
            }
            Kind::Sint64 => ScalarValue::Signed(unzigzag(varint()?)),
            Kind::Sint32 => ScalarValue::Signed(unzigzag(low_32(varint()?).into())),
            Kind::Sfixed64 => ScalarValue::Signed(i64::from_le_bytes(eight()?)),
            Kind::Sfixed32 => ScalarValue::Signed(i32::from_le_bytes(four()?).into()),
            Kind::Uint64 => ScalarValue::Unsigned(varint()?),
            Kind::Uint32 => ScalarValue::Unsigned(low_32(varint()?).into()),
            Kind::Fixed64 => ScalarValue::Unsigned(u64::from_le_bytes(eight()?)),
            Kind::Fixed32 => ScalarValue::Unsigned(u32::from_le_bytes(four()?).into()),
            Kind::Double => ScalarValue::Double(f64::from_le_bytes(eight()?)),
            Kind::Float => ScalarValue::Float(f32::from_le_bytes(four()?)),
            Kind::Bool => ScalarValue::Bool(varint()? != 0),
            Kind::String => ScalarValue::String(String::from_utf8(bytes.into()).ok()?),
            Kind::Bytes => ScalarValue::Bytes(bytes),
            Kind::Message(_) => return None,
        })
    }

    /// Returns the value of an absent field of this kind, which is 0 or empty; `None` for messages.
    pub(crate) fn zero(kind: &Kind) -> Option<ScalarValue> {
        let bytes: &[u8] = match kind {
            Kind::String | Kind::Bytes => b"",
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => &[0; 8],
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => &[0; 4],
            _ => &[0],
        };
        ScalarValue::decode(kind, Bytes::from_static(bytes))
    }

    /// Compares two values of the same variant. Returns `None` for values of different variants,
    /// and if a float is NaN.
    pub(crate) fn order(&self, other: &ScalarValue) -> Option<Ordering> {
        use ScalarValue::{Bool, Double, Float, Signed, String, Unsigned};
        match (self, other) {
            (Signed(a), Signed(b)) => Some(a.cmp(b)),
            (Unsigned(a), Unsigned(b)) => Some(a.cmp(b)),
            (Double(a), Double(b)) => a.partial_cmp(b),
            (Float(a), Float(b)) => a.partial_cmp(b),
            (Bool(a), Bool(b)) => Some(a.cmp(b)),
            (String(a), String(b)) => Some(a.cmp(b)),
            (ScalarValue::Bytes(a), ScalarValue::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            ScalarValue::Signed(_) => "a signed integer",
            ScalarValue::Unsigned(_) => "an unsigned integer",
            ScalarValue::Double(_) => "a double",
            ScalarValue::Float(_) => "a float",
            ScalarValue::Bool(_) => "a bool",
            ScalarValue::String(_) => "a string",
            ScalarValue::Bytes(_) => "bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_on_the_wire_are_values_of_their_kinds() {
        use ScalarValue::{Bool, Double, Float, Signed, Unsigned};
        let ones: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let cases: [(Kind, &[u8], Option<ScalarValue>); 17] = [
            (Kind::Int64, ones, Some(Signed(-1))),
            (Kind::Int32, ones, Some(Signed(-1))),
            (Kind::Int32, b"\x80\x80\x80\x80\x10", Some(Signed(0))),
            (Kind::Uint64, ones, Some(Unsigned(u64::MAX))),
            (Kind::Uint32, ones, Some(Unsigned(u32::MAX.into()))),
            (Kind::Sint64, ones, Some(Signed(i64::MIN))),
            (Kind::Sint32, b"\x03", Some(Signed(-2))),
            (Kind::Sfixed32, b"\xff\xff\xff\xff", Some(Signed(-1))),
            (Kind::Sfixed64, &[0xff; 8], Some(Signed(-1))),
            (Kind::Fixed32, b"\x01\0\0\0", Some(Unsigned(1))),
            (Kind::Fixed64, &[0xff; 8], Some(Unsigned(u64::MAX))),
            (Kind::Float, b"\0\0\x80\x3f", Some(Float(1.0))),
            (Kind::Double, b"\0\0\0\0\0\0\xf0\x3f", Some(Double(1.0))),
            (Kind::Bool, b"\x02", Some(Bool(true))),
            (Kind::Bool, b"", None),
            (Kind::Fixed32, b"\x01\0\0", None),
            (Kind::String, b"\xff", None),
        ];
        for (kind, bytes, expected) in cases {
            let found = ScalarValue::decode(&kind, Bytes::from_static(bytes));
            assert_eq!(found, expected, "{kind:?} {bytes:?}");
        }
    }
}
