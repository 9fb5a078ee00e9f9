//! Tests for the memory that commands use to split and merge messages larger than the limit.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use proto_splitter_testkit::memory::watch_writing_to;
use proto_splitter_testkit::models::{ModelSize, Parts, saved_model};
use proto_splitter_testkit::workloads::graph_and_function;

const MIB: u64 = 1 << 20;

/// Limit on anonymous memory for splitting or merging files of any size without compression, in
/// bytes.
const MOST: u64 = 128 * MIB;
const MOST_COMPRESSED: u64 = 256 * MIB;

fn write(message: &Parts, path: &Path) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    message.write_to(&mut out).unwrap();
    out.flush().unwrap();
}

/// Runs the command, and checks that it uses at most `most` bytes of anonymous memory.
fn run(folder: &Path, arguments: &str, most: u64) {
    run_to(folder, arguments, most, Stdio::null());
}

/// Runs the command as [`run`] does, but with standard output in a pipe. The pipe is read after a
/// delay, so that the command prepares as much output in advance as it can.
fn run_to_slow_reader(folder: &Path, arguments: &str, most: u64) {
    let (mut pipe, output) = io::pipe().unwrap();
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        io::copy(&mut pipe, &mut io::sink())
    });
    run_to(folder, arguments, most, output.into());
    assert!(reader.join().unwrap().unwrap() > 256 * MIB, "{arguments}");
}

fn run_to(folder: &Path, arguments: &str, most: u64, output: Stdio) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    let command = command.args(arguments.split(' ')).current_dir(folder);
    let (status, peak) = watch_writing_to(command, output).unwrap();
    assert!(status.success(), "{arguments}");
    assert!(peak.anonymous > 0, "nothing was seen of {arguments}");
    assert!(peak.anonymous <= most, "{arguments}: {peak:?}");
}

#[test]
fn constants_of_256_mib_are_split_and_merged_without_holding_one() {
    let folder = tempfile::tempdir().unwrap();
    let message = saved_model(&ModelSize {
        constants: 2,
        functions: 0,
        constant_bytes: 256 * MIB,
        small_nodes: 1000,
    });
    write(&message, &folder.path().join("saved_model.pb"));
    for (how, most) in [
        ("none", MOST),
        ("zstd:3", MOST_COMPRESSED),
        ("zstd:9", MOST_COMPRESSED),
    ] {
        let split = "split saved_model.pb -o m --max-chunk-size 64MiB --force --compression";
        run(folder.path(), &format!("{split} {how}"), most);
        run(folder.path(), "merge m -o merged.pb --force", most);
    }
    for (how, most) in [("none", MOST), ("zstd:3", MOST_COMPRESSED)] {
        let split = "split saved_model.pb -o - --max-chunk-size 64MiB --compression";
        run_to_slow_reader(folder.path(), &format!("{split} {how}"), most);
    }
}

#[test]
fn a_graph_and_a_function_with_cuts_inside_are_merged_without_holding_either() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &graph_and_function(300 * MIB),
        &folder.path().join("graph.pb"),
    );
    let split = "split graph.pb -o g --message tensorflow.GraphDef --max-chunk-size 400MiB";
    let arguments = format!("{split} --compression zstd:1");
    run(folder.path(), &arguments, MOST_COMPRESSED);
    run(folder.path(), "merge g -o merged.pb", MOST_COMPRESSED);
}
