//! A benchmark that counts the instructions of twelve frequent operations and compares them with
//! the committed table: `cargo bench --profile release --bench instructions`. Needs valgrind.
//!
//! Each operation runs in a separate process under valgrind's callgrind, once with one repetition
//! and once with five. The difference between the counts is the cost of four repetitions, without
//! the preparation. A count depends on the code and the compiler, and isn't affected by the load or
//! the speed of the machine. The benchmark fails if an operation needs over 3 % more instructions
//! than in `tables/instructions.md`, and also if it needs over 3 % fewer, so that the table is kept
//! up to date. `-- --record` rewrites the table.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use prost_reflect::MessageDescriptor;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ReadOptions;
use proto_splitter::path::{FieldPath, PathQuery};
use proto_splitter::record_file::{Compression, ReaderOptions, RecordReader, RecordWriter};
use proto_splitter::size_tree::{TreeOptions, measure};
use proto_splitter::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter::view::MessageView;
use proto_splitter::{GRAPH_DEF, GraphDefSplitter, member_names};
use proto_splitter_testkit::models::small_node;
use proto_splitter_testkit::workloads::{Workload, small_nodes};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A function that runs an operation once.
type Turn = Box<dyn FnMut() -> Outcome<()>>;

/// The name of an operation, and a function that prepares it in a folder.
type HotPath = (&'static str, fn(&Path) -> Outcome<Turn>);

const PATHS: [HotPath; 12] = [
    ("plan a split of 5,000 nodes", plan),
    ("plan it by size alone", plan_by_size),
    ("split it to a stream", split),
    ("split it to a stream, zstd", split_zstd),
    ("open a file of 80 chunks, 20 times", open),
    ("merge it to memory", merge),
    ("verify it", verify),
    ("get a value of it, 20 times", get),
    ("sizes by path of 5,000 nodes", tree),
    ("select a field of 5,000 nodes", select),
    ("write 10,000 transposed records", write_transposed),
    ("read 10,000 transposed records", read_transposed),
];

const NODES: u64 = 5_000;
const RECORDS: usize = 10_000;

/// Factor by which the message [`Workload::W3`] is made smaller.
const FUNCTIONS_SCALE: u64 = 100;

/// Number of times that a file is opened in one repetition. Hash maps have random seeds, which
/// would affect the count noticeably if the file was opened only once.
const OPENINGS: u64 = 20;

/// Number of repetitions in the longer of the two runs of an operation.
const TURNS: u64 = 5;

/// Maximum difference of a count from the table, as a fraction of the count in the table.
const TOLERANCE: f64 = 0.03;

/// Argument with which this program starts itself under valgrind, to run an operation.
const COUNTED: &str = "--counted";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == COUNTED) {
        let (name, turns) = (arguments.get(at + 1), arguments.get(at + 2));
        return run(
            name.ok_or("a path")?,
            turns.ok_or("a number of turns")?.parse()?,
        );
    }
    let compiler = compiler()?;
    let mut counts = Vec::new();
    for (name, _) in PATHS {
        counts.push((name, per_turn(name)?));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/tables/instructions.md");
    if arguments.iter().any(|argument| argument == "--record") {
        fs::write(&file, table(&compiler, &counts))?;
    }
    compare(&fs::read_to_string(&file)?, &compiler, &counts)
}

/// Runs the operation called `name` `turns` times.
fn run(name: &str, turns: u64) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let found = PATHS.iter().find(|(known, _)| *known == name);
    let (_, prepare) = found.ok_or("no such path")?;
    let mut turn = prepare(folder.path())?;
    (0..turns).try_for_each(|_| turn())
}

/// Returns the number of instructions of one repetition of an operation.
fn per_turn(name: &str) -> Outcome<u64> {
    let (one, all) = (counted(name, 1)?, counted(name, TURNS)?);
    Ok(all.saturating_sub(one) / (TURNS - 1))
}

/// Returns the number of instructions of a process that runs an operation `turns` times.
fn counted(name: &str, turns: u64) -> Outcome<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([COUNTED, name, &turns.to_string()])
        .output()
        .map_err(|error| format!("valgrind, which counts, can't be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    match count {
        Some((_, count)) if output.status.success() => Ok(count.trim().parse()?),
        _ => Err(format!("{name}: {said}").into()),
    }
}

/// Returns the version of the Rust compiler.
fn compiler() -> Outcome<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    let mut words = version.split_whitespace();
    let (name, number) = (words.next(), words.next());
    Ok(format!(
        "{} {}",
        name.ok_or("a name")?,
        number.ok_or("a number")?
    ))
}

fn table(compiler: &str, counts: &[(&str, u64)]) -> String {
    let mut table = format!(
        "# Instructions\n\n`cargo bench --profile release --bench instructions -- --record`, with {compiler} on x86-64; CI compares without \
         `--record`.\n\n| path | instructions of one turn |\n| --- | --- |\n"
    );
    for (name, count) in counts {
        // Writing to a string can't fail.
        let _ = writeln!(table, "| {name} | {count} |");
    }
    table
}

/// Prints the counts next to those in the table. Fails if any of them differ by more than
/// [`TOLERANCE`], unless the table is for another compiler.
fn compare(table: &str, compiler: &str, counts: &[(&str, u64)]) -> Outcome<()> {
    let cells = |line: &str| -> Option<(String, u64)> {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
    };
    let known: BTreeMap<String, u64> = table.lines().filter_map(cells).collect();
    println!("| path | instructions of one turn | in the table | ratio |");
    println!("| --- | --- | --- | --- |");
    let mut differ = 0;
    for (name, count) in counts {
        let before = *known.get(*name).ok_or("a path that the table lacks")?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio needs few digits")]
        let ratio = *count as f64 / before as f64;
        println!("| {name} | {count} | {before} | {ratio:.3} |");
        differ += u64::from((ratio - 1.0).abs() > TOLERANCE);
    }
    if !table.contains(&format!("with {compiler} on")) {
        println!("the table is of another compiler than {compiler}: not compared");
        return Ok(());
    }
    if differ > 0 {
        let most = TOLERANCE * 100.0;
        return Err(format!("{differ} of {} differ by over {most} %", counts.len()).into());
    }
    let (all, most) = (counts.len(), TOLERANCE * 100.0);
    println!("{all} of {all} are within {most} %");
    Ok(())
}

fn graph_def() -> Outcome<MessageDescriptor> {
    let pool = proto_splitter::proto::saved_model::descriptor_pool();
    Ok(pool
        .get_message_by_name(GRAPH_DEF)
        .ok_or("the schema has it")?)
}

/// Returns a serialized graph with [`NODES`] small nodes.
fn nodes() -> Outcome<Bytes> {
    let mut bytes = Vec::new();
    small_nodes(NODES).write_to(&mut bytes)?;
    Ok(bytes.into())
}

fn source() -> Outcome<Source> {
    Ok(Source::from_bytes(nodes()?, graph_def()?))
}

/// Returns options for splitting into chunks of at most 64 KiB, on one thread.
fn options(compression: Compression) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(64 << 10)
        .compression(compression)
        .threads(NonZeroUsize::MIN)
}

fn plan(_: &Path) -> Outcome<Turn> {
    let (source, options) = (source()?, options(Compression::None));
    Ok(Box::new(move || {
        black_box(GraphDefSplitter.plan(&source, &options)?);
        Ok(())
    }))
}

fn plan_by_size(_: &Path) -> Outcome<Turn> {
    let (source, options) = (source()?, options(Compression::None));
    Ok(Box::new(move || {
        black_box(SizeSplitter.plan(&source, &options)?);
        Ok(())
    }))
}

fn split(_: &Path) -> Outcome<Turn> {
    split_with(options(Compression::None))
}

fn split_zstd(_: &Path) -> Outcome<Turn> {
    split_with(options(Compression::ZSTD))
}

fn split_with(options: SplitOptions) -> Outcome<Turn> {
    let source = source()?;
    Ok(Box::new(move || {
        let written = GraphDefSplitter.write_to_with(source.clone(), &mut io::sink(), &options)?;
        black_box(written);
        Ok(())
    }))
}

/// Splits a graph with ten functions, whose eighty constants become separate chunks. Returns the
/// path of the file.
fn functions(folder: &Path) -> Outcome<PathBuf> {
    let mut message = Vec::new();
    Workload::W3
        .message(FUNCTIONS_SCALE)
        .write_to(&mut message)?;
    let source = Source::from_bytes(message, graph_def()?);
    let options = Workload::W3
        .split_options(FUNCTIONS_SCALE)
        .compression(Compression::None)
        .threads(NonZeroUsize::MIN);
    let written = GraphDefSplitter.write_with(source, folder.join("functions"), &options)?;
    Ok(written.path)
}

fn reading() -> Outcome<ReadOptions> {
    Ok(ReadOptions::new()
        .descriptor(graph_def()?)
        .threads(NonZeroUsize::MIN))
}

fn open(folder: &Path) -> Outcome<Turn> {
    let path = functions(folder)?;
    Ok(Box::new(move || {
        for _ in 0..OPENINGS {
            black_box(ChunkedFile::open(&path)?);
        }
        Ok(())
    }))
}

fn merge(folder: &Path) -> Outcome<Turn> {
    let (path, options) = (functions(folder)?, reading()?);
    Ok(Box::new(move || {
        black_box(ChunkedFile::open(&path)?.merge_to_bytes(&options)?);
        Ok(())
    }))
}

fn verify(folder: &Path) -> Outcome<Turn> {
    let (path, options) = (functions(folder)?, reading()?);
    Ok(Box::new(move || {
        let report = ChunkedFile::open(&path)?.verify(&options);
        let is_sound = report.problems().is_empty();
        is_sound.then_some(()).ok_or_else(|| "damaged".into())
    }))
}

fn get(folder: &Path) -> Outcome<Turn> {
    let (path, options) = (functions(folder)?, reading()?);
    let place = FieldPath::parse("library.function[5].node_def[0].name", &graph_def()?)?;
    Ok(Box::new(move || {
        for _ in 0..OPENINGS {
            let file = ChunkedFile::open(&path)?;
            black_box(file.view(options.clone()).get(&place)?);
        }
        Ok(())
    }))
}

fn tree(_: &Path) -> Outcome<Turn> {
    let (bytes, options) = (nodes()?, reading()?);
    let kept = TreeOptions::new().names(&member_names());
    Ok(Box::new(move || {
        let view = MessageView::of_plain(&bytes, options.clone())?;
        black_box(measure(&view, &FieldPath::root(), &kept)?);
        Ok(())
    }))
}

fn select(_: &Path) -> Outcome<Turn> {
    let (bytes, options) = (nodes()?, reading()?);
    let query = PathQuery::parse("node[*].op", Some(&graph_def()?))?;
    Ok(Box::new(move || {
        let view = MessageView::of_plain(&bytes, options.clone())?;
        let mut sum = 0;
        for size in view.select(&query, &[])? {
            sum += size?;
        }
        black_box(sum);
        Ok(())
    }))
}

/// Returns records for a record file, each of which is a small serialized node.
fn records() -> Outcome<Vec<Vec<u8>>> {
    let node = |index| {
        let mut bytes = Vec::new();
        small_node(index).write_to(&mut bytes)?;
        Ok(bytes)
    };
    (0..RECORDS as u64).map(node).collect()
}

fn written(records: &[Vec<u8>]) -> Outcome<Vec<u8>> {
    let mut writer = RecordWriter::new(Vec::new(), "transpose,uncompressed".parse()?)?;
    for record in records {
        writer.write_record(record)?;
    }
    Ok(writer.finish()?)
}

fn write_transposed(_: &Path) -> Outcome<Turn> {
    let records = records()?;
    Ok(Box::new(move || {
        black_box(written(&records)?);
        Ok(())
    }))
}

fn read_transposed(_: &Path) -> Outcome<Turn> {
    let file = written(&records()?)?;
    Ok(Box::new(move || {
        let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
        let mut count = 0;
        while let Some(record) = reader.read_record()? {
            black_box(record);
            count += 1;
        }
        (count == RECORDS)
            .then_some(())
            .ok_or_else(|| "records are missing".into())
    }))
}
