//! Tests for `protosplit remove`, `insert`, `strip` and `edit`, and for `replace --value`.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;
use serde_json::{Value, json};

use crate::support::{Dir, fixture, run, run_all};

const GRAPH: &str = "tensorflow.GraphDef";

/// Creates a graph whose nodes have the given names.
fn graph(dir: &Dir, name: &str, nodes: &[&str]) -> PathBuf {
    let mut bytes = Vec::new();
    for node in nodes {
        let mut value = vec![0x0a, u8::try_from(node.len()).unwrap()];
        value.extend(node.as_bytes());
        value.extend(b"\x12\x04NoOp");
        bytes.extend([0x0a, u8::try_from(value.len()).unwrap()]);
        bytes.extend(value);
    }
    // The field `versions { producer: 7 }`.
    bytes.extend([0x22, 0x02, 0x08, 0x07]);
    dir.file(name, bytes)
}

/// Creates a graph, and returns it in one piece and in chunks.
fn both(dir: &Dir, nodes: &[&str]) -> [PathBuf; 2] {
    let plain = graph(dir, "graph.pb", nodes);
    let options = ["--message", GRAPH, "--max-chunk-size", "20"];
    let chunked = dir.split(&plain, "chunked", &options);
    [plain, chunked]
}

fn names(file: &Path) -> Vec<String> {
    let out = run([&"cat", &file, &"node[*].name", &"--message", &GRAPH]).ok();
    out.lines().map(str::to_owned).collect()
}

fn value(file: &Path, path: &str) -> Value {
    let args: [&dyn AsRef<Path>; 7] = [
        &"get",
        &file,
        &path,
        &"--format",
        &"json",
        &"--message",
        &GRAPH,
    ];
    serde_json::from_str(&run(args).ok()).unwrap()
}

/// Runs the command `verb` on a file, and returns the path of the output.
#[track_caller]
fn changed(dir: &Dir, verb: &str, file: &Path, rest: &[&str]) -> PathBuf {
    let extension = file.extension().unwrap();
    // Outputs in one piece and in chunks have different names, since writing one would remove the
    // other.
    let stem = format!("out of {verb} {}", extension.display());
    let out = dir.path(&stem).with_extension(extension);
    let args: [&dyn AsRef<Path>; 7] = [&verb, &file, &"-o", &out, &"--message", &GRAPH, &"--force"];
    // `replace` has no option for the size of chunks, since it keeps the existing chunks.
    let size = (verb != "replace").then_some(&"--max-chunk-size=40");
    let rest = rest.iter().chain(size).map(|arg| arg as &dyn AsRef<Path>);
    run_all(args.into_iter().chain(rest)).ok();
    if extension == "cpb" {
        run([&"verify", &out, &"--deep", &"--message", &GRAPH]).ok();
    }
    out
}

#[test]
fn what_is_removed_is_gone_and_what_is_behind_it_moves_up() {
    let dir = Dir::new();
    for file in both(&dir, &["a", "b", "c", "d", "e"]) {
        for (paths, left) in [
            (&["node[0]"][..], &["b", "c", "d", "e"][..]),
            (&["node[-1]", "node[name=\"b\"]"], &["a", "c", "d"]),
            (&["node[1:3]", "node[2]", "node[\"e\"]"], &["a", "d"]),
            (&["node[*]"], &[]),
            (&["node"], &[]),
        ] {
            let out = changed(&dir, "remove", &file, paths);
            assert_eq!(names(&out), left, "{paths:?}");
            assert_eq!(value(&out, "versions.producer"), 7);
        }
        let out = changed(&dir, "remove", &file, &["node[*].op", "versions"]);
        let json = run([&"cat", &out, &"--message", &GRAPH, &"--format", &"json"]).json();
        assert_eq!(json["node"][1], json!({"name": "b"}));
        assert!(json.get("versions").is_none(), "{json}");
    }
}

#[test]
fn values_are_inserted_where_there_were_none() {
    let dir = Dir::new();
    for file in both(&dir, &["a", "b"]) {
        for (path, text, left) in [
            ("node[0]", "name: 'x'", &["x", "a", "b"][..]),
            ("node[1]", "{\"name\": \"x\"}", &["a", "x", "b"]),
            ("node[2]", "name: 'x'", &["a", "b", "x"]),
            ("node", "name: 'x'", &["a", "b", "x"]),
            ("node[\"b\"]", "name: 'x'", &["a", "x", "b"]),
        ] {
            let out = changed(&dir, "insert", &file, &[path, "--value", text]);
            assert_eq!(names(&out), left, "{path}");
        }
        let attr = ["node[1].attr[\"N\"]", "--value", "{\"i\": 5}"];
        let out = changed(&dir, "insert", &file, &attr);
        assert_eq!(value(&out, "node[1].attr[\"N\"].i"), json!("5"));
        let out = changed(&dir, "insert", &file, &["node[0].device", "--value", "gpu"]);
        assert_eq!(value(&out, "node[0].device"), "gpu");
        let consumers = ["versions.bad_consumers", "--value", "9"];
        let out = changed(&dir, "insert", &file, &consumers);
        assert_eq!(
            value(&out, "versions"),
            json!({"producer": 7, "badConsumers": [9]})
        );
    }
}

#[test]
fn a_value_is_replaced_by_what_is_typed_in_the_words_of_its_type() {
    let dir = Dir::new();
    for file in both(&dir, &["a", "b"]) {
        for (path, text, shown) in [
            ("versions.producer", "-5", json!(-5)),
            (
                "node[1].name",
                "a longer name than before",
                json!("a longer name than before"),
            ),
            (
                "node[0]",
                "name: 'x' op: 'Y'",
                json!({"name": "x", "op": "Y"}),
            ),
            (
                "versions",
                "{\"producer\": 8, \"minConsumer\": 1}",
                json!({"producer": 8, "minConsumer": 1}),
            ),
        ] {
            let out = changed(&dir, "replace", &file, &[path, "--value", text]);
            assert_eq!(value(&out, path), shown, "{path}");
        }
        for (path, text, why) in [
            (
                "versions.producer",
                "five",
                "isn't a value of the type int32",
            ),
            (
                "versions",
                "producer: 'x'",
                "the value isn't a tensorflow.VersionDef",
            ),
        ] {
            let out = dir.path("refused");
            let args: [&dyn AsRef<Path>; 9] = [
                &"replace",
                &file,
                &path,
                &"--value",
                &text,
                &"-o",
                &out,
                &"--message",
                &GRAPH,
            ];
            let line = run(args).failed(Exit::Usage);
            assert!(line.contains(why), "{line}");
            assert!(!out.exists());
        }
    }
}

#[test]
fn several_changes_are_made_in_one_pass_and_say_paths_as_they_were() {
    let dir = Dir::new();
    let new = dir.file("new", "\u{a}\u{3}new");
    for file in both(&dir, &["a", "b", "c", "d"]) {
        let with = format!("node[2]={}", new.display());
        let changes = [
            "--remove",
            "node[0]",
            "--remove",
            "node[name=\"b\"]",
            "--insert",
            "node[3]=name: 'first' op: 'x=y'",
            "--insert",
            "node[3]=name: 'second'",
            "--replace-with",
            &with,
            "--replace",
            "versions.producer=300",
        ];
        let out = changed(&dir, "edit", &file, &changes);
        assert_eq!(names(&out), ["new", "first", "second", "d"]);
        assert_eq!(value(&out, "node[1].op"), "x=y");
        assert_eq!(value(&out, "versions.producer"), 300);
    }
}

#[test]
fn a_schema_that_is_in_a_file_is_in_the_changed_one_too() {
    let dir = Dir::new();
    let plain = graph(&dir, "graph.pb", &["a", "b"]);
    let options = [
        "--message",
        GRAPH,
        "--max-chunk-size",
        "20",
        "--embed-schema",
    ];
    let chunked = dir.split(&plain, "chunked", &options);
    let bare = dir.split(&plain, "bare", &options[..4]);
    for (file, has_schema) in [(chunked, true), (bare, false)] {
        let out = dir.path("out.cpb");
        run([&"remove", &file, &"node[0]", &"-o", &out, &"--force"]).ok();
        let file = proto_splitter::ChunkedFile::open(&out).unwrap();
        assert_eq!(file.descriptor().unwrap().is_some(), has_schema);
    }
}

#[test]
fn a_message_of_another_type_is_not_changed_or_compared_wherever_that_shows() {
    let dir = Dir::new();
    let file = graph(&dir, "graph.pb", &vec!["a"; 2000]);
    // Field 3 of a graph, `version`, is a number, but the added field is a string.
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend(b"\x1a\x01x");
    let other = dir.file("other.pb", bytes);
    let out = dir.path("out.pb");
    let commands: [&[&dyn AsRef<Path>]; 2] = [
        &[&"remove", &other, &"node[0]", &"-o", &out],
        &[&"diff", &file, &other],
    ];
    for command in commands {
        let typed: [&dyn AsRef<Path>; 2] = [&"--message", &GRAPH];
        let error = run_all(command.iter().copied().chain(typed)).failed(Exit::Bad);
        assert!(error.contains("may be of another type"), "{error}");
        assert!(error.contains("other.pb"), "{error}");
    }
    assert!(!out.exists());
}

#[test]
fn changes_that_contradict_each_other_or_lead_nowhere_leave_no_file() {
    let dir = Dir::new();
    let file = graph(&dir, "graph.pb", &["a", "b"]);
    for (changes, why) in [
        (
            &["--remove=node[0]", "--replace=node[0].op=x"][..],
            "contradict",
        ),
        (
            &["--replace=node[0].op=x", "--replace=node[0].op=y"],
            "contradict",
        ),
        (
            &["--remove=node[0]", "--insert=node[0].device=x"],
            "contradict",
        ),
        (&["--remove=node[9]"], "node has 2 elements"),
        (&["--remove=node[0].device"], "no such value"),
        (&["--remove=node[0].nope"], "nope"),
        (&["--remove=."], "the whole message"),
        (&["--insert=node[0].op=x"], "there is a value already"),
        (&["--insert=node[7]=name:'x'"], "can be inserted at 0 to 2"),
        (&["--insert=node[0].attr=x: 1"], "isn't a "),
        (&["--replace=node[0].device=x"], "no such value"),
        (&[], "no change is requested"),
    ] {
        let out = dir.path("out.pb");
        let args: [&dyn AsRef<Path>; 6] = [&"edit", &file, &"-o", &out, &"--message", &GRAPH];
        let changes = changes.iter().map(|arg| arg as &dyn AsRef<Path>);
        let ran = run_all(args.into_iter().chain(changes));
        assert!(matches!(ran.exit, Exit::Bad | Exit::Usage), "{ran:?}");
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
        assert!(!out.exists());
    }
}

#[test]
fn what_is_beside_the_output_in_the_other_form_stays_as_it_is() {
    let dir = Dir::new();
    let file = graph(&dir, "graph.pb", &["a", "b"]);
    let before = fs::read(&file).unwrap();
    let args: [&dyn AsRef<Path>; 8] = [
        &"remove",
        &file,
        &"node[0]",
        &"-o",
        &dir.path("graph.cpb"),
        &"--message",
        &GRAPH,
        &"--force",
    ];
    for _ in 0..2 {
        run(args).ok();
        assert_eq!(
            (fs::read(&file).unwrap(), dir.files().len()),
            (before.clone(), 2)
        );
    }
}

#[test]
fn the_input_is_not_overwritten_by_any_name_of_it() {
    let dir = Dir::new();
    let [_, file] = both(&dir, &["a", "b"]);
    let (before, files) = (fs::read(&file).unwrap(), dir.files());
    for name in [file.clone(), file.with_extension("")] {
        for what in [&["strip", "--over", "1MiB"][..], &["remove", "node[0]"]] {
            let (verb, rest) = what.split_first().unwrap();
            let args: [&dyn AsRef<Path>; 7] =
                [verb, &file, &"-o", &name, &"--message", &GRAPH, &"--force"];
            let rest = rest.iter().map(|arg| arg as &dyn AsRef<Path>);
            let error = run_all(args.into_iter().chain(rest)).failed(Exit::Usage);
            assert!(error.contains("refusing to overwrite the input"), "{error}");
            assert!(
                fs::read(&file).unwrap() == before,
                "{verb} {}",
                name.display()
            );
            assert_eq!(dir.files(), files);
        }
    }
}

#[test]
fn a_stripped_model_keeps_its_paths_and_loses_what_is_large() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let chunked = dir.split(
        &model.join("saved_model.pb"),
        "m",
        &["--max-chunk-size", "10KiB"],
    );
    let original = run([&"tensors", &model, &"--json"]).json();
    for file in [model.join("saved_model.pb"), chunked] {
        let out = dir.path("stripped.pb");
        let report = run([
            &"strip",
            &file,
            &"--tensors",
            &"-o",
            &out,
            &"--force",
            &"--json",
            &"--message",
            &"tensorflow.SavedModel",
        ]);
        let report = report.json();
        assert!(
            report["stripped_bytes"].as_u64().unwrap() > 120_000,
            "{report}"
        );
        assert!(fs::metadata(&out).unwrap().len() < 30_000);
        let small = dir.path("small.pb");
        run([
            &"strip",
            &file,
            &"--over",
            &"100",
            &"-o",
            &small,
            &"--force",
            &"--message",
            &"tensorflow.SavedModel",
        ])
        .ok();
        run([
            &"verify",
            &small,
            &"--deep",
            &"--message",
            &"tensorflow.SavedModel",
        ])
        .ok();
        let tree = run([&"tree", &small, &"--message", &"tensorflow.SavedModel"]);
        assert!(tree.ok().contains("graph_def"));
        let stripped = run([
            &"tensors",
            &out,
            &"--message",
            &"tensorflow.SavedModel",
            &"--json",
        ]);
        let names = |report: &Value| -> Vec<Value> {
            let tensors = report["tensors"].as_array().unwrap();
            tensors
                .iter()
                .map(|tensor| tensor["name"].clone())
                .collect()
        };
        assert_eq!(names(&stripped.json()), names(&original));
    }
}

#[test]
fn the_folder_of_a_model_is_copied_with_the_changed_model_and_its_fingerprint() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let out = dir.path("new");
    let tag = "meta_graphs[0].meta_info_def.tags";
    run([&"insert", &model, &tag, &"--value", &"mine", &"-o", &out]).ok();
    let tags = run([&"cat", &out, &"meta_graphs[0].meta_info_def.tags[*]"]).ok();
    assert_eq!(tags, "serve\nmine\n");
    assert!(out.join("saved_model.pb").is_file());
    if model.join("fingerprint.pb").is_file() {
        let same = run([&"fingerprint", &out, &"--json"]).json();
        let was = run([&"fingerprint", &model, &"--json"]).json();
        assert_ne!(same, was);
    }
    let chunked = dir.path("chunked");
    run([
        &"split",
        &model,
        &"-o",
        &chunked,
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    let out = dir.path("new_chunked");
    let removed = "meta_graphs[0].signature_def";
    run([
        &"remove",
        &chunked,
        &removed,
        &"-o",
        &out,
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    assert!(out.join("saved_model.cpb").is_file());
    run([&"verify", &out, &"--deep"]).ok();
}
