//! Printing files whose features proto2 can't express, with the syntax of editions.

use std::collections::HashSet;

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{FileDescriptor, MessageDescriptor};
use proto_splitter::schema::is_closed_enum;

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

/// Returns true if a file has an open enum. The enums of proto2 are closed.
pub(super) fn has_open_enum(file: &FileDescriptor) -> bool {
    if file.enums().any(|values| !is_closed_enum(&values)) {
        return true;
    }
    let mut messages: Vec<MessageDescriptor> = file.messages().collect();
    while let Some(message) = messages.pop() {
        if message.child_enums().any(|values| !is_closed_enum(&values)) {
            return true;
        }
        messages.extend(message.child_messages());
    }
    false
}

/// Adds to `options` the features that express a field's proto2 label, type and `packed` option in
/// an edition. Removes `packed` from `options`.
pub(super) fn say_as_features(field: &FieldDescriptorProto, options: &mut Vec<(String, String)>) {
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
        Label::Repeated if can_be_packed && is_packed != Some(true) => {
            say("repeated_field_encoding", "EXPANDED");
        }
        _ => {}
    }
    if field.r#type() == Type::Group {
        say("message_encoding", "DELIMITED");
    }
}
