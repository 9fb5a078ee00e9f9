//! Members of oneofs, which clear one another.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind};

use crate::Result;
use crate::features::is_closed_enum;
use crate::wire::{Field, Input, WireCursor, WireType, decode_varint, wire_type};

/// A member of a oneof.
pub(crate) struct OneofMember {
    wire: WireType,
    /// The member's enum, if it is closed.
    closed: Option<EnumDescriptor>,
}

impl OneofMember {
    pub(crate) fn of(member: &FieldDescriptor) -> OneofMember {
        let closed = match member.kind() {
            Kind::Enum(values) if is_closed_enum(&values) => Some(values),
            _ => None,
        };
        OneofMember {
            wire: wire_type(&member.kind(), member.is_group()),
            closed,
        }
    }

    /// Returns true if parsers take `met`, a field with the member's number, as a value of the
    /// member. Otherwise it is an unknown field, and clears no other member.
    pub(crate) fn is_set_by<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        met: &Field,
    ) -> Result<bool> {
        let Some(values) = self.closed.as_ref().filter(|_| met.wire_type == self.wire) else {
            return Ok(met.wire_type == self.wire);
        };
        let bytes = cursor.bytes(met.value.clone())?;
        let bits = decode_varint(bytes).map_or(0, |(bits, _)| bits);
        let [a, b, c, d, ..] = bits.to_le_bytes();
        let number = i32::from_le_bytes([a, b, c, d]);
        Ok(values.get_value(number).is_some())
    }
}
