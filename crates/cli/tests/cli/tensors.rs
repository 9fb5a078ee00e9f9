//! Tests for commands that select tensors by name: `tensors`, `get --tensor` and `export`.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, fixture, run, run_all};

const TYPE: [&dyn AsRef<Path>; 2] = [&"--message", &"tensorflow.GraphDef"];

/// Creates a graph with constants, and returns it in one piece and in chunks.
fn graphs(dir: &Dir) -> [PathBuf; 2] {
    let plain = dir.copy(&fixture("graphdef_dtypes/graph.pb"), "graph.pb");
    let options = [
        "--message",
        "tensorflow.GraphDef",
        "--max-chunk-size",
        "2KiB",
    ];
    let chunked = dir.split(&plain, "small", &options);
    [plain, chunked]
}

fn tensors(file: &Path) -> Vec<Value> {
    let args: [&dyn AsRef<Path>; 3] = [&"tensors", &file, &"--json"];
    let listed = run_all(args.into_iter().chain(TYPE)).json();
    listed["tensors"].as_array().unwrap().clone()
}

/// Extracts a tensor to a file, and returns the file's bytes.
fn bytes(dir: &Dir, file: &Path, name: &str, format: &str) -> Vec<u8> {
    let out = dir.path("out");
    let args: [&dyn AsRef<Path>; 9] = [
        &"get",
        &file,
        &"--tensor",
        &name,
        &"--format",
        &format,
        &"-o",
        &out,
        &"--force",
    ];
    run_all(args.into_iter().chain(TYPE)).ok();
    fs::read(out).unwrap()
}

fn text<'a>(tensor: &'a Value, key: &str) -> &'a str {
    tensor[key].as_str().unwrap()
}

#[test]
fn constants_are_listed_by_the_names_of_their_nodes_in_any_form() {
    let dir = Dir::new();
    let [plain, chunked] = graphs(&dir);
    let listed = tensors(&plain);
    assert!(listed.len() > 10, "{}", listed.len());
    assert_eq!(listed, tensors(&chunked));
    for tensor in &listed {
        let name = text(tensor, "name");
        let path = text(tensor, "location").replace("attr[\"value\"].tensor", "name");
        let called = run([
            &"get",
            &plain,
            &path,
            &"--format",
            &"text",
            TYPE[0],
            TYPE[1],
        ]);
        assert_eq!(called.ok().trim_end(), name);
    }
}

#[test]
fn a_tensor_is_got_by_its_name_as_it_is_by_its_path() {
    let dir = Dir::new();
    let [plain, chunked] = graphs(&dir);
    let mut compared = 0;
    for tensor in tensors(&plain) {
        if ["string", "resource", "variant"].contains(&text(&tensor, "dtype"))
            || text(&tensor, "dtype").starts_with('q')
            || text(&tensor, "dtype").starts_with("type")
        {
            continue;
        }
        let (name, path) = (text(&tensor, "name"), text(&tensor, "location"));
        let out = dir.path("by-path");
        run([
            &"get",
            &plain,
            &path,
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
            TYPE[0],
            TYPE[1],
        ])
        .ok();
        let by_path = fs::read(out).unwrap();
        assert_eq!(bytes(&dir, &plain, name, "npy"), by_path, "{name}");
        assert_eq!(bytes(&dir, &chunked, name, "npy"), by_path, "{name}");
        let raw = bytes(&dir, &chunked, name, "raw");
        assert!(
            by_path.ends_with(&raw) && raw.len() as u64 == tensor["bytes"],
            "{name}"
        );
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn a_name_that_no_tensor_has_is_answered_with_the_one_that_was_meant() {
    let dir = Dir::new();
    let [plain, _] = graphs(&dir);
    let listed = tensors(&plain);
    let name = text(&listed[0], "name").to_owned();
    let wrong = format!("{name}x");
    let failed = run([
        &"get",
        &plain,
        &"--tensor",
        &wrong,
        &"--format",
        &"npy",
        TYPE[0],
        TYPE[1],
    ]);
    let line = failed.failed(Exit::Bad);
    assert!(line.contains(&format!("no tensor {wrong:?}")), "{line}");
    assert!(line.contains("did you mean"), "{line}");
    let json = run([
        &"get",
        &plain,
        &"--tensor",
        &name,
        &"--format",
        &"json",
        TYPE[0],
        TYPE[1],
    ]);
    let line = json.failed(Exit::Usage);
    assert_eq!(line, "--format: a tensor is written as npy or binary");
}

#[test]
fn a_safetensors_file_has_every_tensor_byte_for_byte() {
    let dir = Dir::new();
    let [plain, chunked] = graphs(&dir);
    let out = dir.path("all.safetensors");
    let args: [&dyn AsRef<Path>; 5] = [&"export", &chunked, &"-o", &out, &"--json"];
    let ran = run_all(args.into_iter().chain(TYPE));
    assert_eq!(ran.exit, Exit::Done);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let file = fs::read(&out).unwrap();
    assert_eq!(report["output_bytes"], file.len());
    let len = usize::try_from(u64::from_le_bytes(file[..8].try_into().unwrap())).unwrap();
    let header: Value = serde_json::from_slice(&file[8..8 + len]).unwrap();
    let data = &file[8 + len..];
    let mut end = 0;
    for tensor in tensors(&plain) {
        let name = text(&tensor, "name");
        let Some(entry) = header.get(name) else {
            let left_out = report["left_out"].as_array().unwrap();
            assert!(left_out.iter().any(|left| left == name), "{name}");
            continue;
        };
        let at =
            |side: usize| usize::try_from(entry["data_offsets"][side].as_u64().unwrap()).unwrap();
        assert_eq!(entry["shape"], tensor["shape"]);
        assert_eq!(
            data[at(0)..at(1)],
            bytes(&dir, &plain, name, "raw"),
            "{name}"
        );
        end = end.max(at(1));
    }
    assert_eq!((end, len % 8), (data.len(), 0));
    assert_eq!(header.as_object().unwrap().len(), report["tensors"]);
    let again = run([&"export", &chunked, &"-o", &out, TYPE[0], TYPE[1]]);
    assert!(again.failed(Exit::Usage).ends_with("(--force replaces it)"));
}

#[test]
fn a_numpy_archive_has_every_tensor_as_get_gives_it() {
    let dir = Dir::new();
    let [plain, _] = graphs(&dir);
    let out = dir.path("all.npz");
    let args: [&dyn AsRef<Path>; 6] = [&"export", &plain, &"-o", &out, &"--format", &"npz"];
    assert_eq!(run_all(args.into_iter().chain(TYPE)).exit, Exit::Done);
    let archive = fs::read(&out).unwrap();
    assert!(archive.starts_with(b"PK\x03\x04"));
    for tensor in tensors(&plain) {
        let name = text(&tensor, "name");
        if text(&tensor, "dtype") != "float32" {
            continue;
        }
        // The NumPy file is stored uncompressed, directly after the entry's header, which ends with
        // its name.
        let entry = [
            format!("{name}.npy").as_bytes(),
            &bytes(&dir, &plain, name, "npy"),
        ]
        .concat();
        assert!(
            archive.windows(entry.len()).any(|there| there == entry),
            "{name}"
        );
    }
}

#[test]
fn a_map_key_that_no_path_can_name_is_refused() {
    let dir = Dir::new();
    let [plain, _] = graphs(&dir);
    let mut graph = fs::read(&plain).unwrap();
    let key = graph.windows(7).position(|key| key == b"\n\x05value");
    graph[key.unwrap() + 3] = 0xff;
    fs::write(&plain, graph).unwrap();
    let args: [&dyn AsRef<Path>; 2] = [&"tensors", &plain];
    let line = run_all(args.into_iter().chain(TYPE)).failed(Exit::Bad);
    assert!(
        line.contains("].attr: the map has a key that is not UTF-8"),
        "{line}"
    );
}

#[test]
fn what_has_no_tensors_is_not_exported() {
    let dir = Dir::new();
    let file = dir.file("message.pb", b"\x08\x07");
    let out = dir.path("out.npz");
    let line = run([&"export", &file, &"-o", &out]).failed(Exit::Bad);
    assert!(line.contains("there are no tensors to export"), "{line}");
    assert!(!out.exists());
    let line = run([&"export", &file, &"-o", &dir.path("out.bin")]).failed(Exit::Usage);
    assert!(line.contains("--format safetensors or npz"), "{line}");
}
