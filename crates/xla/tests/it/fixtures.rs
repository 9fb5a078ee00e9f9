//! Test inputs: files written by XLA, and their expected properties.

use std::fs;
use std::path::PathBuf;

use prost_reflect::prost::Message;
use prost_reflect::{
    DynamicMessage, MapKey, MessageDescriptor, ReflectMessage, Value as Reflected,
};
use proto_splitter_core::path::{FieldPath, Select};
use proto_splitter_xla::{RecordKind, SplitProto, descriptor_pool};
use record_file::{ReadAt, RecordWriter};
use serde_json::Value;

/// Returns the path of a file in the folder `tests/data/xla`.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/xla")
        .join(name)
}

pub(crate) fn read(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

/// Returns the expected properties of the files in a folder, by file name.
pub(crate) fn expected(name: &str) -> serde_json::Map<String, Value> {
    match serde_json::from_slice(&read(name)).unwrap() {
        Value::Object(files) => files,
        _ => panic!("{name} is no table"),
    }
}

pub(crate) fn message_type(name: &str) -> MessageDescriptor {
    descriptor_pool().get_message_by_name(name).unwrap()
}

/// Returns the serialized manifest of a message with this type and these records.
pub(crate) fn manifest(name: &str, kinds: &[RecordKind]) -> Vec<u8> {
    let field = |number: u8, value: &[u8]| {
        let mut bytes = vec![number << 3 | 2, u8::try_from(value.len()).unwrap()];
        bytes.extend(value);
        bytes
    };
    let override_of = |path: &FieldPath, kind: u16| {
        let steps = path.steps().iter().map(|step| {
            let mut part = vec![8, u8::try_from(step.field.0).unwrap()];
            let index = match step.select {
                Select::Index(index) => Some((16, index)),
                Select::Key(proto_splitter_core::path::MapKey::I64(key)) => {
                    Some((32, key.cast_unsigned()))
                }
                _ => None,
            };
            if let Some((tag, index)) = index {
                part.push(tag);
                proto_splitter_core::wire::put_varint(&mut part, index);
            }
            field(1, &part)
        });
        let mut bytes = steps.collect::<Vec<_>>().concat();
        bytes.push(16);
        proto_splitter_core::wire::put_varint(&mut bytes, u64::from(kind));
        field(3, &bytes)
    };
    let mut bytes = field(1, name.as_bytes());
    for kind in kinds {
        bytes.extend(field(
            2,
            &match kind {
                RecordKind::Merge => field(2, b""),
                RecordKind::Override(path) => override_of(path, 1),
                RecordKind::OverrideMessage(path) => override_of(path, 1000),
                _ => Vec::new(),
            },
        ));
    }
    bytes
}

/// Returns the bytes of a record file with these records.
pub(crate) fn record_file(records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::with_defaults(Vec::new());
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Returns all bytes of the message that a split proto contains.
pub(crate) fn merged(split: &SplitProto) -> proto_splitter_core::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(split.total_size()).unwrap()];
    split.message().read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Parses a message of the type `name`, and removes values that equal their defaults.
pub(crate) fn decoded(name: &str, bytes: &[u8]) -> DynamicMessage {
    let decode = |bytes: &[u8]| DynamicMessage::decode(message_type(name), bytes).unwrap();
    decode(&decode(bytes).encode_to_vec())
}

/// Returns true if two messages are equal. Floats are compared by their bits, so a NaN equals
/// itself.
pub(crate) fn same(left: &DynamicMessage, right: &DynamicMessage) -> bool {
    let fields = |message: &DynamicMessage| -> Vec<u32> {
        let descriptor = message.descriptor();
        let mut numbers: Vec<u32> = descriptor
            .fields()
            .filter(|field| message.has_field(field))
            .map(|field| field.number())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    let same_field = |number: u32| {
        let value = |message: &DynamicMessage| {
            message
                .get_field_by_number(number)
                .map(|found| found.into_owned())
        };
        match (value(left), value(right)) {
            (Some(left), Some(right)) => same_value(&left, &right),
            _ => false,
        }
    };
    fields(left) == fields(right)
        && left.unknown_fields().eq(right.unknown_fields())
        && fields(left).into_iter().all(same_field)
}

fn same_value(left: &Reflected, right: &Reflected) -> bool {
    match (left, right) {
        (Reflected::F32(left), Reflected::F32(right)) => left.to_bits() == right.to_bits(),
        (Reflected::F64(left), Reflected::F64(right)) => left.to_bits() == right.to_bits(),
        (Reflected::Message(left), Reflected::Message(right)) => same(left, right),
        (Reflected::List(left), Reflected::List(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same_value(left, right))
        }
        (Reflected::Map(left), Reflected::Map(right)) => {
            let found = |(key, value): (&MapKey, &Reflected)| {
                right.get(key).is_some_and(|other| same_value(value, other))
            };
            left.len() == right.len() && left.iter().all(found)
        }
        (left, right) => left == right,
    }
}
