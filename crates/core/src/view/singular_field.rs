//! Singular fields, and the occurrences that parsers take as their values.

use prost_reflect::{EnumDescriptor, Kind};

use crate::Result;
use crate::features::is_closed_enum;
use crate::path::FieldRef;
use crate::wire::{Field, Input, WireCursor, WireType, decode_varint, low_32};

/// A singular field.
pub(crate) struct SingularField {
    wire: WireType,
    /// The field's enum, if it is closed.
    closed: Option<EnumDescriptor>,
}

impl SingularField {
    pub(crate) fn of(field: &FieldRef) -> SingularField {
        let closed = match field.kind() {
            Kind::Enum(values) if is_closed_enum(&values) => Some(values),
            _ => None,
        };
        SingularField {
            wire: field.wire_type(),
            closed,
        }
    }

    /// Returns the field if it is singular and its enum is closed.
    pub(crate) fn of_closed_enum(field: &FieldRef) -> Option<SingularField> {
        if field.is_list() {
            return None;
        }
        Some(SingularField::of(field)).filter(|field| field.closed.is_some())
    }

    /// Returns true if parsers take `met`, an occurrence with the field's number, as a value of the
    /// field. Otherwise it is an unknown field, and clears no other member of a oneof.
    pub(crate) fn is_set_by<I: Input>(
        &self,
        cursor: &mut WireCursor<I>,
        met: &Field,
    ) -> Result<bool> {
        if met.wire_type != self.wire || self.closed.is_none() {
            return Ok(met.wire_type == self.wire);
        }
        Ok(self.takes(cursor.bytes(met.value.clone())?))
    }

    /// Returns true if parsers take this value, which has the field's wire type.
    pub(crate) fn takes(&self, value: &[u8]) -> bool {
        let Some(values) = &self.closed else {
            return true;
        };
        let bits = decode_varint(value).map_or(0, |(bits, _)| bits);
        values.get_value(low_32(bits).cast_signed()).is_some()
    }
}
