//! Facts about message types, looked up once per type.

use std::collections::HashMap;
use std::rc::Rc;

use crate::features::{has_presence, is_closed_enum, verifies_utf8};
use crate::wire::{WireType, low_32};
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::scalar::Scalar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

/// The form of a field's or a map entry's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    /// Bytes, or a string that parsers accept even if it isn't UTF-8.
    Bytes,
    /// A string that parsers refuse if it isn't UTF-8.
    Text,
    Message(ShapeId),
}

impl Value {
    pub(super) fn wire_type(self) -> WireType {
        match self {
            Value::Scalar(scalar) => scalar.wire_type(),
            Value::Bytes | Value::Text | Value::Message(_) => WireType::Len,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Singular(Value),
    Repeated(Value),
    /// Numbers written as one run.
    Packed(Scalar),
    /// A group, or the elements of a repeated group.
    Group {
        shape: ShapeId,
        repeated: bool,
    },
    Map(MapShape),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MapShape {
    /// Key encoding; `None` for strings.
    pub(super) key: Option<Scalar>,
    /// True if parsers refuse a key that isn't UTF-8.
    pub(super) has_text_key: bool,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) struct FieldShape {
    pub(super) number: u32,
    /// Full name of the field, for errors.
    pub(super) name: Rc<str>,
    pub(super) form: Form,
    /// True if the field tracks presence, in which case a default value is written, too.
    pub(super) presence: bool,
    /// Index of the field's oneof in the message; `None` without a oneof.
    pub(super) oneof: Option<i32>,
    /// Numbers that the closed enum of the field, or of the map's values, declares, in ascending
    /// order; `None` for any other field.
    declared: Option<Rc<[i32]>>,
}

impl FieldShape {
    /// Returns false if a parser puts a number among the unknown fields, because the field's enum
    /// is closed and doesn't declare it.
    pub(super) fn is_declared(&self, bits: u64) -> bool {
        let number = low_32(bits).cast_signed();
        let declared = self.declared.as_ref();
        declared.is_none_or(|declared| declared.binary_search(&number).is_ok())
    }

    /// Returns true if the field, or the values of the map, have a closed enum.
    pub(super) fn has_closed_enum(&self) -> bool {
        self.declared.is_some()
    }
}

/// The fields of a message, by number.
pub(super) type Shape = Rc<[FieldShape]>;

pub(super) fn find(shape: &Shape, number: u32) -> Option<&FieldShape> {
    let at = shape.binary_search_by_key(&number, |field| field.number);
    at.ok().and_then(|at| shape.get(at))
}

#[derive(Default)]
pub(super) struct Schema {
    ids: HashMap<String, ShapeId>,
    messages: Vec<(MessageDescriptor, Option<Shape>)>,
    /// Numbers that each enum declares, by the enum's full name; `None` for an open enum.
    enums: HashMap<String, Option<Rc<[i32]>>>,
}

impl Schema {
    pub(super) fn id(&mut self, descriptor: &MessageDescriptor) -> ShapeId {
        if let Some(id) = self.ids.get(descriptor.full_name()) {
            return *id;
        }
        let id = ShapeId(self.messages.len());
        self.ids.insert(descriptor.full_name().to_owned(), id);
        self.messages.push((descriptor.clone(), None));
        id
    }

    pub(super) fn shape(&mut self, id: ShapeId) -> Shape {
        if let (_, Some(shape)) = &self.messages[id.0] {
            return shape.clone();
        }
        let descriptor = self.messages[id.0].0.clone();
        let mut fields: Vec<FieldShape> = descriptor
            .fields()
            .filter_map(|field| self.field(&field))
            .collect();
        fields.sort_by_key(|field| field.number);
        let shape: Shape = fields.into();
        self.messages[id.0].1 = Some(shape.clone());
        shape
    }

    /// Returns a field's shape; `None` for a map whose values are groups.
    fn field(&mut self, field: &FieldDescriptor) -> Option<FieldShape> {
        let form = if field.is_map() {
            let Kind::Message(entry) = field.kind() else {
                return None;
            };
            Form::Map(MapShape {
                key: Scalar::of_kind(&entry.map_entry_key_field().kind()),
                has_text_key: verifies_utf8(&entry.map_entry_key_field()),
                value: self.value(&entry.map_entry_value_field())?,
            })
        } else if field.is_group() {
            let Kind::Message(message) = field.kind() else {
                return None;
            };
            Form::Group {
                shape: self.id(&message),
                repeated: field.cardinality() == Cardinality::Repeated,
            }
        } else if field.cardinality() == Cardinality::Repeated {
            match self.value(field)? {
                Value::Scalar(scalar) if field.is_packed() => Form::Packed(scalar),
                value => Form::Repeated(value),
            }
        } else {
            Form::Singular(self.value(field)?)
        };
        // The last part of a oneof's path in its file is the oneof's index.
        let oneof = field.containing_oneof();
        let oneof = oneof.and_then(|oneof| oneof.path().last().copied());
        Some(FieldShape {
            number: field.number(),
            name: field.full_name().into(),
            form,
            presence: has_presence(field),
            oneof,
            declared: self.declared(field),
        })
    }

    /// Returns the numbers that the closed enum of a field, or of a map's values, declares.
    fn declared(&mut self, field: &FieldDescriptor) -> Option<Rc<[i32]>> {
        let values = match field.kind() {
            Kind::Enum(values) => values,
            Kind::Message(entry) if field.is_map() => match entry.map_entry_value_field().kind() {
                Kind::Enum(values) => values,
                _ => return None,
            },
            _ => return None,
        };
        let known = self.enums.entry(values.full_name().to_owned());
        known
            .or_insert_with(|| is_closed_enum(&values).then(|| numbers(&values)))
            .clone()
    }

    fn value(&mut self, field: &FieldDescriptor) -> Option<Value> {
        Some(match field.kind() {
            Kind::Message(_) if field.is_group() => return None,
            Kind::Message(message) => Value::Message(self.id(&message)),
            Kind::String if verifies_utf8(field) => Value::Text,
            Kind::String | Kind::Bytes => Value::Bytes,
            kind => Value::Scalar(Scalar::of_kind(&kind)?),
        })
    }
}

/// Returns the numbers of an enum's values, in ascending order.
fn numbers(values: &EnumDescriptor) -> Rc<[i32]> {
    let mut numbers: Vec<i32> = values.values().map(|value| value.number()).collect();
    numbers.sort_unstable();
    numbers.into()
}
