//! Measuring `protosplit cat --format jsonl` with a million packets, compared to decoding and printing the packets one after another:
//! `cargo bench -p proto-splitter-cli --bench cat`. With `-- --quick`, there are 100 times fewer packets, to check that the benchmark runs.
//!
//! The reference is a program that finds the packets by skipping over the fields of the message, decodes each with prost-reflect, and
//! prints it with serde_json, on one thread.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use prost_reflect::DynamicMessage;
use proto_splitter::wire::WireCursor;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::traces::{trace_type, write_trace};
use proto_splitter_testkit::turns::{Contestant, in_turns};
use protosplit_cli::Exit;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;
const PACKETS: u64 = 1_000_000;

/// Maximum time of the command relative to the reference. The command uses two cores, but also resolves the query and writes the output.
const AIM: f64 = 0.75;

fn main() -> Outcome<()> {
    let packets = PACKETS / scale(100);
    let folder = scratch_folder()?;
    let file = folder.path().join("trace.pb");
    let schema = folder.path().join("trace.binpb");
    let mut sink = BufWriter::new(File::create(&file)?);
    write_trace(packets, &mut sink)?;
    sink.into_inner()?;
    std::fs::write(&schema, trace_type().parent_pool().encode_to_vec())?;

    println!("| {packets} packets as JSON lines | best s | median s | ratio | aim, at most |");
    println!("| --- | --- | --- | --- | --- |");
    for (what, query) in [("whole", "packet[*]"), ("a name of each", "packet[*].name")] {
        let mut contestants = [
            Contestant::new("one after another", || one_by_one(&file, query)),
            Contestant::new("cat", || cat(&file, &schema, query)),
        ];
        let times = in_turns(ROUNDS, &mut contestants)?;
        let [reference, ours] = &times[..] else {
            return Err("two contestants".into());
        };
        println!(
            "| {what}, {} | {:.2} | {:.2} | | |",
            reference.name,
            reference.best(),
            reference.median()
        );
        println!(
            "| {what}, {} | {:.2} | {:.2} | {:.2} | {AIM} |",
            ours.name,
            ours.best(),
            ours.median(),
            ours.median() / reference.median()
        );
    }
    Ok(())
}

/// Runs `protosplit cat` in this process.
fn cat(file: &Path, schema: &Path, query: &str) -> Outcome<()> {
    let mut args: Vec<OsString> =
        vec!["protosplit".into(), "cat".into(), file.into(), query.into()];
    let root = trace_type();
    args.extend(
        [
            "--format",
            "jsonl",
            "--message",
            root.full_name(),
            "--descriptor-set",
        ]
        .map(Into::into),
    );
    args.push(schema.into());
    let mut err = Vec::new();
    match protosplit_cli::run(args, &mut io::sink(), &mut err) {
        Exit::Done => Ok(()),
        _ => Err(String::from_utf8_lossy(&err).into()),
    }
}

/// Decodes and prints each packet, or the field of each packet that the query names.
fn one_by_one(file: &Path, query: &str) -> Outcome<()> {
    let root = trace_type();
    let field = root.get_field_by_name("packet").ok_or("no packets")?;
    let kind = field.kind();
    let packet = kind.as_message().ok_or("packets are messages")?;
    let name = query
        .rsplit_once(']')
        .map_or("", |(_, rest)| rest.trim_start_matches('.'));
    let bytes = std::fs::read(file)?;
    let mut cursor = WireCursor::new(&bytes[..]);
    let mut sink = io::sink();
    let mut line = Vec::new();
    while let Some(found) = cursor.next()? {
        if found.number.0 != field.number() {
            continue;
        }
        let range = usize::try_from(found.value.start)?..usize::try_from(found.value.end)?;
        let message = DynamicMessage::decode(packet.clone(), &bytes[range])?;
        line.clear();
        if name.is_empty() {
            serde_json::to_writer(&mut line, &message)?;
        } else if let Some(value) = message.get_field_by_name(name) {
            serde_json::to_writer(&mut line, &value.as_str())?;
        }
        line.push(b'\n');
        sink.write_all(black_box(&line))?;
    }
    Ok(())
}
