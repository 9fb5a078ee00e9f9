//! Tests for damaged files: recovering with `merge --skip-damaged`, and the reports of `verify`.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, Ran, fixture, run, run_all};

const GRAPH: &str = "tensorflow.GraphDef";

/// Splits a model into uncompressed chunks. Returns the paths of the model and of the chunked file.
fn chunked(dir: &Dir) -> (PathBuf, PathBuf) {
    let model = fixture("functions_consts").join("saved_model.pb");
    let options = ["--max-chunk-size", "10KiB", "--compression", "none"];
    let file = dir.split(&model, "m", &options);
    (model, file)
}

fn chunks(file: &Path) -> Vec<Value> {
    let info = run([&"info", &file, &"--json"]).json();
    info["chunks"].as_array().unwrap().clone()
}

/// Copies a file, and flips a bit in the copy, `behind` bytes after the start of a chunk's record.
fn flipped(dir: &Dir, file: &Path, chunk: &Value, behind: u64) -> PathBuf {
    let mut bytes = fs::read(file).unwrap();
    let at = chunk["position"].as_u64().unwrap() + behind;
    bytes[usize::try_from(at).unwrap()] ^= 1;
    dir.file("damaged.cpb", bytes)
}

#[test]
fn a_report_on_what_is_wrong_is_also_written_to_a_file() {
    let dir = Dir::new();
    let (_, file) = chunked(&dir);
    let bytes = fs::read(&file).unwrap();
    let cut = dir.file("cut.cpb", &bytes[..bytes.len() / 2]);
    let target = dir.path("report");
    for (file, words) in [
        (&cut, &["layout"][..]),
        (&cut, &["layout", "--json"]),
        (&cut, &["verify", "--json"]),
        (&file, &["tree", "--limit", "1KiB"]),
    ] {
        let words = || words.iter().map(|word| word as &dyn AsRef<Path>);
        let printed = run_all(words().chain([file as &dyn AsRef<Path>]));
        assert_eq!(printed.exit, Exit::Bad, "{printed:?}");
        let with_file: [&dyn AsRef<Path>; 3] = [file, &"-o", &target];
        let ran = run_all(words().chain(with_file));
        assert_eq!((ran.exit, &*ran.out), (Exit::Bad, ""));
        assert_eq!(ran.err, printed.err);
        assert!(!printed.out.is_empty());
        assert_eq!(fs::read_to_string(&target).unwrap(), printed.out);
        fs::remove_file(&target).unwrap();
    }
}

fn salvage(dir: &Dir, file: &Path) -> (Ran, PathBuf) {
    let out = dir.path("salvaged.pb");
    let args: [&dyn AsRef<Path>; 7] = [
        &"merge",
        &file,
        &"-o",
        &out,
        &"--skip-damaged",
        &"--force",
        &"--json",
    ];
    (run(args), out)
}

fn lost(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.exit, Exit::Bad, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    report["lost"].as_array().unwrap().clone()
}

/// Returns the paths of the fields in which two messages differ.
fn differences(first: &Path, second: &Path, message: &str) -> Vec<String> {
    let args: [&dyn AsRef<Path>; 8] = [
        &"diff",
        &first,
        &second,
        &"--message",
        &message,
        &"--limit",
        &"1000",
        &"--json",
    ];
    let report: Value = serde_json::from_str(&run(args).out).unwrap();
    let differences = report["differences"].as_array().unwrap();
    differences
        .iter()
        .map(|difference| difference["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_damaged_chunk_costs_its_own_path_and_nothing_else() {
    let dir = Dir::new();
    let (model, file) = chunked(&dir);
    let chunks = chunks(&file);
    assert!(chunks.len() > 3, "{chunks:?}");
    for chunk in &chunks[1..] {
        let path = chunk["path"].as_str().unwrap();
        // The flipped bit is either in the bytes of the chunk's record, or in the header before
        // them.
        for behind in [40 + chunk["size"].as_u64().unwrap() / 2, 20] {
            let damaged = flipped(&dir, &file, chunk, behind);
            let (ran, out) = salvage(&dir, &damaged);
            let lost = lost(&ran);
            assert!(
                lost.iter()
                    .any(|lost| lost["path"].as_str().unwrap().starts_with(path)
                        && lost["chunk"] == chunk["index"]),
                "{path}: {lost:?}"
            );
            let differences = differences(&model, &out, "tensorflow.SavedModel");
            assert!(!differences.is_empty());
            for difference in differences {
                let is_lost = |lost: &Value| difference.starts_with(lost["path"].as_str().unwrap());
                assert!(lost.iter().any(is_lost), "{difference}: {lost:?}");
            }
        }
    }
}

#[test]
fn verify_says_where_a_damaged_chunk_belongs() {
    let dir = Dir::new();
    let (_, file) = chunked(&dir);
    let mut slices = 0;
    for chunk in &chunks(&file)[1..] {
        let damaged = flipped(&dir, &file, chunk, 60);
        let ran = run([&"verify", &damaged, &"--json"]);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let (path, index) = (chunk["path"].as_str().unwrap(), &chunk["index"]);
        let (marked, problems) = (format!(": chunk {index}: "), report["problems"].clone());
        let places: Vec<&str> = problems
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|problem| problem.as_str().unwrap().split_once(&marked))
            .map(|(front, _)| front.rsplit(": ").next().unwrap())
            .collect();
        // If the chunk is a slice of a repeated field, the path in the problem may also contain
        // that field, after the path of the chunk.
        let says = |place: &&str| {
            let rest = place.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        assert!(places.iter().any(says), "{path}: {problems}");
        slices += places.iter().filter(|place| **place != path).count();
    }
    assert!(slices > 0);
}

#[test]
fn a_file_that_was_cut_is_reported_as_json_too() {
    let dir = Dir::new();
    let (_, file) = chunked(&dir);
    let bytes = fs::read(file).unwrap();
    for keep in [bytes.len() / 2, bytes.len() - 10] {
        let cut = dir.file("cut.cpb", &bytes[..keep]);
        let ran = run([&"verify", &cut, &"--json"]);
        assert_eq!(ran.exit, Exit::Bad);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(report["ok"], false);
        assert_eq!(report["problems"].as_array().unwrap().len(), 1);
        assert!(ran.err.starts_with("protosplit: "), "{}", ran.err);
        let (ran, out) = salvage(&dir, &cut);
        assert_eq!((ran.exit, out.exists()), (Exit::Bad, false), "{ran:?}");
    }
}

#[test]
fn nothing_is_had_of_a_file_without_the_chunk_that_all_belong_into() {
    let dir = Dir::new();
    let (_, file) = chunked(&dir);
    let damaged = flipped(&dir, &file, &chunks(&file)[0], 60);
    let (ran, out) = salvage(&dir, &damaged);
    let line = ran.failed(Exit::Bad);
    assert!(line.contains("nothing can be merged"), "{line}");
    assert!(!out.exists());
}

/// Creates a graph of `nodes` nodes, every fifth of which has a large attribute.
fn graph(dir: &Dir, nodes: u32) -> PathBuf {
    let field = |number: u8, value: &[u8]| {
        let mut bytes = vec![number << 3 | 2];
        let mut len = value.len();
        while len > 127 {
            bytes.push(u8::try_from(len & 127).unwrap() | 128);
            len >>= 7;
        }
        bytes.push(u8::try_from(len).unwrap());
        bytes.extend(value);
        bytes
    };
    let mut graph = Vec::new();
    for number in 0..nodes {
        let mut node = field(1, format!("node_{number:05}").as_bytes());
        if number % 5 == 0 {
            let text = format!("{number:05}").repeat(200);
            let value = field(2, text.as_bytes());
            let entry = [field(1, b"text"), field(2, &value)].concat();
            node.extend(field(5, &entry));
        }
        graph.extend(field(1, &node));
    }
    dir.file("graph.pb", graph)
}

#[test]
fn lost_elements_put_no_value_in_a_place_that_is_not_its_own() {
    let dir = Dir::new();
    let graph = graph(&dir, 100);
    let options = [
        "--message",
        GRAPH,
        "--max-chunk-size",
        "600",
        "--value-chunk-size",
        "500",
        "--compression",
        "none",
    ];
    let file = dir.split(&graph, "g", &options);
    let original: Vec<Value> = nodes(&graph);
    let mut with_slices = 0;
    for chunk in &chunks(&file)[1..] {
        let damaged = flipped(&dir, &file, chunk, 60);
        let (ran, out) = salvage(&dir, &damaged);
        let lost = lost(&ran);
        let left = nodes(&out);
        with_slices += usize::from(left.len() < original.len());
        // Each node that is left is unchanged, except that its text may be lost.
        for node in &left {
            let was = original.iter().find(|was| was["name"] == node["name"]);
            let was = was.unwrap();
            let text = node["attr"]["text"].get("s");
            let is_empty = text.is_none_or(|text| text == "");
            assert!(is_empty || node == was, "{node} {was} {lost:?}");
        }
        let some = left.iter().any(|node| original.contains(node));
        assert!(some, "{lost:?}");
    }
    assert!(with_slices > 0);
}

fn nodes(file: &Path) -> Vec<Value> {
    let args: [&dyn AsRef<Path>; 7] = [
        &"cat",
        &file,
        &"node[*]",
        &"--message",
        &GRAPH,
        &"--format",
        &"jsonl",
    ];
    let lines = run(args).ok();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Options for splitting a model into several files.
const IN_FILES: [&str; 8] = [
    "--profile",
    "extended",
    "--max-file-size",
    "64KiB",
    "--max-chunk-size",
    "10KiB",
    "--compression",
    "none",
];

#[test]
fn an_offset_comes_with_the_name_of_the_file_that_it_is_in() {
    let dir = Dir::new();
    let model = fixture("functions_consts").join("saved_model.pb");
    let file = dir.split(&model, "m", &IN_FILES);
    let mut files = dir.files().into_iter();
    let part = files.find(|name| name.contains("00002")).unwrap();
    let mut bytes = fs::read(dir.path(&part)).unwrap();
    bytes[5000] ^= 1;
    fs::write(dir.path(&part), bytes).unwrap();
    let out = dir.path("out");
    for (verb, arguments) in [
        ("verify", &[][..]),
        ("merge", &["-o"]),
        ("get", &[".", "-o"]),
        ("recompress", &["--compression", "zstd:1", "-o"]),
        ("diff", &[]),
    ] {
        let mut words: Vec<&dyn AsRef<Path>> = vec![&verb, &file];
        words.extend(arguments.iter().map(|word| word as &dyn AsRef<Path>));
        match arguments {
            [] if verb == "diff" => words.push(&model),
            [] => {}
            _ => words.push(&out),
        }
        let ran = run_all(words);
        let error = ran.failed(Exit::Bad);
        let places = error.matches(": at 0x").count();
        assert!(places == 1 && error.contains(&part), "{verb}: {error}");
    }
}

#[test]
fn what_was_in_a_file_that_is_missing_is_lost_and_the_rest_is_had() {
    let dir = Dir::new();
    let model = fixture("functions_consts").join("saved_model.pb");
    let file = dir.split(&model, "m", &IN_FILES);
    let parts: Vec<String> = dir
        .files()
        .into_iter()
        .filter(|name| name.contains("0000"))
        .collect();
    assert!(parts.len() > 1, "{parts:?}");
    fs::remove_file(dir.path(&parts[1])).unwrap();
    let (ran, out) = salvage(&dir, &file);
    let lost = lost(&ran);
    for difference in differences(&model, &out, "tensorflow.SavedModel") {
        let is_lost = |lost: &Value| difference.starts_with(lost["path"].as_str().unwrap());
        assert!(lost.iter().any(is_lost), "{difference}: {lost:?}");
    }
    assert!(fs::metadata(&out).unwrap().len() > 10_000);
}

#[test]
fn a_sound_file_loses_nothing() {
    let dir = Dir::new();
    let (model, file) = chunked(&dir);
    let (ran, out) = salvage(&dir, &file);
    assert_eq!(ran.json()["lost"].as_array().unwrap().len(), 0);
    assert!(fs::read(out).unwrap() == fs::read(&model).unwrap());
    let (ran, _) = salvage(&dir, &model);
    let line = ran.failed(Exit::Usage);
    assert!(line.contains("isn't in chunks"), "{line}");
}
