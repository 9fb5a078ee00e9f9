//! Support for protobuf editions: converts their features to proto2, which prost-reflect supports.
//!
//! Two features determine a field's wire format: `repeated_field_encoding`, whether a repeated
//! number is packed, and `message_encoding`, whether a message is delimited, that is, a group. Both
//! are set for a file or a field. A third one, `enum_type`, determines whether parsers put a number
//! that an enum doesn't declare among the unknown fields. The other features don't affect the wire
//! format. All features are removed, since protobuf's libraries refuse a proto2 file with features.
//! The value of `enum_type`, which can't differ between the enums of a proto2 file, is stored in
//! the options of each enum, in a field that those libraries don't know.

use prost::Message;
use prost_reflect::{DynamicMessage, EnumDescriptor, Syntax, Value};

use super::reflect::number;
use super::reflect::{invalid, text};
use crate::Result;

/// Supported editions, by their numbers in the enum `google.protobuf.Edition`: 2023 and 2024. Their
/// features have the same defaults.
const KNOWN: std::ops::RangeInclusive<i32> = 1000..=1001;

mod field {
    // Numbers in FileDescriptorProto.
    pub(super) const MESSAGE_TYPE: u32 = 4;
    pub(super) const ENUM_TYPE: u32 = 5;
    pub(super) const EXTENSION: u32 = 7;
    pub(super) const FILE_OPTIONS: u32 = 8;
    pub(super) const EDITION: u32 = 14;
    // Numbers in DescriptorProto.
    pub(super) const FIELD: u32 = 2;
    pub(super) const NESTED_TYPE: u32 = 3;
    pub(super) const NESTED_ENUM: u32 = 4;
    pub(super) const MESSAGE_EXTENSION: u32 = 6;
    pub(super) const MESSAGE_OPTIONS: u32 = 7;
    pub(super) const ONEOF: u32 = 8;
    pub(super) const MAP_ENTRY: u32 = 7;
    // Numbers in FieldDescriptorProto.
    pub(super) const LABEL: u32 = 4;
    pub(super) const TYPE: u32 = 5;
    pub(super) const TYPE_NAME: u32 = 6;
    pub(super) const FIELD_OPTIONS: u32 = 8;
    pub(super) const PACKED: u32 = 2;
    // Number in OneofDescriptorProto.
    pub(super) const ONEOF_OPTIONS: u32 = 2;
    // Numbers in EnumDescriptorProto.
    pub(super) const ENUM_VALUE: u32 = 2;
    pub(super) const ENUM_OPTIONS: u32 = 3;
    // Number in EnumValueDescriptorProto.
    pub(super) const ENUM_VALUE_OPTIONS: u32 = 3;
    // Numbers in FileOptions, MessageOptions, FieldOptions, OneofOptions, EnumOptions and
    // EnumValueOptions.
    pub(super) const FILE_FEATURES: u32 = 50;
    pub(super) const MESSAGE_FEATURES: u32 = 12;
    pub(super) const FIELD_FEATURES: u32 = 21;
    pub(super) const ONEOF_FEATURES: u32 = 1;
    pub(super) const ENUM_FEATURES: u32 = 7;
    pub(super) const ENUM_VALUE_FEATURES: u32 = 2;
    /// Number of a field in EnumOptions that only this crate knows: the value of `enum_type`. It is
    /// below the numbers of extensions.
    pub(super) const STORED_OPENNESS: u32 = 998;
    // Numbers in FeatureSet.
    pub(super) const FIELD_PRESENCE: u32 = 1;
    pub(super) const OPENNESS: u32 = 2;
    pub(super) const REPEATED_FIELD_ENCODING: u32 = 3;
    pub(super) const MESSAGE_ENCODING: u32 = 5;
}

/// The wire encoding of the tag of [`field::STORED_OPENNESS`], whose value is a varint.
const STORED_TAG: [u8; 2] = [0xb0, 0x3e];

/// Numbers of enum values in descriptors.
mod value {
    pub(super) const LABEL_REQUIRED: i32 = 2;
    pub(super) const LABEL_REPEATED: i32 = 3;
    pub(super) const TYPE_STRING: i32 = 9;
    pub(super) const TYPE_GROUP: i32 = 10;
    pub(super) const TYPE_MESSAGE: i32 = 11;
    pub(super) const TYPE_BYTES: i32 = 12;
    pub(super) const LEGACY_REQUIRED: i32 = 3;
    pub(super) const OPEN: u8 = 1;
    pub(super) const CLOSED: u8 = 2;
    pub(super) const EXPANDED: i32 = 2;
    pub(super) const DELIMITED: i32 = 2;
}

/// The features that apply to a field or an enum unless it overrides them.
#[derive(Clone, Copy)]
struct Features {
    packed: bool,
    delimited: bool,
    required: bool,
    closed: bool,
}

impl Features {
    /// Returns these features, overridden by those in `set`, a `FeatureSet`.
    fn with(self, set: Option<&DynamicMessage>) -> Self {
        let Some(set) = set else { return self };
        let asked = |number| number_in(set, number);
        Features {
            packed: asked(field::REPEATED_FIELD_ENCODING)
                .map_or(self.packed, |encoding| encoding != value::EXPANDED),
            delimited: asked(field::MESSAGE_ENCODING)
                .map_or(self.delimited, |encoding| encoding == value::DELIMITED),
            required: asked(field::FIELD_PRESENCE)
                .map_or(self.required, |presence| presence == value::LEGACY_REQUIRED),
            closed: asked(field::OPENNESS)
                .map_or(self.closed, |openness| openness == value::CLOSED.into()),
        }
    }
}

/// Converts the descriptor of a `.proto` file from editions to proto2, with the same wire format.
/// Leaves the descriptors of proto2 and proto3 files unchanged.
pub(super) fn lower(file: &mut DynamicMessage) -> Result<()> {
    match text(file, number::SYNTAX).as_str() {
        "" | "proto2" | "proto3" => return Ok(()),
        "editions" => {}
        other => return Err(invalid(format!("syntax \"{other}\" is not known"))),
    }
    let edition = number_in(file, field::EDITION).unwrap_or_default();
    if !KNOWN.contains(&edition) {
        let message = format!("edition number {edition} is not known: only 2023 and 2024 are");
        return Err(invalid(message));
    }
    let features = Features {
        packed: true,
        delimited: false,
        required: false,
        closed: false,
    };
    let features = with_own(features, file, field::FILE_OPTIONS, field::FILE_FEATURES);
    file.clear_field_by_number(number::SYNTAX);
    file.clear_field_by_number(field::EDITION);
    clear_features(file, field::FILE_OPTIONS, field::FILE_FEATURES);
    for extension in messages_mut(file, field::EXTENSION) {
        lower_field(extension, features, &[])?;
    }
    for values in messages_mut(file, field::ENUM_TYPE) {
        lower_enum(values, features)?;
    }
    for message in messages_mut(file, field::MESSAGE_TYPE) {
        lower_message(message, features)?;
    }
    Ok(())
}

/// Converts a message's descriptor. Recursion is safe, since the parser limits the nesting.
fn lower_message(message: &mut DynamicMessage, features: Features) -> Result<()> {
    clear_features(message, field::MESSAGE_OPTIONS, field::MESSAGE_FEATURES);
    for oneof in messages_mut(message, field::ONEOF) {
        clear_features(oneof, field::ONEOF_OPTIONS, field::ONEOF_FEATURES);
    }
    let mut entries = Vec::new();
    for nested in messages_mut(message, field::NESTED_TYPE) {
        let options = message_in(nested, field::MESSAGE_OPTIONS);
        let map_entry =
            options.and_then(|options| options.get_field_by_number(field::MAP_ENTRY)?.as_bool());
        if map_entry == Some(true) {
            // The fields of a map entry stay unchanged, except for their features.
            for member in messages_mut(nested, field::FIELD) {
                clear_features(member, field::FIELD_OPTIONS, field::FIELD_FEATURES);
            }
            entries.push(text(nested, number::NAME));
        } else {
            lower_message(nested, features)?;
        }
    }
    for values in messages_mut(message, field::NESTED_ENUM) {
        lower_enum(values, features)?;
    }
    for extension in messages_mut(message, field::MESSAGE_EXTENSION) {
        lower_field(extension, features, &[])?;
    }
    for field in messages_mut(message, field::FIELD) {
        lower_field(field, features, &entries)?;
    }
    Ok(())
}

/// Removes the features from the options of a descriptor. The numbers are those of the options in the
/// descriptor, and of the features in the options.
fn clear_features(of: &mut DynamicMessage, options: u32, features: u32) {
    if !of.has_field_by_number(options) {
        return;
    }
    let options = of.get_field_by_number_mut(options);
    if let Some(options) = options.and_then(Value::as_message_mut) {
        options.clear_field_by_number(features);
    }
}

/// Converts a field's descriptor. `entries` are the names of the map entry types in the same
/// message.
fn lower_field(field: &mut DynamicMessage, features: Features, entries: &[String]) -> Result<()> {
    let features = with_own(features, field, field::FIELD_OPTIONS, field::FIELD_FEATURES);
    clear_features(field, field::FIELD_OPTIONS, field::FIELD_FEATURES);
    let (label, kind) = (
        number_in(field, field::LABEL),
        number_in(field, field::TYPE),
    );
    let repeated = label == Some(value::LABEL_REPEATED);
    if features.required && !repeated {
        set(
            field,
            field::LABEL,
            Value::EnumNumber(value::LABEL_REQUIRED),
        )?;
    }
    match kind {
        Some(value::TYPE_MESSAGE) => {
            let name = text(field, field::TYPE_NAME);
            let is_map = repeated
                && name
                    .rsplit('.')
                    .next()
                    .is_some_and(|last| entries.iter().any(|entry| entry == last));
            if features.delimited && !is_map {
                set(field, field::TYPE, Value::EnumNumber(value::TYPE_GROUP))?;
            }
        }
        Some(value::TYPE_STRING | value::TYPE_BYTES | value::TYPE_GROUP) => {}
        _ if repeated => {
            let options = field.get_field_by_number_mut(field::FIELD_OPTIONS);
            let options = options.and_then(Value::as_message_mut);
            let options = options.ok_or_else(|| invalid("a field without options".into()))?;
            set(options, field::PACKED, Value::Bool(features.packed))?;
        }
        _ => {}
    }
    Ok(())
}

/// Stores in an enum's own options whether the enum is closed.
fn lower_enum(values: &mut DynamicMessage, features: Features) -> Result<()> {
    let features = with_own(features, values, field::ENUM_OPTIONS, field::ENUM_FEATURES);
    for value in messages_mut(values, field::ENUM_VALUE) {
        clear_features(value, field::ENUM_VALUE_OPTIONS, field::ENUM_VALUE_FEATURES);
    }
    let openness = if features.closed {
        value::CLOSED
    } else {
        value::OPEN
    };
    let options = values.get_field_by_number_mut(field::ENUM_OPTIONS);
    let options = options
        .and_then(Value::as_message_mut)
        .ok_or_else(|| invalid("an enum without options".into()))?;
    options.clear_field_by_number(field::ENUM_FEATURES);
    let [low, high] = STORED_TAG;
    options
        .merge(&[low, high, openness][..])
        .map_err(|error| invalid(error.to_string()))
}

/// Returns true if an enum is closed: by its own options or, without any, by its file's syntax.
pub(super) fn is_closed(values: &EnumDescriptor) -> bool {
    let options = values.options();
    let mut stored = Vec::new();
    for unknown in options.unknown_fields() {
        if unknown.number() == field::STORED_OPENNESS {
            unknown.encode(&mut stored);
        }
    }
    // The last byte is the value.
    match stored.last() {
        Some(&openness) => openness == value::CLOSED,
        None => values.parent_file().syntax() == Syntax::Proto2,
    }
}

fn set(message: &mut DynamicMessage, number: u32, value: Value) -> Result<()> {
    message
        .try_set_field_by_number(number, value)
        .map_err(|error| invalid(error.to_string()))
}

fn with_own(features: Features, of: &DynamicMessage, options: u32, set: u32) -> Features {
    let options = message_in(of, options);
    features.with(
        options
            .and_then(|options| message_in(&options, set))
            .as_ref(),
    )
}

fn message_in(message: &DynamicMessage, number: u32) -> Option<DynamicMessage> {
    if !message.has_field_by_number(number) {
        return None;
    }
    message.get_field_by_number(number)?.as_message().cloned()
}

fn number_in(message: &DynamicMessage, number: u32) -> Option<i32> {
    if !message.has_field_by_number(number) {
        return None;
    }
    message.get_field_by_number(number)?.as_enum_number()
}

fn messages_mut(
    message: &mut DynamicMessage,
    number: u32,
) -> impl Iterator<Item = &mut DynamicMessage> {
    let list = message
        .get_field_by_number_mut(number)
        .and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_message_mut)
}
