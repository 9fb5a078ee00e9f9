//! Measuring the peak memory of `protosplit split` and `protosplit merge` between files: `cargo
//! bench --bench memory`.
//!
//! The benchmark fails if a limit is exceeded. It needs about 7 GiB of disk space. With `--
//! --quick`, messages are 16 times smaller, to check that the benchmark runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::models::Parts;
use proto_splitter_testkit::workloads::{Workload, graph_and_function};

type Outcome<T> = Result<T, Box<dyn Error>>;

const MIB: u64 = 1 << 20;
const QUICK: u64 = 16;

/// Compressions of chunked files, each with the limit on anonymous memory for splitting and
/// merging, in bytes.
const LIMITS: [(&str, u64); 4] = [
    ("none", 128 * MIB),
    ("zstd:3", 256 * MIB),
    ("zstd:9", 256 * MIB),
    ("auto", 256 * MIB),
];

/// Total size of a graph and a function in it, in bytes.
const GRAPH_AND_FUNCTION: u64 = 900 * MIB;

fn main() -> Outcome<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let scale = if quick { QUICK } else { 1 };
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::create_dir_all(&target)?;
    let folder = tempfile::tempdir_in(target)?;
    println!("| message | MiB | work | s | anonymous MiB | resident MiB | limit |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let large = Workload::W1Large;
    let chunks = large.max_chunk_size(scale);
    let message = large.message(scale);
    let mut kept = measure(folder.path(), large.name(), &message, chunks, &LIMITS)?;
    let bytes = GRAPH_AND_FUNCTION / scale;
    let (message, chunks) = (graph_and_function(bytes), bytes * 3 / 2);
    let zstd = &LIMITS[1..2];
    kept &= measure(folder.path(), "graph and function", &message, chunks, zstd)?;
    if kept {
        Ok(())
    } else {
        Err("a limit was not kept".into())
    }
}

/// Splits and merges a message with each compression, and prints the memory used. Returns true if
/// no limit was exceeded.
fn measure(
    folder: &Path,
    name: &str,
    message: &Parts,
    chunks: u64,
    limits: &[(&str, u64)],
) -> Outcome<bool> {
    let is_model = name == Workload::W1Large.name();
    let source = folder.join(if is_model {
        "saved_model.pb"
    } else {
        "graph.pb"
    });
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&source)?);
    message.write_to(&mut out)?;
    out.flush()?;
    let [prefix, merged] = ["model", "merged.pb"].map(|name| folder.join(name));
    let mut kept = true;
    for (how, limit) in limits {
        let mut split = protosplit("split");
        split.arg(&source).arg("-o").arg(&prefix);
        split.args(["--compression", how, "--max-chunk-size"]);
        split.arg(chunks.to_string());
        if !is_model {
            split.args(["--message", "tensorflow.GraphDef"]);
        }
        let mut merge = protosplit("merge");
        merge.arg(&prefix).arg("-o").arg(&merged);
        for (work, mut command) in [("split", split), ("merge", merge)] {
            let start = Instant::now();
            let (status, peak) = watch(&mut command)?;
            let seconds = start.elapsed().as_secs_f64();
            if !status.success() {
                return Err(format!("{work} of {name}: {status}").into());
            }
            let [anonymous, resident] =
                [peak.anonymous, peak.resident].map(|bytes| bytes as f64 / MIB as f64);
            println!(
                "| {name} | {} | {work}, {how} | {seconds:.1} | {anonymous:.1} | {resident:.1} | {} |",
                message.len() / MIB,
                limit / MIB,
            );
            kept &= peak.anonymous <= *limit;
        }
        if fs::metadata(&merged)?.len() != message.len() {
            return Err(format!("{name}: the merge has another size").into());
        }
        fs::remove_file(&merged)?;
        fs::remove_file(prefix.with_extension("cpb"))?;
    }
    fs::remove_file(source)?;
    Ok(kept)
}

fn protosplit(work: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.arg(work).arg("--quiet");
    command
}
