//! What `tree` takes of memory and of the disk. Alone in its process, since the most memory it ever
//! had is asked for.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use std::fs::{self, File};
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use prost_reflect::prost::encoding::encode_varint;
use proto_splitter_testkit::models::{Parts, small_node};
use protosplit_cli::Exit;
use serde_json::Value;

/// The most memory that the process may ever have had.
const MOST_MEMORY: u64 = 128 << 20;

/// The most that may be read of a model of large constants.
const MOST_READ: u64 = 1 << 20;

/// What the system says of this process.
fn told(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

fn tree(file: &Path, more: &[&str]) -> Value {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["protosplit", "tree", "--json", file.to_str().unwrap()];
    let args = args.iter().chain(more);
    let exit = protosplit_cli::run(args, &mut out, &mut err);
    assert_eq!(exit, Exit::Done, "{}", String::from_utf8_lossy(&err));
    let report: Value = serde_json::from_slice(&out).unwrap();
    report["tree"].clone()
}

fn head(number: u64, len: u64) -> Vec<u8> {
    let mut head = Vec::new();
    encode_varint(number << 3 | 2, &mut head);
    encode_varint(len, &mut head);
    head
}

/// A SavedModel of three constants of a GiB each, which are holes in the file.
fn large_constants(path: &Path) -> u64 {
    const CONSTANT: u64 = 1 << 30;
    let mut front = head(4, CONSTANT);
    // node.attr["value"].tensor.tensor_content, from the inside.
    for (number, key) in [(8, ""), (2, ""), (5, "\n\x05value"), (1, "")] {
        front.splice(..0, key.bytes());
        let len = front.len() as u64 + CONSTANT;
        let mut around = head(number, len);
        around.append(&mut front);
        front = around;
    }
    let graph = 3 * (front.len() as u64 + CONSTANT);
    let graph_head = head(2, graph);
    let model_head = head(2, graph + graph_head.len() as u64);
    let mut file = File::create(path).unwrap();
    file.write_all(&[model_head, graph_head].concat()).unwrap();
    for _ in 0..3 {
        file.write_all(&front).unwrap();
        file.seek_relative(i64::try_from(CONSTANT).unwrap())
            .unwrap();
    }
    let size = file.stream_position().unwrap();
    file.set_len(size).unwrap();
    size
}

#[test]
fn a_tree_of_much_takes_little() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("saved_model.pb");
    let size = large_constants(&model);
    assert!(size > 3 << 30);
    let before = told("io", "rchar:");
    let tree_of_model = tree(&model, &[]);
    let read = told("io", "rchar:") - before;
    assert_eq!(tree_of_model["size"], size);
    assert!(read < MOST_READ, "{read} bytes were read");

    let nodes = 2_000_000;
    let graph = folder.path().join("graph.pb");
    let mut file = BufWriter::new(File::create(&graph).unwrap());
    for index in 0..nodes {
        let node = Parts::new().message(1, small_node(index));
        node.write_to(&mut file).unwrap();
    }
    file.flush().unwrap();
    let tree_of_graph = tree(&graph, &["--message", "tensorflow.GraphDef"]);
    assert_eq!(tree_of_graph["fields"][0]["count"], nodes);
    let page = folder.path().join("graph.html");
    let page = page.to_str().unwrap();
    let with_page = tree(
        &graph,
        &["--message", "tensorflow.GraphDef", "--html", page],
    );
    assert_eq!(with_page["size"], tree_of_graph["size"]);
    let most = told("status", "VmHWM:") << 10;
    assert!(most < MOST_MEMORY, "{most} bytes of memory");
}
