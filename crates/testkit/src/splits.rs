//! Checks of the properties that every split must have.

use prost_reflect::{DynamicMessage, Value};
use proto_splitter_core::container::ChunkKind;
use proto_splitter_core::split::{
    ComposableSplitter, Profile, Source, Split, SplitExt, SplitOptions, SplitPlan,
};
use proto_splitter_core::wire::WireCursor;
use proto_splitter_core::{Error, ErrorKind};

use crate::reference;

/// The outcome of [`check`].
#[derive(Debug)]
pub enum Outcome {
    /// The message was split, and the split passed all checks.
    Split(Box<Split>),
    /// The message couldn't be split, since it has a large part that can't be cut.
    Uncuttable,
}

/// Splits a message. Checks that no chunk exceeds the maximum size, that no cut is unnecessary, and
/// that a merge by reflection returns an equal message.
///
/// # Panics
///
/// If one of these checks fails.
pub fn check<S: ComposableSplitter>(
    splitter: &S,
    source: &Source,
    bytes: &[u8],
    options: &SplitOptions,
) -> Outcome {
    let plan = match splitter.plan(source, options) {
        Ok(plan) => plan,
        Err(error) if error.kind() == ErrorKind::Uncuttable => {
            check_refusal(&error, options);
            return Outcome::Uncuttable;
        }
        Err(error) => panic!("{error}"),
    };
    check_bounds(&plan, options);
    check_minimal(&plan, options);
    let split = splitter.split_with(source, options).unwrap();
    let chunks = split.bytes();
    for (chunk, planned) in chunks.iter().zip(plan.chunks()) {
        assert_eq!(chunk.len() as u64, planned.size(), "a plan knows its sizes");
        if let (Some(said), Some(number)) = (planned.elements(), planned.slice_of()) {
            let mut cursor = WireCursor::new(&chunk[..]);
            let fields = std::iter::from_fn(|| cursor.next().unwrap());
            let found = fields.filter(|field| field.number == number).count() as u64;
            assert_eq!(found, said, "a plan knows how many elements are in a slice");
        }
    }
    if options.get_profile() == Profile::Extended {
        // The merge by reflection follows TensorFlow's rules, which don't apply to this profile.
        // Instead, callers compare the bytes of the library's own merge.
        return Outcome::Split(Box::new(split));
    }
    let merged = reference::merge(&chunks, &split.message(), source.descriptor());
    let original = DynamicMessage::decode(source.descriptor().clone(), bytes).unwrap();
    if merged != original {
        let [original, merged] = [original, merged].map(|message| canonical(&message));
        let same = original
            .lines()
            .zip(merged.lines())
            .take_while(|(a, b)| a == b)
            .count();
        let at = |text: &str| {
            text.lines()
                .skip(same.saturating_sub(5))
                .take(12)
                .collect::<Vec<_>>()
                .join("\n")
        };
        panic!(
            "the merge by reflection differs at line {same}\n{plan}\n{}\n---\n{}",
            at(&original),
            at(&merged)
        );
    }
    Outcome::Split(Box::new(split))
}

/// Checks that the error for an impossible split states a number of bytes, and the maximum that
/// this number exceeds.
fn check_refusal(error: &Error, options: &SplitOptions) {
    let text = error.to_string();
    let message = match error.path() {
        Some(path) => text.strip_prefix(&format!("{path}: ")).unwrap(),
        None => &text,
    };
    let numbers = message.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.filter(|number| !number.is_empty());
    let mut next = || numbers.next().map(|number| number.parse::<u64>().unwrap());
    let (found, allowed) = (next(), next());
    assert!(found > allowed && allowed > Some(0), "{text}");
    let max = [
        Some(options.effective_max_chunk_size()),
        options.effective_max_value_size(),
    ];
    assert!(max.contains(&allowed), "{text}");
}

fn check_bounds(plan: &SplitPlan, options: &SplitOptions) {
    let max = options.effective_max_chunk_size();
    for chunk in plan.chunks() {
        let bounded = match chunk.kind() {
            ChunkKind::Message => chunk.size() <= max,
            ChunkKind::Bytes => options
                .effective_max_value_size()
                .is_none_or(|most| chunk.size() <= most),
        };
        assert!(
            bounded,
            "{} B at {} are over {max}\n{plan}",
            chunk.size(),
            chunk.path()
        );
    }
    if plan.source_size() <= max {
        assert!(!plan.is_split(), "nothing had to be cut\n{plan}");
    }
}

/// Checks that putting a chunk back into its parent, or joining a slice with the previous slice,
/// would exceed the maximum size. Ignores large values, chunks that contain other chunks, and the
/// growth of length prefixes.
fn check_minimal(plan: &SplitPlan, options: &SplitOptions) {
    const LENGTHS: u64 = 40;
    let max = options.effective_max_chunk_size();
    let chunks = plan.chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        let Some(parent) = chunk.parent() else {
            continue;
        };
        let always = chunk.kind() == ChunkKind::Bytes
            && options
                .get_value_chunk_size()
                .is_some_and(|size| chunk.size() >= size);
        let holder = chunks
            .iter()
            .any(|other| other.parent() == Some(index.into()));
        // If a value is divided into several chunks, a single one of them can't be put back into
        // the parent.
        let near = chunks[index.saturating_sub(1)..]
            .iter()
            .zip(index.saturating_sub(1)..)
            .take(3);
        let piece = chunk.kind() == ChunkKind::Bytes
            && near
                .filter(|(_, at)| *at != index)
                .any(|(other, _)| other.kind() == ChunkKind::Bytes && other.path() == chunk.path());
        if always || holder || piece {
            continue;
        }
        let slice_before = chunks[..index].iter().rposition(|other| {
            chunk.slice_of().is_some()
                && other.slice_of() == chunk.slice_of()
                // A slice of a packed run contains nothing else, so it can't be joined with other
                // elements.
                && other.packed() == chunk.packed()
                && (other.path(), other.parent()) == (chunk.path(), chunk.parent())
        });
        let before = slice_before.unwrap_or(parent.to_usize());
        let size = chunks[before].size() + chunk.size() + LENGTHS;
        assert!(
            size > max,
            "chunk {index} could go back to {before}: {size} B of {max}\n{plan}"
        );
    }
}

/// Formats a message as text, with one value per line. Maps are sorted by key.
pub fn canonical(message: &DynamicMessage) -> String {
    let mut lines = String::new();
    write_message(&mut lines, "", message);
    lines
}

fn write_message(lines: &mut String, path: &str, message: &DynamicMessage) {
    let mut values: Vec<(u32, String, Value)> = Vec::new();
    values.extend(
        message
            .fields()
            .map(|(f, v)| (f.number(), f.name().to_owned(), v.clone())),
    );
    values.extend(
        message
            .extensions()
            .map(|(f, v)| (f.number(), f.full_name().to_owned(), v.clone())),
    );
    values.sort_by_key(|(number, ..)| *number);
    for (_, name, value) in values {
        write_value(lines, &format!("{path}.{name}"), &value);
    }
    for unknown in message.unknown_fields() {
        lines.push_str(&format!("{path}.?{unknown:?}\n"));
    }
}

fn write_value(lines: &mut String, path: &str, value: &Value) {
    match value {
        Value::Message(message) => {
            lines.push_str(&format!("{path} {{}}\n"));
            write_message(lines, path, message);
        }
        Value::List(list) => {
            for (index, value) in list.iter().enumerate() {
                write_value(lines, &format!("{path}[{index}]"), value);
            }
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map
                .iter()
                .map(|(key, value)| (format!("{key:?}"), value))
                .collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (key, value) in entries {
                write_value(lines, &format!("{path}[{key}]"), value);
            }
        }
        value => lines.push_str(&format!("{path} = {value:?}\n")),
    }
}
