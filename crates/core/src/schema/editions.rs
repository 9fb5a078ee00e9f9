//! Support for protobuf editions: converts their features to proto2, which prost-reflect supports.
//!
//! Two features determine a field's wire format: `repeated_field_encoding`, whether a repeated
//! number is packed, and `message_encoding`, whether a message is delimited, that is, a group. Three
//! more determine what parsers and serializers do: `enum_type`, whether a number that an enum doesn't
//! declare becomes an unknown field; `field_presence`, whether a 0 is written; `utf8_validation`,
//! whether a string must be UTF-8. The other features don't affect messages. All features are
//! removed, since protobuf's libraries refuse a proto2 file with features. Those that can't be
//! expressed in proto2 are [stored](crate::features).

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Value};

use super::reflect::number;
use super::reflect::{invalid, text};
use crate::Result;
use crate::features::{self, Feature};

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
    pub(super) const EXTENDEE: u32 = 2;
    pub(super) const ONEOF_INDEX: u32 = 9;
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
    // Numbers in FeatureSet.
    pub(super) const FIELD_PRESENCE: u32 = 1;
    pub(super) const OPENNESS: u32 = 2;
    pub(super) const REPEATED_FIELD_ENCODING: u32 = 3;
    pub(super) const UTF8_VALIDATION: u32 = 4;
    pub(super) const MESSAGE_ENCODING: u32 = 5;
}

/// Numbers of enum values in descriptors.
mod value {
    pub(super) const LABEL_REQUIRED: i32 = 2;
    pub(super) const LABEL_REPEATED: i32 = 3;
    pub(super) const TYPE_STRING: i32 = 9;
    pub(super) const TYPE_GROUP: i32 = 10;
    pub(super) const TYPE_MESSAGE: i32 = 11;
    pub(super) const TYPE_BYTES: i32 = 12;
    pub(super) const LEGACY_REQUIRED: i32 = 3;
    pub(super) const EXPANDED: i32 = 2;
    pub(super) const DELIMITED: i32 = 2;
}

/// The features that apply to a field or an enum unless it overrides them.
#[derive(Clone, Copy)]
struct Features {
    packed: bool,
    delimited: bool,
    presence: Presence,
    closed: bool,
    utf8: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Explicit,
    Implicit,
    Required,
}

impl Features {
    /// The features of a file that says nothing about them.
    const DEFAULT: Features = Features {
        packed: true,
        delimited: false,
        presence: Presence::Explicit,
        closed: false,
        utf8: true,
    };

    /// Returns these features, overridden by those in `set`, a `FeatureSet`.
    fn with(self, set: Option<&DynamicMessage>) -> Self {
        let Some(set) = set else { return self };
        let asked = |number| number_in(set, number);
        Features {
            packed: asked(field::REPEATED_FIELD_ENCODING)
                .map_or(self.packed, |encoding| encoding != value::EXPANDED),
            delimited: asked(field::MESSAGE_ENCODING)
                .map_or(self.delimited, |encoding| encoding == value::DELIMITED),
            presence: asked(field::FIELD_PRESENCE).map_or(
                self.presence,
                |presence| match presence {
                    value::LEGACY_REQUIRED => Presence::Required,
                    _ if presence == features::value::IMPLICIT.into() => Presence::Implicit,
                    _ => Presence::Explicit,
                },
            ),
            closed: asked(field::OPENNESS).map_or(self.closed, |openness| {
                openness == features::value::CLOSED.into()
            }),
            // Compilers differ in the number of NONE, which descriptor.proto changed.
            utf8: asked(field::UTF8_VALIDATION).map_or(self.utf8, |validation| {
                validation == features::value::VERIFY.into()
            }),
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
    let features = with_own(
        Features::DEFAULT,
        file,
        field::FILE_OPTIONS,
        field::FILE_FEATURES,
    );
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
    let features = with_own(
        features,
        message,
        field::MESSAGE_OPTIONS,
        field::MESSAGE_FEATURES,
    );
    clear_features(message, field::MESSAGE_OPTIONS, field::MESSAGE_FEATURES);
    for oneof in messages_mut(message, field::ONEOF) {
        clear_features(oneof, field::ONEOF_OPTIONS, field::ONEOF_FEATURES);
    }
    let of_maps = features_of_repeated(message, features);
    let mut entries = Vec::new();
    for nested in messages_mut(message, field::NESTED_TYPE) {
        let options = message_in(nested, field::MESSAGE_OPTIONS);
        let map_entry =
            options.and_then(|options| options.get_field_by_number(field::MAP_ENTRY)?.as_bool());
        if map_entry == Some(true) {
            let name = text(nested, number::NAME);
            let features = of_maps.get(&name).copied().unwrap_or(features);
            for member in messages_mut(nested, field::FIELD) {
                // The wire format of an entry is the same in each edition.
                let features = take_features(member, features);
                store_features(member, features)?;
            }
            entries.push(name);
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

/// Returns the features of each repeated field whose type is a message, by the last part of the
/// type's name. The features of a map also apply to the keys and values in its entries.
fn features_of_repeated(message: &DynamicMessage, features: Features) -> HashMap<String, Features> {
    let fields = message.get_field_by_number(field::FIELD);
    let fields = fields.as_deref().and_then(Value::as_list);
    let fields = fields.into_iter().flatten().filter_map(Value::as_message);
    let repeated = fields.filter(|of| number_in(of, field::LABEL) == Some(value::LABEL_REPEATED));
    let named = repeated.filter_map(|of| {
        let name = text(of, field::TYPE_NAME);
        let last = name.rsplit('.').next().filter(|last| !last.is_empty())?;
        let own = with_own(features, of, field::FIELD_OPTIONS, field::FIELD_FEATURES);
        Some((last.to_owned(), own))
    });
    named.collect()
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
    let features = take_features(field, features);
    store_features(field, features)?;
    let (label, kind) = (
        number_in(field, field::LABEL),
        number_in(field, field::TYPE),
    );
    let repeated = label == Some(value::LABEL_REPEATED);
    if features.presence == Presence::Required && chooses_presence(field) {
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
            let options = options_mut(field, field::FIELD_OPTIONS)?;
            set(options, field::PACKED, Value::Bool(features.packed))?;
        }
        _ => {}
    }
    Ok(())
}

/// Removes the features from a field's options, and returns the features that apply to the field.
fn take_features(field: &mut DynamicMessage, features: Features) -> Features {
    let features = with_own(features, field, field::FIELD_OPTIONS, field::FIELD_FEATURES);
    clear_features(field, field::FIELD_OPTIONS, field::FIELD_FEATURES);
    features
}

/// Stores the features of a field that proto2 can't express in the field's options.
fn store_features(field: &mut DynamicMessage, features: Features) -> Result<()> {
    let kind = number_in(field, field::TYPE);
    let is_message = matches!(kind, Some(value::TYPE_MESSAGE | value::TYPE_GROUP));
    let is_implicit = features.presence == Presence::Implicit && !is_message;
    if is_implicit && chooses_presence(field) {
        let options = options_mut(field, field::FIELD_OPTIONS)?;
        store(Feature::FieldPresence, options, features::value::IMPLICIT)?;
    }
    if features.utf8 && kind == Some(value::TYPE_STRING) {
        let options = options_mut(field, field::FIELD_OPTIONS)?;
        store(Feature::Utf8Validation, options, features::value::VERIFY)?;
    }
    Ok(())
}

/// Returns true if the feature `field_presence` applies to a field. It doesn't apply to repeated
/// fields, members of oneofs and extensions.
fn chooses_presence(field: &DynamicMessage) -> bool {
    number_in(field, field::LABEL) != Some(value::LABEL_REPEATED)
        && !field.has_field_by_number(field::ONEOF_INDEX)
        && !field.has_field_by_number(field::EXTENDEE)
}

/// Stores in an enum's own options whether the enum is closed.
fn lower_enum(values: &mut DynamicMessage, features: Features) -> Result<()> {
    let features = with_own(features, values, field::ENUM_OPTIONS, field::ENUM_FEATURES);
    for value in messages_mut(values, field::ENUM_VALUE) {
        clear_features(value, field::ENUM_VALUE_OPTIONS, field::ENUM_VALUE_FEATURES);
    }
    let openness = if features.closed {
        features::value::CLOSED
    } else {
        features::value::OPEN
    };
    let options = options_mut(values, field::ENUM_OPTIONS)?;
    options.clear_field_by_number(field::ENUM_FEATURES);
    store(Feature::EnumType, options, openness)
}

fn store(feature: Feature, options: &mut DynamicMessage, value: u8) -> Result<()> {
    feature
        .store(options, value)
        .map_err(|error| invalid(error.to_string()))
}

fn options_mut(of: &mut DynamicMessage, options: u32) -> Result<&mut DynamicMessage> {
    of.get_field_by_number_mut(options)
        .and_then(Value::as_message_mut)
        .ok_or_else(|| invalid("a descriptor without options".into()))
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
