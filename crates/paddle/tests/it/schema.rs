//! Tests that this crate's schema matches Paddle's own descriptors.

use std::collections::BTreeMap;
use std::fs;

use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use proto_splitter_core::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto,
};
use proto_splitter_paddle::proto::FILE_DESCRIPTOR_SET;

use crate::support::fixtures;

/// Returns everything that affects parsing: a description of each field and enum value, by the name
/// of its type and its number. Names that 3.x has changed are replaced with the old names.
fn wire(file: &FileDescriptorProto) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for message in &file.message_type {
        message_wire("", message, &mut found);
    }
    for of in &file.enum_type {
        enum_wire("", of, &mut found);
    }
    found
}

/// Returns the name that Paddle 2.6.2 uses for a type or field, if 3.x has renamed it.
fn old(name: &str) -> String {
    let name = name
        .replace("DENSE_TENSOR", "LOD_TENSOR")
        .replace("DenseTensor", "LoDTensor");
    name.replace("legacy_lod_level", "lod_level")
        .replace("dense_tensor", "lod_tensor")
}

fn message_wire(around: &str, message: &DescriptorProto, found: &mut BTreeMap<String, String>) {
    let name = format!("{around}.{}", old(message.name()));
    for field in &message.field {
        let key = format!("{name} {}", field.number());
        let packed = field
            .options
            .as_ref()
            .is_some_and(|options| options.packed());
        let default = field.default_value();
        let value = format!(
            "{} {:?} {:?} {} packed {packed} default {default:?}",
            old(field.name()),
            field.label(),
            field.r#type(),
            old(field.type_name()),
        );
        found.insert(key, value);
    }
    for reserved in &message.reserved_range {
        for number in reserved.start()..reserved.end() {
            found.insert(format!("{name} {number}"), "reserved".into());
        }
    }
    message
        .nested_type
        .iter()
        .for_each(|nested| message_wire(&name, nested, found));
    message
        .enum_type
        .iter()
        .for_each(|nested| enum_wire(&name, nested, found));
}

fn enum_wire(around: &str, of: &EnumDescriptorProto, found: &mut BTreeMap<String, String>) {
    for value in &of.value {
        let key = format!("{around}.{} = {}", of.name(), value.number());
        found.insert(key, old(value.name()));
    }
}

fn ours() -> BTreeMap<String, String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let file = set
        .file
        .iter()
        .find(|file| file.name() == "paddle/framework.proto");
    wire(file.unwrap())
}

fn theirs(name: &str) -> BTreeMap<String, String> {
    let bytes = fs::read(fixtures().join(name)).unwrap();
    wire(&FileDescriptorProto::decode(&bytes[..]).unwrap())
}

#[test]
fn everything_that_paddle_has_is_in_our_schema_with_the_same_wire_format() {
    let ours = ours();
    for name in ["framework.fds", "framework_331.fds"] {
        let theirs = theirs(name);
        assert!(theirs.len() > 100, "{name}");
        for (key, value) in theirs {
            assert_eq!(ours.get(&key), Some(&value), "{name}: {key}");
        }
    }
}

#[test]
fn beyond_paddle_our_schema_has_only_the_channel_of_the_documents() {
    let known: BTreeMap<_, _> = theirs("framework.fds")
        .into_iter()
        .chain(theirs("framework_331.fds"))
        .collect();
    let mut ours = ours();
    ours.retain(|key, _| !known.contains_key(key));
    let others: Vec<(String, String)> = ours.into_iter().collect();
    assert_eq!(
        others,
        [(".VarType.Type = 16".to_owned(), "CHANNEL".to_owned())]
    );
}
