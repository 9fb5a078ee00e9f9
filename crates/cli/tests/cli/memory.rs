//! Tests for the memory used and the bytes read by `tree` and `tensors`. Each test runs in its own
//! process, since peak memory is measured for a process.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use peak_alloc::PeakAlloc;
use prost_reflect::prost::encoding::encode_varint;
use proto_splitter_testkit::models::{Parts, small_node};
use proto_splitter_testkit::own_process::in_own_process;
use protosplit_cli::Exit;
use serde_json::Value;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Limit on the peak memory of the process, in bytes.
const MOST_MEMORY: u64 = 128 << 20;

/// Limit on the number of bytes read from a model with large constants.
const MOST_READ: u64 = 1 << 20;

/// Returns the value `name` that the system reports for this process, from a file in `/proc/self`.
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

/// Creates a SavedModel with three constants of 1 GiB each, which are holes in the file. Returns
/// the model's size in bytes.
fn large_constants(path: &Path) -> u64 {
    const CONSTANT: u64 = 1 << 30;
    let mut front = head(4, CONSTANT);
    // These are the fields on the path `node.attr["value"].tensor.tensor_content`, the innermost
    // first.
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
    in_own_process(|| {
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
    });
}

#[test]
fn a_list_of_many_tensors_takes_their_names_and_two_hundred_bytes_for_each() {
    in_own_process(|| {
        const TENSORS: usize = 300_000;
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.onnx");
        let mut names = 0;
        let mut graph = Vec::new();
        for index in 0..TENSORS {
            let name = format!("w{index}");
            names += name.len();
            // Each tensor has the dims [1, 2], the type FLOAT, a name, and no data.
            let mut tensor = vec![8, 1, 8, 2, 16, 1];
            tensor.extend(head(8, name.len() as u64));
            tensor.extend(name.bytes());
            graph.extend(head(5, tensor.len() as u64));
            graph.extend(tensor);
        }
        let mut bytes = vec![8, 10];
        bytes.extend(head(7, graph.len() as u64));
        bytes.append(&mut graph);
        // Without an opset, the model wouldn't be recognized.
        bytes.extend([0x42, 2, 16, 21]);
        fs::write(&model, &bytes).unwrap();
        drop((graph, bytes));

        for more in [None, Some("--json")] {
            let args = ["protosplit", "tensors", model.to_str().unwrap()];
            let args = args.into_iter().chain(more);
            MEMORY.reset_peak_usage();
            let before = MEMORY.current_usage();
            let (mut lines, mut err) = (Lines(0), Vec::new());
            let exit = protosplit_cli::run(args, &mut lines, &mut err);
            assert_eq!(exit, Exit::Done, "{}", String::from_utf8_lossy(&err));
            let most = (MEMORY.peak_usage() - before) / TENSORS;
            let lines = lines.0;
            assert_eq!(lines, if more.is_some() { 1 } else { TENSORS + 2 });
            let limit = 200 + names / TENSORS;
            assert!(most <= limit, "{most} bytes for each, of at most {limit}");
        }
    });
}

/// A writer that counts lines without storing them.
struct Lines(usize);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.iter().filter(|&&byte| byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
