//! Values in a query, to compare with the values in a message.

use prost_reflect::Kind;

use crate::wire::{decode_varint, put_varint, wire_type, zigzag};

/// Upper bound on the length of an encoded number, in bytes: 16.
pub(super) const MOST_OF_NUMBER: u64 = 16;

/// A value in a query, to compare with values in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A string or bytes. `implicit` is true if an absent value counts as empty.
    Bytes { value: Vec<u8>, implicit: bool },
    /// A number on the wire. `implicit` is true if an absent value counts as 0.
    Bits {
        value: u64,
        form: NumberForm,
        implicit: bool,
    },
}

/// The form of a number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberForm {
    /// The bits of a fixed-width number.
    Fixed,
    /// A varint of 64 bits.
    Varint,
    /// A varint of which parsers use only the low 32 bits.
    Varint32,
    /// A varint that is true unless it is 0.
    Bool,
}

impl NumberForm {
    pub(crate) fn of(kind: &Kind) -> NumberForm {
        match kind {
            Kind::Bool => NumberForm::Bool,
            Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Enum(_) => NumberForm::Varint32,
            _ if wire_type(kind, false).width().is_some() => NumberForm::Fixed,
            _ => NumberForm::Varint,
        }
    }

    /// Returns the number that parsers read from `found`; `None` if `found` isn't a number of this
    /// form.
    pub(crate) fn read(self, found: &[u8]) -> Option<u64> {
        if self == NumberForm::Fixed {
            let mut bits = [0; 8];
            bits.get_mut(..found.len())?.copy_from_slice(found);
            return Some(u64::from_le_bytes(bits));
        }
        let (bits, _) = decode_varint(found)?;
        Some(match self {
            NumberForm::Varint32 => bits & 0xffff_ffff,
            NumberForm::Bool => u64::from(bits != 0),
            NumberForm::Fixed | NumberForm::Varint => bits,
        })
    }
}

impl Expected {
    /// Parses a value in a query, and converts it to the wire form of the field's kind. Returns
    /// `None` if the text isn't a value of that kind.
    pub(super) fn parse(text: &str, quoted: bool, kind: &Kind, implicit: bool) -> Option<Expected> {
        let signed = |value: i64| u64::from_ne_bytes(value.to_ne_bytes());
        let form = NumberForm::of(kind);
        let bits = |value| {
            Some(Expected::Bits {
                value,
                form,
                implicit,
            })
        };
        match kind {
            Kind::String | Kind::Bytes => Some(Expected::Bytes {
                value: text.as_bytes().to_vec(),
                implicit,
            }),
            Kind::Enum(values) => match values.get_value_by_name(text) {
                Some(value) => bits(signed(value.number().into())),
                None => bits(signed(text.parse::<i32>().ok()?.into())),
            },
            _ if quoted => None,
            Kind::Bool => bits(u64::from(text.parse::<bool>().ok()?)),
            Kind::Int32 => bits(signed(text.parse::<i32>().ok()?.into())),
            Kind::Int64 | Kind::Sfixed64 => bits(signed(text.parse().ok()?)),
            Kind::Uint32 | Kind::Fixed32 => bits(text.parse::<u32>().ok()?.into()),
            Kind::Uint64 | Kind::Fixed64 => bits(text.parse().ok()?),
            Kind::Sint32 => bits(zigzag(text.parse::<i32>().ok()?.into())),
            Kind::Sint64 => bits(zigzag(text.parse().ok()?)),
            Kind::Sfixed32 => {
                let value: i32 = text.parse().ok()?;
                bits(u32::from_ne_bytes(value.to_ne_bytes()).into())
            }
            Kind::Float => bits(text.parse::<f32>().ok()?.to_bits().into()),
            Kind::Double => bits(text.parse::<f64>().ok()?.to_bits()),
            Kind::Message(_) => None,
        }
    }

    /// Returns the maximum number of bytes in the encoding of a value that equals this one.
    pub(super) fn longest(&self) -> u64 {
        match self {
            Expected::Bytes { value, .. } => value.len() as u64,
            Expected::Bits { .. } => MOST_OF_NUMBER,
        }
    }

    /// Returns true if `found` equals this value. `None` is an absent field.
    pub(super) fn is(&self, found: Option<&[u8]>) -> bool {
        match (found, self) {
            (None, Expected::Bytes { value, implicit }) => *implicit && value.is_empty(),
            (
                None,
                Expected::Bits {
                    value, implicit, ..
                },
            ) => *implicit && *value == 0,
            (Some(found), Expected::Bytes { value, .. }) => found == value.as_slice(),
            (Some(found), Expected::Bits { value, form, .. }) => {
                let wanted = match form {
                    // A negative number is extended to 64 bits on the wire.
                    NumberForm::Varint32 => *value & 0xffff_ffff,
                    _ => *value,
                };
                form.read(found) == Some(wanted)
            }
        }
    }

    /// Returns the wire bytes of the value, without tag and length.
    pub(super) fn into_wire(self, kind: &Kind) -> Vec<u8> {
        match self {
            Expected::Bytes { value, .. } => value,
            Expected::Bits {
                value,
                form: NumberForm::Fixed,
                ..
            } => {
                let mut bytes = value.to_le_bytes().to_vec();
                if matches!(kind, Kind::Fixed32 | Kind::Sfixed32 | Kind::Float) {
                    bytes.truncate(4);
                }
                bytes
            }
            Expected::Bits { value, .. } => {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                bytes
            }
        }
    }
}
