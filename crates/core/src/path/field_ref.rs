//! A field or an extension of a message type.

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::map_key::MapKey;
use crate::features::{extension_verifies_utf8, has_presence, verifies_utf8};
use crate::wire::{Field, WireType, wire_type};
use crate::{Error, ErrorKind, Result};

/// A field or an extension. prost-reflect has a type for each, but paths treat them alike.
#[derive(Clone, Debug)]
pub enum FieldRef {
    /// A field that the message type declares.
    Field(FieldDescriptor),
    /// A field that extends the message type.
    Extension(ExtensionDescriptor),
}

impl FieldRef {
    /// Finds a field or an extension by its number.
    pub fn by_number(message: &MessageDescriptor, number: u32) -> Option<FieldRef> {
        message
            .get_field(number)
            .map(FieldRef::Field)
            .or_else(|| message.get_extension(number).map(FieldRef::Extension))
    }

    /// Finds a field by its name, JSON name or number, or an extension by its name in parentheses.
    pub fn by_text(message: &MessageDescriptor, text: &str) -> Option<FieldRef> {
        if let Some(name) = text
            .strip_prefix('(')
            .and_then(|name| name.strip_suffix(')'))
        {
            return message
                .extensions()
                .find(|extension| extension.full_name() == name)
                .map(FieldRef::Extension);
        }
        match text.parse() {
            Ok(number) => FieldRef::by_number(message, number),
            Err(_) => message
                .get_field_by_name(text)
                .or_else(|| message.get_field_by_json_name(text))
                .map(FieldRef::Field),
        }
    }

    /// Returns the field's number.
    pub fn number(&self) -> u32 {
        match self {
            FieldRef::Field(field) => field.number(),
            FieldRef::Extension(field) => field.number(),
        }
    }

    /// Returns the field's name, or the full name of an extension, in parentheses.
    pub fn name(&self) -> String {
        match self {
            FieldRef::Field(field) => field.name().to_owned(),
            FieldRef::Extension(field) => format!("({})", field.full_name()),
        }
    }

    /// Returns the kind of the values.
    pub fn kind(&self) -> Kind {
        match self {
            FieldRef::Field(field) => field.kind(),
            FieldRef::Extension(field) => field.kind(),
        }
    }

    /// Returns true if the field is repeated, but not a map.
    pub fn is_list(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_list(),
            FieldRef::Extension(field) => field.is_list(),
        }
    }

    /// Returns true if the field is a map.
    pub fn is_map(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_map(),
            FieldRef::Extension(field) => field.is_map(),
        }
    }

    /// Returns true if the values are encoded as groups.
    pub fn is_group(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_group(),
            FieldRef::Extension(field) => field.is_group(),
        }
    }

    /// Returns true if parsers refuse values that aren't UTF-8.
    pub fn verifies_utf8(&self) -> bool {
        match self {
            FieldRef::Field(field) => verifies_utf8(field),
            FieldRef::Extension(field) => extension_verifies_utf8(field),
        }
    }

    /// Returns the wire type of an unpacked value.
    pub fn wire_type(&self) -> WireType {
        wire_type(&self.kind(), self.is_group())
    }

    /// Returns true if a value of this field may have this wire type; repeated numbers may be
    /// packed or not.
    pub fn takes(&self, wire: WireType) -> bool {
        let single = self.wire_type();
        let packable = self.is_list() && single != WireType::StartGroup;
        wire == single || (packable && wire == WireType::Len)
    }

    /// Returns true if an absent field differs from a field with the default value.
    pub fn has_presence(&self) -> bool {
        match self {
            FieldRef::Field(field) => has_presence(field),
            FieldRef::Extension(field) => field.supports_presence(),
        }
    }

    /// Returns the oneof that the field is in, if any.
    pub fn oneof(&self) -> Option<prost_reflect::OneofDescriptor> {
        match self {
            FieldRef::Field(field) => field.containing_oneof(),
            FieldRef::Extension(_) => None,
        }
    }
}

/// Returns the message type in which a path continues below a value of this field; `None` if the
/// values are scalar.
pub(crate) fn message_below(field: &FieldRef) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => value_message(&entry),
        Kind::Message(message) => Some(message),
        _ => None,
    }
}

/// Returns the type of the values of a map whose entries have the type `entry`; `None` if the
/// values are scalar.
pub(crate) fn value_message(entry: &MessageDescriptor) -> Option<MessageDescriptor> {
    match entry.map_entry_value_field().kind() {
        Kind::Message(message) => Some(message),
        _ => None,
    }
}

pub(super) fn key_kind(field: &FieldRef) -> Option<Kind> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => Some(entry.map_entry_key_field().kind()),
        _ => None,
    }
}

/// Returns the kind of the values of a map field; `None` if the field isn't a map.
pub(crate) fn value_kind(field: &FieldRef) -> Option<Kind> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => Some(entry.map_entry_value_field().kind()),
        _ => None,
    }
}

pub(crate) fn key_fits(key: &MapKey, kind: &Kind) -> bool {
    matches!(
        (key, kind),
        (MapKey::String(_), Kind::String)
            | (MapKey::Bool(_), Kind::Bool)
            | (MapKey::U32(_), Kind::Uint32 | Kind::Fixed32)
            | (MapKey::U64(_), Kind::Uint64 | Kind::Fixed64)
            | (MapKey::I32(_), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32)
            | (MapKey::I64(_), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64)
    )
}

/// Fails if a field's wire type differs from the one that `descriptor` declares for the field.
/// Readers would treat the field as unknown, and most likely the message isn't of the type
/// `descriptor`.
pub(crate) fn check_field(descriptor: &MessageDescriptor, field: &Field) -> Result<()> {
    match FieldRef::by_number(descriptor, field.number.0) {
        Some(known) if !known.takes(field.wire_type) => {
            let message = format!(
                "the message may be of another type: field {} has a wire type that {} does not declare",
                known.name(),
                descriptor.full_name()
            );
            Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start))
        }
        _ => Ok(()),
    }
}

/// Returns the name that a schema uses for a kind of value.
pub(crate) fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        kind => format!("{kind:?}").to_lowercase(),
    }
}
