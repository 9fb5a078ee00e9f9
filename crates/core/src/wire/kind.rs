//! How the kinds of fields are written.

use prost_reflect::Kind;

use super::tag::WireType;

/// The wire type of a value that is not packed.
pub(crate) fn wire_type(kind: &Kind, group: bool) -> WireType {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::Fixed64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::Fixed32,
        Kind::String | Kind::Bytes => WireType::Len,
        Kind::Message(_) if group => WireType::StartGroup,
        Kind::Message(_) => WireType::Len,
        Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Bool
        | Kind::Enum(_) => WireType::Varint,
    }
}
