//! A benchmark that compares computing sizes by field path with only visiting the same fields:
//! `cargo bench --bench tree`, or `-- NODES` for another number of nodes.
//!
//! Like the computation of sizes, the reference visits every field in every message recursively,
//! using a table of the message fields, but it only counts the fields. Both run alternately, after
//! one run that isn't counted.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter::merge::ReadOptions;
use proto_splitter::path::FieldPath;
use proto_splitter::record_file::ReadAt;
use proto_splitter::size_tree::{TreeOptions, measure};
use proto_splitter::view::MessageView;
use proto_splitter::wire::{Input, SourceInput, WireCursor, WireType};
use proto_splitter::{GRAPH_DEF, SAVED_MODEL, member_names};
use proto_splitter_testkit::models::{ModelSize, Parts, saved_model, small_node};
use proto_splitter_testkit::scratch::scratch_folder;
use proto_splitter_testkit::sources::Sparse;
use proto_splitter_testkit::turns::{Contestant, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 9;
const NODES: u64 = 2_000_000;

/// Size of a model of 3 GiB with twelve constants.
const LARGE: ModelSize = ModelSize {
    constants: 6,
    functions: 6,
    constant_bytes: 256 << 20,
    small_nodes: 2000,
};

fn main() -> Outcome<()> {
    let nodes = std::env::args().find_map(|arg| arg.parse().ok());
    let nodes = nodes.unwrap_or(NODES);
    println!("| work | bytes | median s | min s | reference | median s | min s | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    graph(nodes)?;
    large_model()
}

fn graph(nodes: u64) -> Outcome<()> {
    let folder = scratch_folder()?;
    let path = folder.path().join("graph.pb");
    let mut graph = Parts::new();
    for index in 0..nodes {
        graph = graph.message(1, small_node(index));
    }
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    graph.write_to(&mut out)?;
    out.flush()?;
    drop((graph, out));
    let bytes = bytes::Bytes::from(fs::read(&path)?);
    let file = File::open(&path)?;
    let types = Types::of(&descriptor(GRAPH_DEF)?);
    let what = format!("tree of {nodes} nodes");
    row(
        &format!("{what} in memory"),
        bytes.len() as u64,
        &mut || tree(&bytes, GRAPH_DEF),
        &mut || bare(WireCursor::new(&bytes[..]), &types),
    )?;
    let size = bytes.len() as u64;
    row(
        &format!("{what} in a cached file"),
        size,
        &mut || tree(&file, GRAPH_DEF),
        &mut || bare(WireCursor::new(SourceInput::new(&file, size)), &types),
    )
}

fn large_model() -> Outcome<()> {
    let source = Sparse::from(saved_model(&LARGE));
    let size = source.size()?;
    let types = Types::of(&descriptor(SAVED_MODEL)?);
    row(
        "tree of large constants",
        size,
        &mut || tree(&source, SAVED_MODEL),
        &mut || bare(WireCursor::new(SourceInput::new(&source, size)), &types),
    )
}

fn tree(source: &impl ReadAt, message: &str) -> Outcome<()> {
    let options = ReadOptions::new().descriptor(descriptor(message)?);
    let view = MessageView::of_plain(source, options)?;
    let kept = TreeOptions::new().names(&member_names());
    black_box(measure(&view, &FieldPath::root(), &kept)?);
    Ok(())
}

/// A table of message types. For each type, it has the types of the fields that are messages, by
/// field number; each type is an index in the table.
struct Types(Vec<Vec<Option<usize>>>);

impl Types {
    fn of(root: &MessageDescriptor) -> Self {
        let mut known = vec![root.clone()];
        let mut types = Vec::new();
        let mut at = 0;
        while let Some(message) = known.get(at).cloned() {
            let mut fields = Vec::new();
            for field in message.fields() {
                let Kind::Message(below) = field.kind() else {
                    continue;
                };
                let found = known.iter().position(|known| *known == below);
                let index = found.unwrap_or(known.len());
                if found.is_none() {
                    known.push(below);
                }
                let number = field.number() as usize;
                if fields.len() <= number {
                    fields.resize(number + 1, None);
                }
                fields[number] = Some(index);
            }
            types.push(fields);
            at += 1;
        }
        Types(types)
    }
}

fn bare<I: Input>(mut cursor: WireCursor<I>, types: &Types) -> Outcome<()> {
    let mut fields = 0;
    visit(&mut cursor, types, 0, &mut fields)?;
    black_box(fields);
    Ok(())
}

/// Counts the fields in the cursor's range, including those of nested messages.
fn visit<I: Input>(
    cursor: &mut WireCursor<I>,
    types: &Types,
    message: usize,
    fields: &mut u64,
) -> Outcome<()> {
    let end = cursor.end();
    while let Some(field) = cursor.next()? {
        *fields += 1;
        if field.wire_type == WireType::Len
            && let Some(Some(below)) = types.0[message].get(field.number.0 as usize)
        {
            cursor.set_range(field.value);
            visit(cursor, types, *below, fields)?;
            cursor.set_range(field.end..end);
        }
    }
    Ok(())
}

fn row(
    what: &str,
    size: u64,
    work: &mut dyn FnMut() -> Outcome<()>,
    refer: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<()> {
    let reference = "a bare walk of all fields";
    let mut turns = [
        Contestant::new(what, work),
        Contestant::new(reference, refer),
    ];
    let times = in_turns(ROUNDS, &mut turns)?;
    let [work, refer] = [&times[0], &times[1]].map(|times| (times.median(), times.best()));
    println!(
        "| {what} | {size} | {:.4} | {:.4} | {reference} | {:.4} | {:.4} | {:.2} |",
        work.0,
        work.1,
        refer.0,
        refer.1,
        work.0 / refer.0
    );
    Ok(())
}

fn descriptor(name: &str) -> Outcome<MessageDescriptor> {
    let pool = proto_splitter::proto::saved_model::descriptor_pool();
    Ok(pool
        .get_message_by_name(name)
        .ok_or("a type of the schema")?)
}
