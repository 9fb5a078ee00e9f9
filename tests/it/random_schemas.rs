//! What holds of splits and merges of messages made at random, of types made at random.

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};
use proto_splitter::merge::{MergeOptions, Merger};
use proto_splitter::split::{SizeSplitter, Source, SplitOptions};
use proto_splitter_testkit::generate::{Habits, Order, Random, message};
use proto_splitter_testkit::schemas::{Schema, schema};
use proto_splitter_testkit::splits::{self, Outcome};

/// How many messages are made; `PROTO_SPLITTER_CASES` says otherwise.
const CASES: u64 = 10_000;

/// How many of them are of one schema: to make one takes as long as some messages.
const OF_ONE_SCHEMA: u64 = 10;

fn cases() -> u64 {
    let asked = std::env::var("PROTO_SPLITTER_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

/// How many of the messages came to what.
#[derive(Debug, Default)]
struct Tally {
    whole: u64,
    cut: u64,
    byte_exact: u64,
    uncuttable: u64,
}

#[test]
fn any_message_of_any_type_comes_back() {
    let mut tally = Tally::default();
    for seed in 0..cases().div_ceil(OF_ONE_SCHEMA) {
        let random = &mut Random::new(seed ^ 6 << 32);
        let schema = schema(random);
        for _ in 0..OF_ONE_SCHEMA {
            round_trip(&schema, random, &mut tally);
        }
    }
    assert!(tally.cut > cases() / 2, "{tally:?}");
    assert!(tally.byte_exact > tally.cut / 2, "{tally:?}");
    assert!(tally.uncuttable < cases() / 4, "{tally:?}");
}

fn round_trip(schema: &Schema, random: &mut Random, tally: &mut Tally) {
    let plain = random.one_in(2);
    let habits = Habits {
        order: match plain {
            true => Order::Ascending,
            false => *random.choose(&[Order::Ascending, Order::Descending, Order::Shuffled]),
        },
        odd_wire: !plain && random.one_in(2),
        repeats: !plain && random.one_in(2),
        size: 100 + random.below(3000),
    };
    let descriptor = &schema.root;
    let bytes = message(descriptor, random, &habits);
    let max = 30 + random.below(bytes.len() as u64 + 10);
    let value = (!random.one_in(2)).then(|| 1 + random.below(400));
    let options = SplitOptions::new()
        .max_chunk_size(max)
        .unwrap()
        .value_chunk_size(value);
    let source = Source::from_bytes(bytes.clone(), descriptor.clone());
    // Bounds, no cut too many, and a merge by reflection.
    let Outcome::Split(split) = splits::check(&SizeSplitter, &source, &bytes, &options) else {
        tally.uncuttable += 1;
        return;
    };
    if split.chunks.len() == 1 {
        tally.whole += 1;
    } else {
        tally.cut += 1;
        tally.byte_exact += u64::from(split.byte_exact());
    }
    assert!(split.byte_exact() || !plain, "{habits:?}\n{schema:?}");
    let options = match random.one_in(2) {
        true => MergeOptions::new(),
        false => MergeOptions::new().descriptor(descriptor.clone()),
    };
    let merged = Merger::merge(&split.bytes(), &split.metadata, &options)
        .unwrap_or_else(|error| panic!("{error}\n{schema:?}"));
    if split.byte_exact() {
        assert!(merged == bytes, "{habits:?}\n{schema:?}");
    } else {
        let decode = |bytes: &[u8]| DynamicMessage::decode(descriptor.clone(), bytes).unwrap();
        assert!(decode(&merged) == decode(&bytes), "{habits:?}\n{schema:?}");
    }
}

#[test]
fn the_types_have_every_kind_of_field() {
    let mut found = BTreeMap::new();
    for seed in 0..200 {
        let schema = schema(&mut Random::new(seed));
        for message in schema.root.parent_pool().all_messages() {
            describe(&message, &mut found);
        }
    }
    let expected = [
        "group",
        "repeated group",
        "message",
        "repeated message",
        "itself",
        "oneof",
        "required",
        "packed",
        "unpacked",
        "string",
        "repeated string",
        "bytes",
        "repeated bytes",
        "enum",
        "extension",
        "map of message",
        "map of string",
        "map of number",
        "nested",
        "proto3 optional",
    ];
    let missing: Vec<_> = expected
        .iter()
        .filter(|kind| !found.contains_key(**kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {found:?}");
    let keys = found
        .keys()
        .filter(|kind| kind.starts_with("key of "))
        .count();
    assert_eq!(keys, 12, "{found:?}");
}

fn describe(message: &MessageDescriptor, found: &mut BTreeMap<String, u64>) {
    let mut see = |kind: &str| *found.entry(kind.to_owned()).or_default() += 1;
    if message.is_map_entry() {
        let value = match message.map_entry_value_field().kind() {
            Kind::Message(_) => "message",
            Kind::String => "string",
            _ => "number",
        };
        see(&format!("map of {value}"));
        see(&format!(
            "key of {:?}",
            message.map_entry_key_field().kind()
        ));
        return;
    }
    if message.parent_message().is_some() {
        see("nested");
    }
    message.extensions().for_each(|_| see("extension"));
    for field in message.fields().filter(|field| !field.is_map()) {
        let repeated = if field.is_list() { "repeated " } else { "" };
        match field.kind() {
            Kind::Message(of) => {
                let group = if field.is_group() { "group" } else { "message" };
                see(&format!("{repeated}{group}"));
                if of == *message {
                    see("itself");
                }
            }
            Kind::String => see(&format!("{repeated}string")),
            Kind::Bytes => see(&format!("{repeated}bytes")),
            Kind::Enum(_) if !field.is_list() => see("enum"),
            _ if field.is_list() => see(if field.is_packed() {
                "packed"
            } else {
                "unpacked"
            }),
            _ => {}
        }
        if field.is_required() {
            see("required");
        }
        match field.containing_oneof() {
            Some(oneof) if oneof.is_synthetic() => see("proto3 optional"),
            Some(_) => see("oneof"),
            None => {}
        }
    }
}
