//! Message types that are loaded at run time, from the descriptor sets that protobuf compilers
//! write.
//!
//! Types that `prost-reflect-build` compiled into the program don't need this module, since their
//! messages have descriptors. Messages of types from `prost-build` have no descriptors: pass
//! [`Source::from_message`](crate::split::Source::from_message) a descriptor from the set that
//! `prost_build::Config::file_descriptor_set_path` writes. For all other types, create a
//! `FileDescriptorSet` with `protoc --include_imports --descriptor_set_out=FILE`, with `buf build
//! -o FILE`, or with the crate `protox`.
//!
//! ```
//! use proto_splitter_core::schema::decode_descriptor_set;
//! use proto_splitter_core::split::{SplitExt, SizeSplitter, Source};
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
//! // The output of `protoc --descriptor_set_out` for `package perf; message Trace { optional string name = 1; }`.
//! let pool = decode_descriptor_set(&descriptor_set)?;
//! let descriptor = pool.get_message_by_name("perf.Trace").ok_or("it is in the set")?;
//!
//! let split = SizeSplitter.split(Source::from_bytes(&b"\x0a\x03run"[..], descriptor))?;
//! assert_eq!(split.chunks.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod cost;
mod editions;
mod reflect;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use prost::Message;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};

pub use crate::features::{
    clear_defaults, decode_dynamic, extension_verifies_utf8, has_presence, is_closed_enum,
    verifies_utf8,
};
use crate::{ErrorKind, Result};
use reflect::{invalid, number, text};

/// Decodes the message types in a serialized `FileDescriptorSet`. Supports proto2, proto3, and
/// editions 2023 and 2024.
///
/// # Errors
///
/// [`ErrorKind::InvalidSchema`] if the bytes are not descriptors, an imported file is missing, or
/// the descriptors are inconsistent.
pub fn decode_descriptor_set(bytes: &[u8]) -> Result<DescriptorPool> {
    let mut pool = DescriptorPool::new();
    add_descriptor_set(&mut pool, bytes)?;
    Ok(pool)
}

/// Reads the message types in a file that contains a serialized `FileDescriptorSet`.
///
/// # Errors
///
/// The same errors as [`decode_descriptor_set`], and [`ErrorKind::Io`] if the file can't be read.
pub fn read_descriptor_set(path: impl AsRef<Path>) -> Result<DescriptorPool> {
    let path = path.as_ref();
    let read = || decode_descriptor_set(&std::fs::read(path)?);
    read().map_err(|error| error.in_file(path))
}

/// Adds the message types in a serialized `FileDescriptorSet` to a pool. A `.proto` file that the
/// pool already contains is left unchanged there.
///
/// # Errors
///
/// The same errors as [`decode_descriptor_set`]; [`ErrorKind::InvalidSchema`] if the pool contains
/// a `.proto` file of the set that lacks fields of the set's file. Files in `google/protobuf/`,
/// which most sets contain, may lack fields: the pool's version is kept.
pub fn add_descriptor_set(pool: &mut DescriptorPool, bytes: &[u8]) -> Result<()> {
    check_memory(bytes)?;
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
            let message = format!("{name} occurs twice, with different content");
            return Err(invalid(message));
        }
        editions::lower(file).map_err(|error| error.context(&name))?;
    }
    pool.decode_file_descriptor_set(set.encode_to_vec().as_slice())
        .map_err(|error| invalid(format!("{error:?}")))
}

/// Maximum memory for a descriptor set and the types built from it, in bytes: enough for hundreds
/// of thousands of messages and fields.
const MAX_SET_MEMORY: u64 = 512 << 20;

/// Estimated memory for each message in a descriptor set, such as the descriptor of a field, in
/// bytes. Each message is stored three times: as decoded, as checked, and in the pool.
const EACH_DESCRIPTOR: u64 = 1200;

/// Fails if a serialized `FileDescriptorSet` would take too much memory.
pub(crate) fn check_memory(set: &[u8]) -> Result<()> {
    let costs = cost::Costs {
        most: MAX_SET_MEMORY,
        each_message: EACH_DESCRIPTOR,
        opens_any: false,
    };
    cost::check(set, &set_descriptor()?, costs).map_err(|error| match error.kind() {
        ErrorKind::LimitExceeded => error.context("the schema"),
        _ => invalid(format!("no file descriptor set: {error}")),
    })
}

/// Fails if a message of this type, decoded as a [`DynamicMessage`] with the content of each
/// `google.protobuf.Any`, would take more than `most` bytes of memory, or if `Any`s nest too deeply
/// to be displayed.
///
/// ```
/// use prost_reflect::ReflectMessage;
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::schema::check_decoded_size;
///
/// // Ten thousand empty messages of two bytes each.
/// let bytes = b"\x22\x00".repeat(10_000);
/// let descriptor = FileDescriptorProto::default().descriptor();
/// assert!(check_decoded_size(&bytes, &descriptor, 64 << 20).is_ok());
/// assert!(check_decoded_size(&bytes, &descriptor, 1 << 20).is_err());
/// ```
///
/// # Errors
///
/// [`ErrorKind::LimitExceeded`] if the message would take more memory, or its `Any`s nest too
/// deeply; [`ErrorKind::InvalidMessage`] if the bytes are not a message.
pub fn check_decoded_size(bytes: &[u8], descriptor: &MessageDescriptor, most: u64) -> Result<()> {
    let costs = cost::Costs {
        most,
        each_message: 0,
        opens_any: true,
    };
    cost::check(bytes, descriptor, costs)
}

fn set_descriptor() -> Result<MessageDescriptor> {
    DescriptorPool::global()
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .ok_or_else(|| invalid("descriptors are not described".into()))
}

/// Fails if a file imports a file that is neither in the set nor in the pool. The pool would report
/// only the types that are missing, which is less clear.
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

/// Returns true if the pool has a file with this name that lacks some of the fields in `file`.
/// Ignores files in `google/protobuf/`.
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

/// Returns each field of each message type in a file: the message's full name, and the field's
/// number and name.
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
