//! Tests that random messages of random types are unchanged after a split and a merge.

use std::cell::RefCell;
use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};
use proto_splitter::merge::{Merger, ReadOptions};
use proto_splitter::split::{
    ComposableSplitter, Profile, SizeSplitter, Source, SourceView, Split, SplitContext, SplitExt,
    SplitOptions,
};
use proto_splitter::{ErrorKind, Result};
use proto_splitter_testkit::generate::{Habits, Order, Random, cases, message};
use proto_splitter_testkit::schemas::{Schema, schema};
use proto_splitter_testkit::splits::{self, Outcome};

/// Default number of random messages.
const CASES: u64 = 10_000;

/// Number of messages for each random schema, since generating a schema takes as long as generating
/// several messages.
const OF_ONE_SCHEMA: u64 = 10;

/// Number of messages with each outcome.
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
    for seed in 0..cases(CASES).div_ceil(OF_ONE_SCHEMA) {
        let random = &mut Random::new(seed ^ 6 << 32);
        let schema = schema(random);
        for _ in 0..OF_ONE_SCHEMA {
            round_trip(&schema, random, &mut tally);
        }
    }
    assert!(tally.cut > cases(CASES) / 2, "{tally:?}");
    assert!(tally.byte_exact > tally.cut / 2, "{tally:?}");
    assert!(tally.uncuttable < cases(CASES) / 4, "{tally:?}");
}

fn round_trip(schema: &Schema, random: &mut Random, tally: &mut Tally) {
    let plain = random.one_in(2);
    let habits = Habits {
        order: if plain {
            Order::Ascending
        } else {
            *random.choose(&[Order::Ascending, Order::Descending, Order::Shuffled])
        },
        odd_wire: !plain && random.one_in(2),
        repeats: !plain && random.one_in(2),
        size: 100 + random.below(3000),
    };
    let descriptor = &schema.root;
    let bytes = message(descriptor, random, &habits);
    let options = options(random, bytes.len());
    let source = Source::from_bytes(bytes.clone(), descriptor.clone());
    // `check` tests that chunks are within the bounds, that no cut is unnecessary, and that a merge
    // by reflection returns an equal message.
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
    check_merge(&split, &bytes, random, descriptor);
}

fn options(random: &mut Random, size: usize) -> SplitOptions {
    let max = if random.one_in(8) {
        1 + random.below(30)
    } else {
        30 + random.below(size as u64 + 10)
    };
    let value = (!random.one_in(2)).then(|| 1 + random.below(400));
    let options = SplitOptions::new()
        .max_chunk_size(max)
        .value_chunk_size(value);
    if !random.one_in(3) {
        return options;
    }
    let value = (!random.one_in(3)).then(|| 1 + random.below(100));
    options.profile(Profile::Extended).max_value_size(value)
}

/// Checks that merging the chunks, with or without the type, restores an equal message, and
/// restores the same bytes if the split promises this.
fn check_merge(split: &Split, bytes: &[u8], random: &mut Random, descriptor: &MessageDescriptor) {
    let options = if random.one_in(2) {
        ReadOptions::new()
    } else {
        ReadOptions::new().descriptor(descriptor.clone())
    };
    let merged = Merger::new()
        .options(&options)
        .merge(&split.bytes(), &split.metadata)
        .unwrap_or_else(|error| panic!("{error}: {bytes:x?}"));
    if split.byte_exact() {
        assert!(merged == bytes, "{bytes:x?}");
    } else {
        let decode = |bytes: &[u8]| DynamicMessage::decode(descriptor.clone(), bytes).unwrap();
        assert!(decode(&merged) == decode(bytes), "{bytes:x?}");
    }
}

/// A splitter that randomly cuts and fits values, and delegates nested messages to another splitter
/// of this type.
struct Whimsical<'a> {
    random: &'a RefCell<Random>,
    fits: bool,
    depth: u32,
}

impl Whimsical<'_> {
    fn one_in(&self, n: u64) -> bool {
        self.random.borrow_mut().one_in(n)
    }
}

/// Returns the values of a message's fields that are messages, bytes or strings.
fn values<'a>(message: &'a SourceView<'a>) -> Result<Vec<SourceView<'a>>> {
    let mut found = Vec::new();
    let has_value = |kind| matches!(kind, Kind::Message(_) | Kind::Bytes | Kind::String);
    let fields = message.descriptor().into_iter().flat_map(|d| d.fields());
    for field in fields.filter(|field| has_value(field.kind())) {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                if has_value(entry.map_entry_value_field().kind()) {
                    // Skips a map value that is written in pieces, since no path identifies it.
                    let entries = message.map(field.name()).into_iter().flatten();
                    found.extend(entries.flatten().map(|(_, value)| value));
                }
            }
            _ if field.is_list() => {
                for element in message.repeated(field.name())? {
                    found.push(element?.view());
                }
            }
            _ => found.extend(message.get(field.name())?),
        }
    }
    Ok(found)
}

impl ComposableSplitter for Whimsical<'_> {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        if self.fits && self.one_in(4) {
            cx.fit()?;
        }
        for value in values(&cx.message())? {
            if self.one_in(3) {
                match cx.cut(&value) {
                    Err(error) if error.kind() == ErrorKind::Uncuttable => {}
                    cut => cut?,
                }
            }
            if value.descriptor().is_some() && self.depth < 5 && self.one_in(2) {
                let child = Whimsical {
                    depth: self.depth + 1,
                    ..*self
                };
                cx.compose(&child, &value)?;
            }
        }
        if self.fits && self.depth == 0 {
            cx.fit()
        } else {
            Ok(())
        }
    }
}

#[test]
fn whatever_a_splitter_cuts_and_fits_in_any_order_comes_back() {
    let (mut cut, mut uncuttable) = (0, 0);
    let cases = cases(CASES) / 4;
    for seed in 0..cases.div_ceil(OF_ONE_SCHEMA) {
        let random = &mut Random::new(seed ^ 9 << 32);
        let schema = schema(random);
        for _ in 0..OF_ONE_SCHEMA {
            let habits = Habits {
                order: *random.choose(&[Order::Ascending, Order::Shuffled]),
                odd_wire: random.one_in(3),
                repeats: random.one_in(3),
                size: 100 + random.below(1500),
            };
            let bytes = message(&schema.root, random, &habits);
            let fits = random.one_in(2);
            let options = if fits {
                options(random, bytes.len())
            } else {
                SplitOptions::new()
            };
            let whims = RefCell::new(Random::new(random.number()));
            let splitter = Whimsical {
                random: &whims,
                fits,
                depth: 0,
            };
            let source = Source::from_bytes(bytes.clone(), schema.root.clone());
            match splitter.split_with(source, &options) {
                Ok(split) => {
                    cut += u64::from(split.chunks.len() > 1);
                    check_merge(&split, &bytes, random, &schema.root);
                }
                Err(error) if error.kind() == ErrorKind::Uncuttable => uncuttable += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(
        cut > cases / 2 && uncuttable < cases / 4,
        "{cut} {uncuttable}"
    );
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
