//! The wire type for each kind of field.

use prost_reflect::Kind;

use super::tag::WireType;

/// Returns the wire type of a field's value. For a packed field, this is the wire type of each
/// element.
///
/// For a message field, it is [`WireType::Len`], or [`WireType::StartGroup`] if `group` is true.
///
/// ```
/// use prost_reflect::Kind;
/// use proto_splitter_core::wire::{WireType, wire_type};
///
/// assert_eq!(wire_type(&Kind::Sint32, false), WireType::Varint);
/// assert_eq!(wire_type(&Kind::Float, false).width(), Some(4));
/// ```
pub fn wire_type(kind: &Kind, group: bool) -> WireType {
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
