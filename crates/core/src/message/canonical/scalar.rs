//! Numbers on the wire, and how C++ interprets them.

use crate::wire::{WireType, low_32, unzigzag};
use prost_reflect::Kind;

/// The encoding of a number, as far as it affects how the number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// int32 and enums: only the low 32 bits count, and are written sign-extended to 64 bits.
    Int32,
    /// uint32 and sint32: only the low 32 bits count.
    Low32 {
        zigzag: bool,
    },
    Int64,
    Uint64,
    Sint64,
    Bool,
    Fixed32 {
        signed: bool,
    },
    Fixed64 {
        signed: bool,
    },
}

impl Scalar {
    pub(super) fn of_kind(kind: &Kind) -> Option<Scalar> {
        Some(match kind {
            Kind::Int32 | Kind::Enum(_) => Scalar::Int32,
            Kind::Uint32 => Scalar::Low32 { zigzag: false },
            Kind::Sint32 => Scalar::Low32 { zigzag: true },
            Kind::Int64 => Scalar::Int64,
            Kind::Uint64 => Scalar::Uint64,
            Kind::Sint64 => Scalar::Sint64,
            Kind::Bool => Scalar::Bool,
            Kind::Fixed32 | Kind::Float => Scalar::Fixed32 { signed: false },
            Kind::Sfixed32 => Scalar::Fixed32 { signed: true },
            Kind::Fixed64 | Kind::Double => Scalar::Fixed64 { signed: false },
            Kind::Sfixed64 => Scalar::Fixed64 { signed: true },
            Kind::String | Kind::Bytes | Kind::Message(_) => return None,
        })
    }

    pub(super) fn wire_type(self) -> WireType {
        match self {
            Scalar::Fixed32 { .. } => WireType::Fixed32,
            Scalar::Fixed64 { .. } => WireType::Fixed64,
            _ => WireType::Varint,
        }
    }

    /// Returns the size of each number in a packed run; `None` for varints.
    pub(super) fn fixed_len(self) -> Option<u64> {
        match self {
            Scalar::Fixed32 { .. } => Some(4),
            Scalar::Fixed64 { .. } => Some(8),
            _ => None,
        }
    }

    /// Returns the bits to write for a number that was read as `bits`.
    pub(super) fn normalize(self, bits: u64) -> u64 {
        match self {
            Scalar::Int32 => i64::from(low_32(bits).cast_signed()).cast_unsigned(),
            Scalar::Low32 { .. } => u64::from(low_32(bits)),
            Scalar::Bool => u64::from(bits != 0),
            _ => bits,
        }
    }

    /// Returns the number as a map key.
    pub(super) fn key(self, bits: u64) -> Key {
        match self {
            Scalar::Int32 | Scalar::Int64 | Scalar::Fixed64 { signed: true } => {
                Key::Signed(bits.cast_signed())
            }
            Scalar::Low32 { zigzag: true } | Scalar::Sint64 => Key::Signed(unzigzag(bits)),
            Scalar::Fixed32 { signed: true } => Key::Signed(low_32(bits).cast_signed().into()),
            _ => Key::Unsigned(bits),
        }
    }
}

/// The key of a map entry. The order of keys is that of deterministic serialization in C++.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Text(Vec<u8>),
    Signed(i64),
    Unsigned(u64),
}
