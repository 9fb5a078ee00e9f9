//! Commands that are interrupted, and disks that are full.
//!
//! In a process of their own: a file that another test has locked would stay locked for as long as a child that is just being
//! started still has it open.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A graph of one node with an attribute of so many bytes that don't compress, and many small nodes.
fn graph(dir: &Path, bytes: usize) {
    let mut seed = 1u64;
    let noise: Vec<u8> = (0..bytes)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        })
        .collect();
    let mut graph = Vec::new();
    for piece in noise.chunks(300_000) {
        // node { name }
        let mut node = vec![0x0a];
        prost_reflect::prost::encoding::encode_varint(piece.len() as u64, &mut node);
        node.extend_from_slice(piece);
        graph.push(0x0a);
        prost_reflect::prost::encoding::encode_varint(node.len() as u64, &mut graph);
        graph.extend(node);
    }
    fs::write(dir.join("graph.pb"), graph).unwrap();
}

#[test]
fn a_disk_that_is_full_at_any_moment_leaves_no_file() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path();
    graph(dir, 2_000_000);
    // So large may a file get, in blocks of 512 bytes or a KiB; a write beyond is an error once the signal is ignored.
    let limited = |blocks: u32, arguments: &str| {
        let script = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec {} {arguments}",
            env!("CARGO_BIN_EXE_protosplit")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(dir);
        command.output().unwrap()
    };
    let split = "split graph.pb -o out/graph --message tensorflow.GraphDef --max-chunk-size 256KiB";
    fs::create_dir(dir.join("out")).unwrap();
    for how in ["none", "zstd:1"] {
        for threads in [1, 3] {
            for blocks in [0, 1, 100, 500, 1000] {
                let arguments = format!("{split} --compression {how} --threads {threads}");
                let output = limited(blocks, &arguments);
                assert_eq!(output.status.code(), Some(2), "{blocks}: {output:?}");
                assert!(names(&dir.join("out")).is_empty(), "{blocks}");
            }
        }
    }
    let whole = limited(1_000_000, &format!("{split} --compression zstd:1"));
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    fs::rename(dir.join("out/graph.cpb"), dir.join("graph.cpb")).unwrap();
    for threads in [1, 3] {
        for blocks in [0, 1, 100, 500, 1000] {
            let arguments = format!("merge graph.cpb -o out/graph.pb --threads {threads}");
            let output = limited(blocks, &arguments);
            assert_eq!(output.status.code(), Some(2), "{blocks}: {output:?}");
            assert!(names(&dir.join("out")).is_empty(), "{blocks}");
        }
    }
}

/// Runs the command until it says how far it is, and interrupts it.
fn interrupted(dir: &Path, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.args(arguments).current_dir(dir);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut first = [0];
    stderr.read_exact(&mut first).unwrap();
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("splitting: "), "{said}");
    child.wait().unwrap().code()
}

#[test]
fn what_is_interrupted_ends_with_130_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path();
    // With this compression it takes many seconds.
    graph(dir, 40_000_000);
    fs::create_dir(dir.join("out")).unwrap();
    let how = ["--compression", "zstd:19", "--progress", "always"];
    let file = ["split", "graph.pb", "-o", "out/graph", "--max-chunk-size"];
    let type_name = ["1MiB", "--message", "tensorflow.GraphDef"];
    let arguments = [&file[..], &type_name, &how].concat();
    assert_eq!(interrupted(dir, &arguments), Some(130));
    assert!(names(&dir.join("out")).is_empty());

    fs::create_dir(dir.join("model")).unwrap();
    let mut model = vec![0x08, 0x01];
    let graph = fs::read(dir.join("graph.pb")).unwrap();
    for (tag, len) in [(0x12, graph.len() + 5), (0x12, graph.len())] {
        model.push(tag);
        prost_reflect::prost::encoding::encode_varint(len as u64, &mut model);
    }
    model.extend(graph);
    fs::write(dir.join("model/saved_model.pb"), model).unwrap();
    let of_model = [
        "split",
        "model",
        "-o",
        "out/model",
        "--max-chunk-size",
        "1MiB",
    ];
    assert_eq!(interrupted(dir, &[&of_model[..], &how].concat()), Some(130));
    assert!(names(&dir.join("out")).is_empty());
}
