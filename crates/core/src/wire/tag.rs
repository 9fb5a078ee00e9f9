//! Tags: field numbers and wire types.

/// A field number: 1 to 536,870,911 (2^29 - 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldNumber(pub u32);

impl FieldNumber {
    /// The largest valid field number.
    pub const MAX: FieldNumber = FieldNumber((1 << 29) - 1);
}

impl std::fmt::Display for FieldNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The encoding of a field's value, given by the low three bits of the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireType {
    /// 0: one varint.
    Varint,
    /// 1: eight bytes.
    Fixed64,
    /// 2: a length as a varint, followed by a value of that length in bytes.
    Len,
    /// 3: the start of a group, whose fields follow up to the end-group tag with the same field
    /// number.
    StartGroup,
    /// 4: the end of a group.
    EndGroup,
    /// 5: four bytes.
    Fixed32,
}

impl WireType {
    /// Returns the wire type that the low three bits of `bits` specify; `None` for 6 and 7.
    pub fn from_bits(bits: u64) -> Option<WireType> {
        Some(match bits & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Len,
            3 => WireType::StartGroup,
            4 => WireType::EndGroup,
            5 => WireType::Fixed32,
            _ => return None,
        })
    }

    /// Returns the low three bits of a tag with this wire type.
    pub fn bits(self) -> u64 {
        match self {
            WireType::Varint => 0,
            WireType::Fixed64 => 1,
            WireType::Len => 2,
            WireType::StartGroup => 3,
            WireType::EndGroup => 4,
            WireType::Fixed32 => 5,
        }
    }

    /// Returns the size of a value with this wire type, in bytes: 4 or 8; `None` if the size
    /// depends on the value.
    pub fn width(self) -> Option<u8> {
        match self {
            WireType::Fixed32 => Some(4),
            WireType::Fixed64 => Some(8),
            _ => None,
        }
    }
}

/// Returns a field's tag as one byte; `None` if the field isn't length-delimited, or the tag takes
/// more than one byte.
pub(crate) fn short_tag(number: FieldNumber, wire_type: WireType) -> Option<u8> {
    let is_len = wire_type == WireType::Len;
    let tag = u8::try_from(tag(number, wire_type)).ok();
    tag.filter(|&tag| is_len && tag < 0x80)
}

/// Returns the tag of a field: a number that combines the field number and the wire type.
pub fn tag(number: FieldNumber, wire_type: WireType) -> u64 {
    u64::from(number.0) << 3 | wire_type.bits()
}
