//! A benchmark that compares the library's speed with the limits of the machine:
//! `cargo bench --bench engine`. Prints ratios of times that are measured in the same run.
//!
//! Each row compares an operation with a reference for the same bytes: skipping over all fields, a
//! copy in memory, `cp` and `sync`, or the same operation without an option. Both run alternately,
//! after one run that isn't counted, and their medians are compared. Files are created again in
//! every run.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "engine/merges.rs"]
mod merges;
#[path = "engine/merkle.rs"]
mod merkle;

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use prost_reflect::MessageDescriptor;
use proto_splitter::merge::Merger;
use proto_splitter::record_file::Compression;
use proto_splitter::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter::wire::WireCursor;
use proto_splitter::{GRAPH_DEF, GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::fixtures::MESSAGES;
use proto_splitter_testkit::models::Parts;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::workloads::{Workload, small_nodes};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;

/// Numbers of nodes in the graphs to plan. One is the number in [`Workload::W2`].
const PLANNED_NODES: [u64; 5] = [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];

/// Maximum chunk size for TensorFlow's small test models, in bytes. The next constant is the number
/// of times that they are planned in each run.
const FIXTURES_MAX: u64 = 10 << 10;
const FIXTURE_TURNS: u64 = 500;

/// Factor by which `--quick` makes messages smaller, to check that the benchmark runs.
const QUICK: u64 = 64;

/// Runs `cargo bench --bench engine -- [--quick]`.
fn main() -> Outcome<()> {
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    println!("| work | bytes | median s | min s | reference | median s | min s | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    fixtures()?;
    plans(folder.path(), scale)?;
    files(folder.path(), scale)?;
    merkle::merkle(folder.path(), scale)?;
    merges::merges(folder.path(), scale)
}

fn plans(folder: &Path, scale: u64) -> Outcome<()> {
    let descriptor = descriptor(GRAPH_DEF)?;
    let options = Workload::W2.split_options(scale);
    for nodes in PLANNED_NODES.map(|nodes| nodes / scale) {
        let path = folder.join("graph.pb");
        write(&small_nodes(nodes), &path)?;
        let bytes = bytes::Bytes::from(fs::read(&path)?);
        let mut walk = || -> Outcome<()> {
            let mut cursor = WireCursor::new(&bytes[..]);
            let mut fields = 0u64;
            while cursor.next()?.is_some() {
                fields += 1;
            }
            black_box(fields);
            Ok(())
        };
        let in_memory = Source::from_bytes(bytes.clone(), descriptor.clone());
        let in_file = Source::open(&path, descriptor.clone())?;
        for (what, source) in [("memory", &in_memory), ("a cached file", &in_file)] {
            let mut plan = || -> Outcome<()> {
                black_box(GraphDefSplitter.plan(source, &options)?);
                Ok(())
            };
            row(
                &format!("plan {nodes} nodes from {what}"),
                bytes.len() as u64,
                &mut plan,
                "a walk over them in memory",
                &mut walk,
            )?;
        }
        let mut by_size = || -> Outcome<()> {
            black_box(SizeSplitter.plan(&in_memory, &options)?);
            Ok(())
        };
        let mut own = || -> Outcome<()> {
            black_box(GraphDefSplitter.plan(&in_memory, &options)?);
            Ok(())
        };
        row(
            &format!("plan {nodes} nodes by size alone"),
            bytes.len() as u64,
            &mut by_size,
            "GraphDefSplitter",
            &mut own,
        )?;
    }
    Ok(())
}

/// Measures planning TensorFlow's test models, by size alone and with the splitters for their
/// types.
fn fixtures() -> Outcome<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensorflow");
    let options = SplitOptions::new()
        .max_chunk_size(FIXTURES_MAX)
        .value_chunk_size(None);
    for (file, message) in MESSAGES {
        let bytes = fs::read(data.join(file))?;
        let size = bytes.len() as u64;
        let source = Source::from_bytes(bytes, descriptor(message)?);
        let mut by_size = || -> Outcome<()> {
            for _ in 0..FIXTURE_TURNS {
                black_box(SizeSplitter.plan(&source, &options)?);
            }
            Ok(())
        };
        let mut own = || -> Outcome<()> {
            for _ in 0..FIXTURE_TURNS {
                if message == SAVED_MODEL {
                    black_box(SavedModelSplitter.plan(&source, &options)?);
                } else {
                    black_box(GraphDefSplitter.plan(&source, &options)?);
                }
            }
            Ok(())
        };
        row(
            &format!("plan {file} by size alone, {FIXTURE_TURNS} times"),
            size * FIXTURE_TURNS,
            &mut by_size,
            "the splitter for its type",
            &mut own,
        )?;
    }
    Ok(())
}

fn files(folder: &Path, scale: u64) -> Outcome<()> {
    let source = folder.join("saved_model.pb");
    write(&Workload::W1.message(scale), &source)?;
    let size = fs::metadata(&source)?.len();
    let descriptor = descriptor(SAVED_MODEL)?;
    let options = Workload::W1
        .split_options(scale)
        .compression(Compression::None);
    let zstd = options.clone().compression(Compression::ZSTD);
    let [prefix, merged, copy] = ["model", "merged.pb", "copy.pb"].map(|name| folder.join(name));
    let chunked = prefix.with_extension("cpb");
    let mut copy_and_sync = || -> Outcome<()> {
        remove(&copy)?;
        let copied = Command::new("cp")
            .args(["--reflink=never", "--sparse=never"])
            .args([&source, &copy])
            .status()?;
        let synced = Command::new("sync").arg(&copy).status()?;
        (copied.success() && synced.success())
            .then_some(())
            .ok_or_else(|| "cp or sync failed".into())
    };
    let open = || Source::open(&source, descriptor.clone());
    let split_to_file = |options: &SplitOptions| -> Outcome<()> {
        remove(&chunked)?;
        black_box(SavedModelSplitter.write_with(open()?, &prefix, options)?);
        Ok(())
    };
    let split_to_stream = |options: &SplitOptions| -> Outcome<()> {
        black_box(SavedModelSplitter.write_to_with(open()?, &mut io::sink(), options)?);
        Ok(())
    };
    for (what, options) in [
        ("W1 split to a stream, zstd", &zstd),
        ("W1 split to a stream", &options),
    ] {
        row(
            what,
            size,
            &mut || split_to_stream(options),
            "to a file",
            &mut || split_to_file(options),
        )?;
    }
    row(
        "W1 split to a file",
        size,
        &mut || split_to_file(&options),
        "cp and sync",
        &mut copy_and_sync,
    )?;
    let mut merge = || -> Outcome<()> {
        remove(&merged)?;
        Merger::new().merge_to_file(&prefix, &merged)?;
        Ok(())
    };
    row(
        "W1 merge to a file",
        size,
        &mut merge,
        "cp and sync",
        &mut copy_and_sync,
    )?;
    [&copy, &merged]
        .into_iter()
        .try_for_each(|path| remove(path))?;
    let mut read = || -> Outcome<()> {
        black_box(Merger::new().merge_to_bytes(&prefix)?);
        Ok(())
    };
    let mut read_plain = || -> Outcome<()> {
        black_box(fs::read(&source)?);
        Ok(())
    };
    row(
        "W1 merge to memory",
        size,
        &mut read,
        "reading the .pb to memory",
        &mut read_plain,
    )
}

/// Times one run. Dropping its result isn't timed.
fn timed<T>(run: &mut dyn FnMut() -> Outcome<T>) -> Outcome<Duration> {
    let start = Instant::now();
    let made = run()?;
    let took = start.elapsed();
    drop(made);
    Ok(took)
}

fn row<A, B>(
    what: &str,
    size: u64,
    work: &mut dyn FnMut() -> Outcome<A>,
    reference: &str,
    refer: &mut dyn FnMut() -> Outcome<B>,
) -> Outcome<()> {
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let took = [timed(work)?, timed(refer)?];
        if round > 0 {
            times
                .iter_mut()
                .zip(took)
                .for_each(|(times, took)| times.push(took));
        }
    }
    let [(median, min), (reference_median, reference_min)] = times.map(|mut times| {
        times.sort();
        (times[times.len() / 2].as_secs_f64(), times[0].as_secs_f64())
    });
    let ratio = median / reference_median;
    println!(
        "| {what} | {size} | {median:.3} | {min:.3} | {reference} | {reference_median:.3} | {reference_min:.3} | {ratio:.2} |"
    );
    Ok(())
}

fn descriptor(name: &str) -> Outcome<MessageDescriptor> {
    let pool = proto_splitter::proto::saved_model::descriptor_pool();
    Ok(pool
        .get_message_by_name(name)
        .ok_or("a type of the schema")?)
}

fn write(parts: &Parts, path: &PathBuf) -> Outcome<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    parts.write_to(&mut out)?;
    Ok(out.flush()?)
}

fn remove(path: &Path) -> Outcome<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
