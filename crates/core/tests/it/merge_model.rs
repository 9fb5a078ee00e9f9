//! Tests that compare the merge of bytes with a merge of message objects, like TensorFlow's, for
//! random messages and chunks.

use crate::merge_support::Chunked;
use crate::merge_support::random::{Random, fields, place};
use crate::merge_support::schema::{descriptor, message};
use prost::Message;
use prost_reflect::{DynamicMessage, MapKey as ReflectKey, ReflectMessage, Value};
use proto_splitter_core::container::{Trailer, TrailerUse};
use proto_splitter_core::merge::{Limits, ReadOptions, plan};
use proto_splitter_core::path::{FieldPath, MapKey, Select, Step};
use proto_splitter_core::proto::{ChunkedField, ChunkedMessage};

/// Returns the value that a step leads to in a message, creating the value if it is missing. `None`
/// if the step's index is too high.
fn value_at<'a>(message: &'a mut DynamicMessage, step: &Step) -> Option<&'a mut Value> {
    let field = message.descriptor().get_field(step.field.0).unwrap();
    match &step.select {
        Select::Field => Some(message.get_field_mut(&field)),
        Select::Index(index) => {
            let list = message.get_field_mut(&field).as_list_mut().unwrap();
            let index = usize::try_from(*index).unwrap();
            if index == list.len() {
                list.push(Value::default_value(&field.kind()));
            }
            list.get_mut(index)
        }
        Select::Key(key) => {
            let key = match key {
                MapKey::String(key) => ReflectKey::String(key.clone()),
                MapKey::U32(key) => ReflectKey::U32(*key),
                _ => panic!("no such key here"),
            };
            let entry = field.kind().as_message().unwrap().clone();
            let kind = entry.map_entry_value_field().kind();
            let map = message.get_field_mut(&field).as_map_mut().unwrap();
            Some(
                map.entry(key)
                    .or_insert_with(|| Value::default_value(&kind)),
            )
        }
    }
}

fn apply(root: &mut DynamicMessage, path: &FieldPath, chunk: &[u8]) -> Option<()> {
    let Some((last, before)) = path.steps().split_last() else {
        root.merge(chunk).unwrap();
        return Some(());
    };
    let mut message = root;
    for step in before {
        message = value_at(message, step)?.as_message_mut().unwrap();
    }
    let value = value_at(message, last)?;
    match value {
        Value::Message(message) => message.merge(chunk).unwrap(),
        Value::I32(number) => *number = std::str::from_utf8(chunk).unwrap().parse().unwrap(),
        Value::String(text) => *text = String::from_utf8(chunk.to_vec()).unwrap(),
        Value::Bytes(bytes) => *bytes = chunk.to_vec().into(),
        other => panic!("{other:?}"),
    }
    Some(())
}

#[test]
fn a_merge_of_bytes_is_a_merge_of_messages() {
    let (mut merged_well, mut out_of_range) = (0, 0);
    for seed in 0..30_000 {
        let random = &mut Random::of_seed(seed);
        let base = fields(random, 2);
        let mut chunked = Chunked::unmarked();
        let mut model = DynamicMessage::new(descriptor());
        if random.below(8) > 0 {
            model.merge(&base[..]).unwrap();
            chunked = chunked.base(base);
        }
        let mut chunks: Vec<(FieldPath, usize, Vec<u8>)> = Vec::new();
        for at in 0..usize::try_from(1 + random.below(5)).unwrap() {
            let (path, is_message) = place(random);
            let chunk = match path.steps().last() {
                _ if is_message => fields(random, 1),
                Some(step) if matches!(step.field.0, 1 | 32) => {
                    random.below(1000).to_string().into()
                }
                _ => random.one_of(&["", "x", "yz"]).into(),
            };
            if !is_message && chunks.iter().any(|(known, ..)| *known == path) {
                continue;
            }
            chunked = if is_message {
                chunked.message(&path.to_string(), chunk.clone())
            } else {
                chunked.bytes(&path.to_string(), chunk.clone())
            };
            let tags = path.to_tags();
            chunked
                .message_mut()
                .chunked_fields
                .last_mut()
                .unwrap()
                .field_tag = tags;
            chunks.push((path, at, chunk));
        }
        chunks.sort();
        let expected = chunks
            .iter()
            .try_for_each(|(path, _, chunk)| apply(&mut model, path, chunk));
        let found = chunked.merge_with(&ReadOptions::new().descriptor(descriptor()));
        let show = || {
            let chunks: Vec<_> = chunks
                .iter()
                .map(|(path, at, bytes)| format!("{at} {path} {bytes:x?}"))
                .collect();
            format!(
                "seed {seed}: base {:x?}\n{}",
                chunked.chunks.first(),
                chunks.join("\n")
            )
        };
        match (found, expected) {
            (Ok(bytes), Some(())) => {
                let merged = message(&bytes);
                assert!(merged == model, "{}\nfound {merged}\nmodel {model}", show());
                merged_well += 1;
            }
            (Err(error), None) => {
                assert!(
                    error.to_string().contains("out of range"),
                    "{}\n{error}",
                    show()
                );
                out_of_range += 1;
            }
            (found, expected) => panic!("{}\nfound {found:?}\nmodel {expected:?}", show()),
        }
    }
    assert!(
        merged_well > 10_000 && out_of_range > 1000,
        "{merged_well}, {out_of_range}"
    );
}

#[test]
fn damaged_chunks_and_places_never_panic() {
    let mut merged_well = 0;
    for seed in 0..20_000 {
        let random = &mut Random::of_seed(seed);
        let mut chunked = Chunked::unmarked().base(fields(random, 2));
        chunked.metadata.splice_marker = seed % 2 == 0;
        for _ in 0..1 + random.below(4) {
            let (path, is_message) = place(random);
            let packed = random.below(4) == 0 && chunked.metadata.splice_marker;
            let chunk = if is_message {
                fields(random, 1)
            } else {
                b"12".to_vec()
            };
            let kind = if is_message || packed { 1 } else { 2 };
            let mut chunk = chunk;
            if random.below(3) == 0 && !chunk.is_empty() {
                let at = usize::try_from(random.below(chunk.len() as u64)).unwrap();
                chunk[at] = random.one_of(&[0, 1, 0x0b, 0x0c, 0x7f, 0x80, 0xff]);
            }
            let index = chunked.add(kind, chunk);
            let message = ChunkedMessage {
                chunk_index: Some(index),
                ..Default::default()
            };
            let field_tag = path.to_tags();
            let field = ChunkedField {
                field_tag,
                message: Some(message),
                packed,
                ..Default::default()
            };
            chunked.message_mut().chunked_fields.push(field);
            if random.below(3) == 0 && chunked.message_mut().chunked_fields.len() > 1 {
                chunked = chunked.nest(1);
            }
        }
        let trailer = Trailer::from_metadata(
            chunked.metadata.clone(),
            TrailerUse::Whole,
            &Limits::default(),
        );
        let Ok(trailer) = trailer else { continue };
        let typed = ReadOptions::new().descriptor(descriptor());
        for options in [
            typed,
            ReadOptions::new(),
            ReadOptions::new().assume_plain(true),
        ] {
            let Ok(plan) = plan(&trailer, &chunked.chunks[..], &options) else {
                continue;
            };
            // The plan covers the output, and its ranges are within the chunks.
            let mut end = 0;
            for span in plan.spans().iter() {
                assert_eq!(span.offset, end, "seed {seed}");
                end += span.len;
                if let Some((chunk, range)) = span.stored() {
                    assert!(
                        range.end <= chunked.chunks[chunk.index()].len() as u64,
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(end, plan.total_len(), "seed {seed}");
            merged_well += 1;
        }
    }
    assert!(merged_well > 5000, "{merged_well}");
}
