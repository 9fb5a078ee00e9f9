//! Arrow types for protobuf types.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use prost_reflect::Kind;
use proto_splitter_core::wire::{WireType, decode_short_varint, decode_varint, low_32, unzigzag};

use crate::fields::{number, pack};
use crate::names::EnumNames;

/// A protobuf type that is neither a message nor an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Int32,
    Sint32,
    Sfixed32,
    Int64,
    Sint64,
    Sfixed64,
    Uint32,
    Fixed32,
    Uint64,
    Fixed64,
    Float,
    Double,
    Bool,
    String,
    Bytes,
}

impl Scalar {
    /// Returns the scalar type for a kind of field; `None` for messages and enums.
    pub(crate) fn of(kind: &Kind) -> Option<Scalar> {
        Some(match kind {
            Kind::Int32 => Scalar::Int32,
            Kind::Sint32 => Scalar::Sint32,
            Kind::Sfixed32 => Scalar::Sfixed32,
            Kind::Int64 => Scalar::Int64,
            Kind::Sint64 => Scalar::Sint64,
            Kind::Sfixed64 => Scalar::Sfixed64,
            Kind::Uint32 => Scalar::Uint32,
            Kind::Fixed32 => Scalar::Fixed32,
            Kind::Uint64 => Scalar::Uint64,
            Kind::Fixed64 => Scalar::Fixed64,
            Kind::Float => Scalar::Float,
            Kind::Double => Scalar::Double,
            Kind::Bool => Scalar::Bool,
            Kind::String => Scalar::String,
            Kind::Bytes => Scalar::Bytes,
            Kind::Message(_) | Kind::Enum(_) => return None,
        })
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => DataType::Int32,
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => DataType::Int64,
            Scalar::Uint32 | Scalar::Fixed32 => DataType::UInt32,
            Scalar::Uint64 | Scalar::Fixed64 => DataType::UInt64,
            Scalar::Float => DataType::Float32,
            Scalar::Double => DataType::Float64,
            Scalar::Bool => DataType::Boolean,
            Scalar::String => DataType::Utf8,
            Scalar::Bytes => DataType::Binary,
        }
    }

    /// Returns the wire type of a value that isn't packed.
    pub(crate) fn wire(self) -> WireType {
        match self {
            Scalar::Sfixed32 | Scalar::Fixed32 | Scalar::Float => WireType::Fixed32,
            Scalar::Sfixed64 | Scalar::Fixed64 | Scalar::Double => WireType::Fixed64,
            Scalar::String | Scalar::Bytes => WireType::Len,
            _ => WireType::Varint,
        }
    }

    /// Normalizes the bits of a number as read from the wire, so that equal numbers have equal
    /// bits.
    pub(crate) fn bits(self, wire: u64) -> u64 {
        match self {
            // The upper 32 bits are dropped, as in all protobuf parsers.
            Scalar::Int32 | Scalar::Uint32 | Scalar::Fixed32 | Scalar::Sfixed32 | Scalar::Float => {
                low_32(wire).into()
            }
            Scalar::Sint32 => low_32(unzigzag(low_32(wire).into()).cast_unsigned()).into(),
            Scalar::Sint64 => unzigzag(wire).cast_unsigned(),
            Scalar::Bool => u64::from(wire != 0),
            _ => wire,
        }
    }
}

/// The type of a column, which determines its Arrow type.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Scalar(Scalar),
    Enum(Arc<EnumNames>),
    /// A `google.protobuf.Timestamp`, counted in the given unit.
    Timestamp(TimeUnit),
    /// A `google.protobuf.Duration`, counted in the given unit.
    Duration(TimeUnit),
    /// A message that wraps a single value, such as `google.protobuf.Int64Value`.
    Wrapped(Scalar),
    /// A message without fields. The column's value is true if the message is present.
    Mark,
    Message(Arc<MessageShape>),
    List(Box<Shape>),
    Map(Scalar, Box<Shape>),
}

impl Shape {
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Shape::Scalar(scalar) | Shape::Wrapped(scalar) => scalar.data_type(),
            Shape::Enum(_) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Shape::Timestamp(unit) => DataType::Timestamp(*unit, Some("UTC".into())),
            Shape::Duration(unit) => DataType::Duration(*unit),
            Shape::Mark => DataType::Boolean,
            Shape::Message(message) => DataType::Struct(message.arrow_fields()),
            Shape::List(item) => DataType::List(Arc::new(item_field(item))),
            Shape::Map(key, value) => DataType::Map(Arc::new(entries_field(*key, value)), false),
        }
    }

    /// Returns the wire type of a value of this type that is neither packed nor a group.
    pub(crate) fn wire(&self) -> WireType {
        match self {
            Shape::Scalar(scalar) => scalar.wire(),
            Shape::Enum(_) => WireType::Varint,
            _ => WireType::Len,
        }
    }

    /// Returns true if values of this type are encoded as messages.
    pub(crate) fn is_message(&self) -> bool {
        matches!(
            self,
            Shape::Timestamp(_)
                | Shape::Duration(_)
                | Shape::Wrapped(_)
                | Shape::Mark
                | Shape::Message(_)
        )
    }
}

/// Returns the Arrow field for the elements of a list column.
pub(crate) fn item_field(item: &Shape) -> Field {
    Field::new("item", item.data_type(), false)
}

/// Returns the Arrow fields for the keys and values of a map column.
pub(crate) fn entry_fields(key: Scalar, value: &Shape) -> Fields {
    let key = Field::new("key", key.data_type(), false);
    let value = Field::new("value", value.data_type(), false);
    Fields::from(vec![key, value])
}

pub(crate) fn entries_field(key: Scalar, value: &Shape) -> Field {
    Field::new("entries", DataType::Struct(entry_fields(key, value)), false)
}

/// A protobuf field that becomes a column.
#[derive(Clone, Debug)]
pub(crate) struct FieldShape {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// True if an absent field differs from a field with the value 0 or an empty value.
    pub(crate) has_presence: bool,
}

impl FieldShape {
    pub(crate) fn arrow_field(&self) -> Field {
        Field::new(&self.name, self.shape.data_type(), self.has_presence)
    }
}

/// A field that the parser handles, because it becomes a column or affects one.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// Wire type of a value that isn't packed.
    pub(crate) wire: WireType,
    pub(crate) is_packable: bool,
    /// Index of the field's column; `None` if the field only removes the values of other fields in
    /// its oneof.
    pub(crate) field: Option<usize>,
    /// Indices of the columns for the fields of the oneof; empty if only this field has a column. A
    /// value of this field removes the values of the other columns. The fields of a oneof share the
    /// list, since an untrusted schema may have a oneof with very many members.
    pub(crate) rivals: Arc<[usize]>,
    /// The enum of a field without a column, since a number that readers treat as an unknown field
    /// doesn't remove other values; `None` for any other field.
    pub(crate) names: Option<Arc<EnumNames>>,
}

/// The fields of a message type that become columns, with tables for looking them up.
#[derive(Debug)]
pub(crate) struct MessageShape {
    pub(crate) name: String,
    pub(crate) fields: Vec<FieldShape>,
    slots: Vec<Slot>,
    /// Index in `slots`, plus 1, of the slot for each field number below 64; 0 if the field has no
    /// slot.
    near: [u8; 64],
    /// Field number of each slot and the slot's index in `slots`, in ascending order of field
    /// numbers.
    far: Vec<(u32, usize)>,
    /// Simple field for each tag below [`TAGS`]; `None` if the field isn't simple.
    simple: [Option<Simple>; TAGS],
}

/// A field that doesn't affect any other column.
#[derive(Clone, Copy, Debug)]
struct Simple {
    wire: WireType,
    /// Index of the field's column; `None` for a field without a column, which is skipped.
    column: Option<u8>,
}

/// Number of tags in the table `simple`, which contains the tags of all field numbers below 64.
const TAGS: usize = 64 << 3;

impl MessageShape {
    pub(crate) fn new(name: String, fields: Vec<FieldShape>, slots: Vec<Slot>) -> Self {
        let mut near = [0; 64];
        let mut far = Vec::with_capacity(slots.len());
        for (at, slot) in slots.iter().enumerate() {
            far.push((slot.number, at));
            let place = usize::try_from(slot.number).ok();
            if let (Some(near), Ok(at)) = (
                place.and_then(|place| near.get_mut(place)),
                u8::try_from(at + 1),
            ) {
                *near = at;
            }
        }
        far.sort_unstable();
        let simple = std::array::from_fn(|tag| {
            let tag = u32::try_from(tag).ok()?;
            simple(tag, &fields, &slots)
        });
        MessageShape {
            name,
            fields,
            slots,
            near,
            far,
            simple,
        }
    }

    /// Decodes the first field of the message at a range of `bytes`. Returns the index of the
    /// field's column (`None` if the field has no column), the value, and the field's size in
    /// bytes, including the tag. The value consists of the bits of a number, or is the [packed
    /// range](pack) of a length-delimited value in `bytes`.
    ///
    /// Returns `None` if the field is malformed, has a number of 64 or more, or may affect other
    /// columns.
    #[inline]
    pub(crate) fn simple(
        &self,
        bytes: &[u8],
        message: &Range<usize>,
    ) -> Option<(Option<u8>, u64, usize)> {
        let found = self.short(bytes, message.start);
        let found = match found {
            Some(found) => found,
            None => self.long(bytes, message.clone())?,
        };
        (found.2 <= message.end.saturating_sub(message.start)).then_some(found)
    }

    /// Decodes a field with a tag of one byte and a numeric value or length in the eight bytes
    /// after the tag. The result is that of [`simple`](Self::simple), or `None` for any other
    /// field.
    #[inline]
    fn short(&self, bytes: &[u8], start: usize) -> Option<(Option<u8>, u64, usize)> {
        let &[tag, value @ ..] = bytes.get(start..)?.first_chunk::<9>()?;
        if tag >= 0x80 {
            return None;
        }
        let simple = self.simple[usize::from(tag)]?;
        let value = u64::from_le_bytes(value);
        let (bits, len) = match simple.wire {
            WireType::Varint if value & 0x80 == 0 => (value & 0x7f, 1),
            WireType::Varint => decode_short_varint(value)?,
            WireType::Fixed32 => (low_32(value).into(), 4),
            WireType::Fixed64 => (value, 8),
            _ => {
                let len = usize::try_from(value & 0x7f).ok()?;
                let start = start + 2;
                let is_whole = value & 0x80 == 0 && len <= bytes.len().saturating_sub(start);
                is_whole.then(|| (pack(&(start..start + len)), 1 + len))?
            }
        };
        Some((simple.column, bits, 1 + len))
    }

    /// Decodes a field that [`short`](Self::short) doesn't support, because the field is longer or
    /// near the end of the buffer. The result is that of [`simple`](Self::simple).
    #[inline(never)]
    fn long(&self, bytes: &[u8], message: Range<usize>) -> Option<(Option<u8>, u64, usize)> {
        let rest = bytes.get(message.start..)?;
        let (tag, tag_len) = match *rest {
            [tag, ..] if tag < 0x80 => (usize::from(tag), 1),
            [low, high, ..] if high < 0x80 => (usize::from(low & 0x7f) | usize::from(high) << 7, 2),
            _ => return None,
        };
        let simple = (*self.simple.get(tag)?)?;
        let behind = rest.get(tag_len..)?;
        let (bits, len) = match simple.wire {
            WireType::Len => {
                let (len, len_len) = decode_varint(behind)?;
                let len = usize::try_from(len)
                    .ok()
                    .filter(|&len| len <= behind.len())?;
                let start = message.start + tag_len + len_len;
                (pack(&(start..start + len)), len_len + len)
            }
            wire => number(behind, wire)?,
        };
        Some((simple.column, bits, tag_len + len))
    }

    /// Returns the slot for a field number; `None` if the field doesn't affect any column.
    #[inline]
    pub(crate) fn slot(&self, number: u32) -> Option<&Slot> {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        match self.near.get(place) {
            Some(0) if self.slots.len() < usize::from(u8::MAX) => None,
            Some(&at) if at > 0 => self.slots.get(usize::from(at) - 1),
            _ => {
                let found = self
                    .far
                    .binary_search_by_key(&number, |(number, _)| *number);
                self.slots.get(self.far[found.ok()?].1)
            }
        }
    }

    pub(crate) fn arrow_fields(&self) -> Fields {
        self.fields.iter().map(FieldShape::arrow_field).collect()
    }
}

/// Returns the field with this tag if it is simple: it is singular, isn't a message, and affects at
/// most its own column.
fn simple(tag: u32, fields: &[FieldShape], slots: &[Slot]) -> Option<Simple> {
    let wire = WireType::from_bits(tag.into())?;
    let number = tag >> 3;
    if number == 0 || matches!(wire, WireType::StartGroup | WireType::EndGroup) {
        return None;
    }
    let Some(slot) = slots.iter().find(|slot| slot.number == number) else {
        return Some(Simple { wire, column: None });
    };
    let at = slot
        .field
        .filter(|_| slot.wire == wire && slot.rivals.is_empty())?;
    let is_flat = matches!(fields.get(at)?.shape, Shape::Scalar(_) | Shape::Enum(_));
    let column = u8::try_from(at).ok()?;
    is_flat.then_some(Simple {
        wire,
        column: Some(column),
    })
}
