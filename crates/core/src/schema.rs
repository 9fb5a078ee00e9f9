//! Types that are known at run time only: descriptor sets, as protobuf's compilers write them.
//!
//! A type that was compiled into the program needs none of this: a generated message says its
//! descriptor itself. Everything else comes as a `FileDescriptorSet`: from `protoc
//! --include_imports --descriptor_set_out=FILE`, from `buf build -o FILE`, or from the crate
//! `protox`.
//!
//! ```
//! use proto_splitter_core::schema::decode_descriptor_set;
//! use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, Source};
//! # use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
//! # use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
//! # let mut field = FieldDescriptorProto { name: Some("name".into()), number: Some(1), ..Default::default() };
//! # field.set_type(Type::String);
//! # field.set_label(Label::Optional);
//! # let trace = DescriptorProto { name: Some("Trace".into()), field: vec![field], ..Default::default() };
//! # let file = FileDescriptorProto { name: Some("trace.proto".into()), package: Some("perf".into()),
//! #     message_type: vec![trace], ..Default::default() };
//! # let descriptor_set = prost::Message::encode_to_vec(&FileDescriptorSet { file: vec![file] });
//!
//! // What `protoc --descriptor_set_out` wrote for `package perf; message Trace { optional string name = 1; }`.
//! let pool = decode_descriptor_set(&descriptor_set)?;
//! let descriptor = pool.get_message_by_name("perf.Trace").ok_or("it is in the set")?;
//!
//! let split = SizeSplitter.split(Source::from_bytes(&b"\x0a\x03run"[..], descriptor))?;
//! assert_eq!(split.chunks.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod editions;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};

use crate::{Error, ErrorKind, Result};

/// Field numbers of `google.protobuf.FileDescriptorSet` and `FileDescriptorProto`.
mod number {
    pub(super) const FILE: u32 = 1;
    pub(super) const NAME: u32 = 1;
    pub(super) const DEPENDENCY: u32 = 3;
    pub(super) const SYNTAX: u32 = 12;
}

/// The types in a serialized `FileDescriptorSet`: proto2, proto3, and editions 2023 and 2024.
///
/// # Errors
///
/// [`ErrorKind::InvalidSchema`] if these are no descriptors, a file that is imported isn't among
/// them, or they contradict each other.
pub fn decode_descriptor_set(bytes: &[u8]) -> Result<DescriptorPool> {
    let mut pool = DescriptorPool::new();
    add_descriptor_set(&mut pool, bytes)?;
    Ok(pool)
}

/// The types in a file that holds a `FileDescriptorSet`.
///
/// # Errors
///
/// As [`decode_descriptor_set`], and [`ErrorKind::Io`] if the file can't be read.
pub fn read_descriptor_set(path: impl AsRef<Path>) -> Result<DescriptorPool> {
    let path = path.as_ref();
    let read = || decode_descriptor_set(&std::fs::read(path)?);
    read().map_err(|error| error.context(path.display()))
}

/// Adds the types in a serialized `FileDescriptorSet` to those of a pool. A file that is in both
/// already is left as it is.
///
/// # Errors
///
/// As [`decode_descriptor_set`], and if a file of the set is in the pool with other content; only
/// of `google/protobuf/`, which everybody brings along, the first is taken.
pub fn add_descriptor_set(pool: &mut DescriptorPool, bytes: &[u8]) -> Result<()> {
    let mut set = DynamicMessage::decode(set_descriptor()?, bytes)
        .map_err(|error| invalid(format!("no file descriptor set: {error}")))?;
    let files = set
        .get_field_by_number_mut(number::FILE)
        .and_then(Value::as_list_mut);
    let files = files.ok_or_else(|| invalid("no file descriptor set".into()))?;
    check_imports(pool, files)?;
    for file in files.iter_mut().filter_map(Value::as_message_mut) {
        let name = text(file, number::NAME);
        if known_otherwise(pool, &name, file) {
            let message = format!("{name} is there twice, with different content");
            return Err(invalid(message));
        }
        editions::lower(file).map_err(|error| error.context(&name))?;
    }
    pool.decode_file_descriptor_set(set.encode_to_vec().as_slice())
        .map_err(|error| invalid(format!("{error:?}")))
}

fn set_descriptor() -> Result<MessageDescriptor> {
    DescriptorPool::global()
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .ok_or_else(|| invalid("descriptors are not described".into()))
}

/// Names a file that is imported and isn't there, before anything else is said of its types.
fn check_imports(pool: &DescriptorPool, files: &[Value]) -> Result<()> {
    let files = files.iter().filter_map(Value::as_message);
    let names: BTreeSet<String> = files.clone().map(|file| text(file, number::NAME)).collect();
    for file in files {
        let imports = file.get_field_by_number(number::DEPENDENCY);
        let imports = imports.as_deref().and_then(Value::as_list);
        for import in imports.into_iter().flatten().filter_map(Value::as_str) {
            if !names.contains(import) && pool.get_file_by_name(import).is_none() {
                let file = text(file, number::NAME);
                return Err(invalid(format!(
                    "{file} imports {import}, which is not in the set (protoc includes it with --include_imports)"
                )));
            }
        }
    }
    Ok(())
}

/// Whether the pool has a file of this name that lacks some of its fields.
fn known_otherwise(pool: &DescriptorPool, name: &str, file: &DynamicMessage) -> bool {
    if name.starts_with("google/protobuf/") {
        return false;
    }
    let Some(known) = pool.get_file_by_name(name) else {
        return false;
    };
    let file = FileDescriptorProto::decode(file.encode_to_vec().as_slice()).unwrap_or_default();
    !fields_of(&file).is_subset(&fields_of(known.file_descriptor_proto()))
}

/// Every field of every message: what it is in, its number and its name.
fn fields_of(file: &FileDescriptorProto) -> BTreeSet<(String, i32, String)> {
    let mut found = BTreeSet::new();
    let mut open: Vec<(String, &DescriptorProto)> = Vec::new();
    let inside = |scope: &str, message: &DescriptorProto| format!("{scope}.{}", message.name());
    open.extend(
        file.message_type
            .iter()
            .map(|m| (inside(file.package(), m), m)),
    );
    while let Some((scope, message)) = open.pop() {
        let fields = message.field.iter();
        found.extend(fields.map(|f| (scope.clone(), f.number(), f.name().to_owned())));
        open.extend(message.nested_type.iter().map(|m| (inside(&scope, m), m)));
    }
    found
}

fn text(message: &DynamicMessage, number: u32) -> String {
    let value = message.get_field_by_number(number);
    let text = value.as_deref().and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cold]
fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidSchema, message)
}
