//! Tests for `protosplit diff`, `recompress` and `replace`, and for documents that are generated
//! from all commands.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use protosplit_cli::Exit;

use crate::support::{Dir, files, fixture, foreign, messages, run};

const PATH: &str = "meta_graphs[0].graph_def.node[0].name";

/// Creates a folder with a SavedModel in chunks.
fn small(dir: &Dir) -> std::path::PathBuf {
    let small = dir.path("small");
    let model = fixture("functions_consts");
    run([
        &"split",
        &model,
        &"-o",
        &small,
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    small
}

#[test]
fn a_message_is_equal_to_itself_in_chunks_and_differs_from_others() {
    for (file, kind) in messages() {
        let dir = Dir::new();
        let chunked = dir.split(
            &file,
            "chunked",
            &["--max-chunk-size", "5KiB", "--message", kind],
        );
        let same = run([&"diff", &file, &chunked, &"--message", &kind, &"--json"]).json();
        assert_eq!(same["result"], "identical", "{file:?}");
    }
    let [a, b] = ["functions_consts", "keras_mlp"].map(fixture);
    let ran = run([&"diff", &a, &b, &"--limit", &"3", &"--json"]);
    assert_eq!(ran.exit, Exit::Bad);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (
            json["differences"].as_array().unwrap().len(),
            &json["limited"]
        ),
        (3, &true.into())
    );
    let graph = fixture("graphdef_dtypes/graph.pb");
    let theirs = foreign("functions_consts.nested.none.cpb");
    let theirs_is = run([&"diff", &fixture("functions_consts"), &theirs, &"--json"]);
    assert_eq!(theirs_is.exit, Exit::Done, "{theirs_is:?}");
    let other = dir_with_graph(&graph);
    let line = run([&"diff", &a, &other.path("g.cpb")]).failed(Exit::Usage);
    assert!(line.contains("holds tensorflow.SavedModel"), "{line}");
}

fn dir_with_graph(graph: &std::path::Path) -> Dir {
    let dir = Dir::new();
    let out = dir.path("g");
    let split: [&dyn AsRef<std::path::Path>; 8] = [
        &"split",
        &graph,
        &"-o",
        &out,
        &"--max-chunk-size",
        &"1KiB",
        &"--message",
        &"tensorflow.GraphDef",
    ];
    run(split).ok();
    dir
}

#[test]
fn a_replaced_value_is_the_only_difference() {
    let dir = Dir::new();
    let small = small(&dir);
    let value = dir.file("value", "another name");
    let out = dir.path("new");
    run([&"replace", &small, &PATH, &"--with", &value, &"-o", &out]).ok();
    run([&"verify", &out, &"--deep"]).ok();
    let text = run([&"get", &out, &PATH, &"--format", &"text"]).ok();
    assert_eq!(text, "another name\n");
    let ran = run([&"diff", &small, &out, &"--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["differences"].as_array().unwrap().len(), 1);
    assert_eq!(json["differences"][0]["path"], PATH);
    // The fingerprint is updated, as it would be by merging, changing and splitting the model.
    let fingerprint = run([&"fingerprint", &out, &"--json"]).json();
    assert_eq!(fingerprint["agrees"], true, "{fingerprint}");
    assert!(files(&out).contains(&"fingerprint.pb".to_owned()));

    // Replacing the value in a model in one piece gives the same message.
    let plain = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let changed = dir.path("changed.pb");
    run([
        &"replace", &plain, &PATH, &"--with", &value, &"-o", &changed,
    ])
    .ok();
    let merged = dir.path("merged.pb");
    run([&"merge", &out, &"-o", &merged]).ok();
    assert!(fs::read(changed).unwrap() == fs::read(merged).unwrap());
}

#[test]
fn a_recompressed_file_merges_to_the_same_bytes() {
    let dir = Dir::new();
    let small = small(&dir);
    let model = fixture("functions_consts/saved_model.pb");
    for (at, how) in ["none", "zstd:19", "brotli:1", "snappy", "auto"]
        .into_iter()
        .enumerate()
    {
        let out = dir.path(&format!("out{at}"));
        run([&"recompress", &small, &"-o", &out, &"--compression", &how]).ok();
        run([&"verify", &out, &"--against", &model]).ok();
        let ls = run([&"ls", &out, &"--json"]).json();
        let kind = how.split(':').next().unwrap();
        let chunks = ls["chunks"].as_array().unwrap();
        assert!(
            kind == "auto" || chunks.iter().all(|chunk| chunk["compression"] == kind),
            "{how}"
        );
    }
    // A file written by TensorFlow can be recompressed, too.
    let theirs = dir.copy(&foreign("functions_consts.nested.none.cpb"), "theirs.cpb");
    let out = dir.path("theirs-small.cpb");
    run([
        &"recompress",
        &theirs,
        &"-o",
        &out,
        &"--compression",
        &"zstd",
    ])
    .ok();
    let kind = "tensorflow.SavedModel";
    run([&"diff", &theirs, &out, &"--message", &kind]).ok();
    assert!(fs::metadata(&out).unwrap().len() < fs::metadata(&theirs).unwrap().len());
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_done_says_why() {
    let dir = Dir::new();
    small(&dir);
    let file = dir.path("small/saved_model.cpb");
    let value = dir.file("value", "x");
    let there = dir.file("there.cpb", "old");
    let how = "zstd";
    let line =
        run([&"recompress", &file, &"-o", &there, &"--compression", &how]).failed(Exit::Usage);
    assert!(line.contains("--force"), "{line}");
    let line = run([
        &"recompress",
        &file,
        &"-o",
        &file,
        &"--compression",
        &how,
        &"--force",
    ])
    .failed(Exit::Usage);
    assert!(line.contains("refusing to overwrite the input "), "{line}");
    let replace = |path: &str, value: &std::path::Path| {
        run([
            &"replace",
            &file,
            &path,
            &"--with",
            &value,
            &"-o",
            &dir.path("n.cpb"),
        ])
    };
    assert!(
        replace("meta_graphs[9]", &value)
            .failed(Exit::Bad)
            .contains("no such value")
    );
    assert!(
        replace("", &value)
            .failed(Exit::Bad)
            .contains("the whole message")
    );
    assert!(
        replace("meta_graphs[0]", &value)
            .failed(Exit::Bad)
            .contains("not a message")
    );
    assert!(
        replace("meta_graph[0]", &value)
            .failed(Exit::Usage)
            .contains("did you mean")
    );
    assert!(
        replace(PATH, &dir.path("nowhere"))
            .failed(Exit::Usage)
            .contains("nowhere")
    );
    let text = dir.file("latin1", b"caf\xe9");
    assert!(replace(PATH, &text).failed(Exit::Bad).contains("UTF-8"));
    let theirs = foreign("functions_consts.nested.none.cpb");
    let kind = "tensorflow.SavedModel";
    let args: [&dyn AsRef<std::path::Path>; 9] = [
        &"replace",
        &theirs,
        &PATH,
        &"--with",
        &value,
        &"-o",
        &dir.path("t.cpb"),
        &"--message",
        &kind,
    ];
    assert!(run(args).failed(Exit::Bad).contains("placeholders"));
    assert!(
        !dir.files()
            .iter()
            .any(|name| name.contains(".tmp") || name.starts_with("n.") || name.starts_with("t."))
    );
    let plain = fixture("keras_mlp/saved_model.pb");
    let line = run([
        &"recompress",
        &plain,
        &"-o",
        &dir.path("p.cpb"),
        &"--compression",
        &how,
    ])
    .failed(Exit::Usage);
    assert!(line.contains("`protosplit convert -o NAME.cpb`"), "{line}");
    let out = dir.path("p.cpb");
    let line = run([&"replace", &plain, &PATH, &"--with", &value, &"-o", &out]).failed(Exit::Usage);
    assert!(line.contains("`protosplit edit --replace`"), "{line}");
    assert!(!out.exists());
}

#[test]
fn a_value_can_come_from_a_pipe() {
    let dir = Dir::new();
    let out = dir.path("out.pb");
    let mut child = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .arg("replace")
        .arg(fixture("keras_mlp/saved_model.pb"))
        .args([PATH, "--with", "-", "-o"])
        .arg(&out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"piped").unwrap();
    assert!(child.wait().unwrap().success());
    let kind = "tensorflow.SavedModel";
    let got = run([&"cat", &out, &PATH, &"--message", &kind]).ok();
    assert_eq!(got, "piped\n");
}

#[test]
fn every_command_completes_and_has_a_page() {
    let help = run([&"--help"]).ok();
    let commands: Vec<&str> = help
        .lines()
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = run([&"completions", &shell]).ok();
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let dir = Dir::new();
    let man = dir.path("man");
    run([&"man", &man]).ok();
    let pages = files(&man);
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(
            pages.contains(&format!("protosplit-{command}.1")),
            "{command}: {pages:?}"
        );
    }
    let page = fs::read_to_string(man.join("protosplit-split.1")).unwrap();
    assert!(
        page.contains("Examples:") && page.contains("max\\-chunk\\-size"),
        "{page}"
    );
}
