//! Printing files whose features proto2 can't express, with the syntax of editions.

use std::collections::HashSet;

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{
    ExtensionDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
};
use proto_splitter::schema::{
    extension_verifies_utf8, has_presence, is_closed_enum, verifies_utf8,
};

/// Returns true if a file has a field that is encoded as a group, but can't be declared as a group
/// in proto2. In proto2, a group declares both a type and the only field of this type, which is
/// named after the type. With editions, any message field can be encoded as a group.
pub(super) fn is_needed(file: &FileDescriptorProto) -> bool {
    let mut scopes = vec![(file.package().to_owned(), &file.message_type)];
    let mut fields = vec![(0, &file.extension)];
    let mut at = 0;
    while let Some((scope, messages)) = scopes.get(at).cloned() {
        for message in messages {
            let scope = match scope.as_str() {
                "" => message.name().to_owned(),
                scope => format!("{scope}.{}", message.name()),
            };
            fields.extend([
                (scopes.len(), &message.field),
                (scopes.len(), &message.extension),
            ]);
            scopes.push((scope, &message.nested_type));
        }
        at += 1;
    }
    let mut bodies = HashSet::new();
    fields.into_iter().any(|(scope, fields)| {
        let groups = fields.iter().filter(|field| field.r#type() == Type::Group);
        let (scope, nested) = &scopes[scope];
        groups.into_iter().any(|field| {
            let full_name = field.type_name().trim_start_matches('.');
            let own = nested.iter().find(|nested| {
                let is_it = full_name.strip_suffix(nested.name());
                let around = is_it.map(|around| around.trim_end_matches('.'));
                around == Some(scope) && field.name() == nested.name().to_lowercase()
            });
            own.is_none_or(|own| !own.name().starts_with(|c: char| c.is_ascii_uppercase()))
                || !bodies.insert(full_name)
        })
    })
}

/// Returns true if a file has features that proto2 can't express: an open enum, a string that must
/// be UTF-8, or a field without presence that isn't repeated.
pub(super) fn has_features(file: &FileDescriptor) -> bool {
    let mut messages: Vec<MessageDescriptor> = file.messages().collect();
    if file.enums().any(|values| !is_closed_enum(&values))
        || file
            .extensions()
            .any(|field| extension_verifies_utf8(&field))
    {
        return true;
    }
    while let Some(message) = messages.pop() {
        let is_featured = |field: FieldDescriptor| {
            verifies_utf8(&field) || Features::of_field(&field).is_implicit
        };
        if message.child_enums().any(|values| !is_closed_enum(&values))
            || message
                .child_extensions()
                .any(|field| extension_verifies_utf8(&field))
            || message.fields().any(is_featured)
        {
            return true;
        }
        messages.extend(message.child_messages());
    }
    false
}

/// The features of a field or an extension that its descriptor in proto2 doesn't contain.
#[derive(Clone, Copy)]
pub(super) struct Features {
    /// True if the field has no presence where a field of proto2 would have it.
    is_implicit: bool,
    /// True if the field has strings, or its map has, and parsers accept strings that aren't UTF-8.
    is_any_text: bool,
}

impl Features {
    pub(super) fn of_field(field: &FieldDescriptor) -> Features {
        let is_any_text =
            |field: &FieldDescriptor| field.kind() == Kind::String && !verifies_utf8(field);
        let entry = Some(field.kind()).filter(|_| field.is_map());
        Features {
            is_implicit: field.supports_presence() && !has_presence(field),
            is_any_text: match entry {
                Some(Kind::Message(entry)) => entry.fields().any(|field| is_any_text(&field)),
                _ => is_any_text(field),
            },
        }
    }

    pub(super) fn of_extension(extension: &ExtensionDescriptor) -> Features {
        Features {
            is_implicit: false,
            is_any_text: extension.kind() == Kind::String && !extension_verifies_utf8(extension),
        }
    }
}

/// Adds to `options` the features of a field, including those that express its proto2 label, type
/// and `packed` option in an edition. Removes `packed` from `options`.
pub(super) fn say_as_features(
    field: &FieldDescriptorProto,
    features: Features,
    options: &mut Vec<(String, String)>,
) {
    let packed = options.iter().position(|(name, _)| name == "packed");
    let is_packed = packed.map(|at| options.remove(at).1 == "true");
    let can_be_packed = !matches!(
        field.r#type(),
        Type::String | Type::Bytes | Type::Message | Type::Group
    );
    let mut say = |feature: &str, value: &str| {
        options.push((format!("features.{feature}"), value.to_owned()));
    };
    match field.label() {
        Label::Required => say("field_presence", "LEGACY_REQUIRED"),
        Label::Optional if features.is_implicit => say("field_presence", "IMPLICIT"),
        Label::Repeated if can_be_packed && is_packed != Some(true) => {
            say("repeated_field_encoding", "EXPANDED");
        }
        _ => {}
    }
    if field.r#type() == Type::Group {
        say("message_encoding", "DELIMITED");
    }
    if features.is_any_text {
        say("utf8_validation", "NONE");
    }
}
