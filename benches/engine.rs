//! The engine against the limits of the machine, as ratios from one run: `cargo bench --bench engine`.
//!
//! Each row is a piece of work and a reference for the same bytes: a bare walk, a copy in memory, `cp` and `sync`. They take turns, after
//! one turn that isn't counted, and the medians are compared. Files are made anew in every turn.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use prost_reflect::MessageDescriptor;
use proto_splitter::merge::{MergeOptions, Merger};
use proto_splitter::record_file::Compression;
use proto_splitter::split::{ComposableSplitter, Source, SplitOptions};
use proto_splitter::wire::WireCursor;
use proto_splitter::{GRAPH_DEF, GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::models::{ModelSize, Parts, saved_model, small_node};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;

/// W1: four float constants of 256 MiB, cut at 64 MiB.
const W1: ModelSize = ModelSize {
    constants: 4,
    functions: 0,
    constant_bytes: 256 << 20,
    small_nodes: 1000,
};
const W1_MAX: u64 = 64 << 20;

/// W2: a graph of small nodes only, cut at 16 MiB.
const W2_NODES: [u64; 5] = [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];
const W2_MAX: u64 = 16 << 20;

fn main() -> Outcome<()> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    fs::create_dir_all(&target)?;
    let folder = tempfile::tempdir_in(target)?;
    println!("| work | bytes | median s | min s | reference | median s | min s | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    plans(folder.path())?;
    files(folder.path())
}

fn plans(folder: &Path) -> Outcome<()> {
    let descriptor = descriptor(GRAPH_DEF)?;
    let options = SplitOptions::new().max_chunk_size(W2_MAX)?;
    for nodes in W2_NODES {
        let mut graph = Parts::new();
        for index in 0..nodes {
            graph = graph.message(1, small_node(index));
        }
        let path = folder.join("graph.pb");
        write(&graph, &path)?;
        drop(graph);
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
    }
    Ok(())
}

fn files(folder: &Path) -> Outcome<()> {
    let source = folder.join("saved_model.pb");
    write(&saved_model(&W1), &source)?;
    let size = fs::metadata(&source)?.len();
    let descriptor = descriptor(SAVED_MODEL)?;
    let options = SplitOptions::new()
        .max_chunk_size(W1_MAX)?
        .compression(Compression::None);
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
    let mut split = || -> Outcome<()> {
        remove(&chunked)?;
        let source = Source::open(&source, descriptor.clone())?;
        black_box(SavedModelSplitter.write_with(source, &prefix, &options)?);
        Ok(())
    };
    row(
        "W1 split to a file",
        size,
        &mut split,
        "cp and sync",
        &mut copy_and_sync,
    )?;
    let mut merge = || -> Outcome<()> {
        remove(&merged)?;
        Merger::merge_to_file(&merged, &prefix, &MergeOptions::new(), false)?;
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
        black_box(Merger::merge_to_bytes(&prefix)?);
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

fn row(
    what: &str,
    size: u64,
    work: &mut dyn FnMut() -> Outcome<()>,
    reference: &str,
    refer: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<()> {
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    let timed = |run: &mut dyn FnMut() -> Outcome<()>| -> Outcome<Duration> {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed())
    };
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
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
