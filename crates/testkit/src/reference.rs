//! A merge by reflection, like TensorFlow's Merger. It is slow, but simple, and shares no code with
//! the library's own merge.

use std::cmp::Ordering;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};
use proto_splitter_core::proto::field_index::map_key::Type;
use proto_splitter_core::proto::field_index::{Kind as Tag, MapKey as KeyTag};
use proto_splitter_core::proto::{ChunkedField, ChunkedMessage, FieldIndex};

/// Merges chunks in memory into a message of the given type.
///
/// # Panics
///
/// If the chunks or paths don't match the type, which is a test failure.
pub fn merge(
    chunks: &[Bytes],
    message: &ChunkedMessage,
    descriptor: &MessageDescriptor,
) -> DynamicMessage {
    let mut root = DynamicMessage::new(descriptor.clone());
    merge_into(&mut root, chunks, message);
    root
}

fn merge_into(target: &mut DynamicMessage, chunks: &[Bytes], message: &ChunkedMessage) {
    if let Some(index) = message.chunk_index {
        target
            .merge(chunk(chunks, index))
            .expect("a MESSAGE chunk parses as its type");
    }
    let mut fields: Vec<&ChunkedField> = message.chunked_fields.iter().collect();
    assert_no_shared_keys(&fields);
    fields.sort_by(|a, b| compare(a, b));
    for field in fields {
        let inner = field.message.as_ref().expect("a field has a message");
        place(target, &field.field_tag, chunks, inner);
    }
}

fn chunk(chunks: &[Bytes], index: u64) -> Bytes {
    chunks[usize::try_from(index).expect("fits")].clone()
}

/// Checks that no two fields have paths that are equal up to and including a map key. The order of
/// such fields would be undefined, since TensorFlow's sort compares paths only up to a map key.
fn assert_no_shared_keys(fields: &[&ChunkedField]) {
    for (at, a) in fields.iter().enumerate() {
        for b in &fields[..at] {
            let same = a
                .field_tag
                .iter()
                .zip(&b.field_tag)
                .take_while(|(a, b)| a == b);
            let shared = same
                .filter(|(a, _)| matches!(a.kind, Some(Tag::MapKey(_))))
                .count();
            assert_eq!(shared, 0, "two fields share a map key: {a:?} and {b:?}");
        }
    }
}

fn compare(a: &ChunkedField, b: &ChunkedField) -> Ordering {
    for (a, b) in a.field_tag.iter().zip(&b.field_tag) {
        match (
            a.kind.as_ref().expect("kind"),
            b.kind.as_ref().expect("kind"),
        ) {
            (Tag::Field(a), Tag::Field(b)) if a != b => return a.cmp(b),
            (Tag::Index(a), Tag::Index(b)) if a != b => return a.cmp(b),
            (Tag::MapKey(_), Tag::MapKey(_)) => return Ordering::Equal,
            _ => {}
        }
    }
    let index = |field: &ChunkedField| field.message.as_ref().and_then(|m| m.chunk_index);
    a.field_tag
        .len()
        .cmp(&b.field_tag.len())
        .then(index(a).cmp(&index(b)))
}

fn place(
    target: &mut DynamicMessage,
    tags: &[FieldIndex],
    chunks: &[Bytes],
    message: &ChunkedMessage,
) {
    let Some((first, rest)) = tags.split_first() else {
        let index = message.chunk_index.expect("a field has a chunk");
        target
            .merge(chunk(chunks, index))
            .expect("a slice parses as its parent's type");
        assert!(
            message.chunked_fields.is_empty(),
            "TensorFlow ignores fields below an empty path"
        );
        return;
    };
    let Some(Tag::Field(number)) = first.kind else {
        panic!("a path starts with a field")
    };
    let (select, rest) = match rest.split_first() {
        Some((tag, rest)) if !matches!(tag.kind, Some(Tag::Field(_))) => (tag.kind.as_ref(), rest),
        _ => (None, rest),
    };
    let (value, kind) = field_mut(target, number);
    let value = match select {
        None => value,
        Some(Tag::Index(index)) => {
            let list = value.as_list_mut().expect("an index is for a list");
            let index = usize::try_from(*index).expect("fits");
            assert!(
                index < list.len(),
                "index {index} of {}: a placeholder is missing",
                list.len()
            );
            &mut list[index]
        }
        Some(Tag::MapKey(key)) => {
            let Kind::Message(entry) = &kind else {
                panic!("a map has entries")
            };
            let Kind::Message(_) = entry.map_entry_value_field().kind() else {
                panic!("only maps of messages have paths")
            };
            let map = value.as_map_mut().expect("a key is for a map");
            map.get_mut(&map_key(key))
                .expect("the entry was left in its place")
        }
        Some(Tag::Field(_)) => unreachable!("matched above"),
    };
    match value {
        Value::Message(inner) if rest.is_empty() => merge_into(inner, chunks, message),
        Value::Message(inner) => place(inner, rest, chunks, message),
        value => {
            assert!(
                rest.is_empty(),
                "a path ends at a value that is not a message"
            );
            let bytes = chunk(chunks, message.chunk_index.expect("a field has a chunk"));
            *value = match kind {
                Kind::Bytes => Value::Bytes(bytes),
                Kind::String => Value::String(String::from_utf8(bytes.to_vec()).expect("UTF-8")),
                kind => panic!("a BYTES chunk for a {kind:?}"),
            };
        }
    }
}

/// Returns the value of the field or extension with this number, and its kind.
fn field_mut(target: &mut DynamicMessage, number: u32) -> (&mut Value, Kind) {
    let descriptor = target.descriptor();
    if let Some(field) = descriptor.get_field(number) {
        return (target.get_field_mut(&field), field.kind());
    }
    let extension = descriptor
        .get_extension(number)
        .expect("the field is known");
    (target.get_extension_mut(&extension), extension.kind())
}

fn map_key(key: &KeyTag) -> MapKey {
    match key.r#type.as_ref().expect("a key has a type") {
        Type::S(key) => MapKey::String(key.clone()),
        Type::Boolean(key) => MapKey::Bool(*key),
        Type::Ui32(key) => MapKey::U32(*key),
        Type::Ui64(key) => MapKey::U64(*key),
        Type::I32(key) => MapKey::I32(*key),
        Type::I64(key) => MapKey::I64(*key),
    }
}
