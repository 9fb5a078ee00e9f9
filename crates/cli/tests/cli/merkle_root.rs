//! Tests for `--merkle-root` and `--root`.

use std::fs;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run};

const SMALL: [&str; 4] = [
    "--max-chunk-size",
    "10KiB",
    "--message",
    "tensorflow.GraphDef",
];
const WRONG: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Creates a folder with a graph in chunks, `graph.cpb`, and returns the graph's Merkle root, too.
fn prepared() -> (Dir, String) {
    let dir = Dir::new();
    let (graph, prefix) = (fixture("graphdef_frozen_cnn/graph.pb"), dir.path("graph"));
    let [size, most, message, name] = SMALL;
    let said = run([
        &"split",
        &graph,
        &"-o",
        &prefix,
        &size,
        &most,
        &message,
        &name,
        &"--merkle-root",
    ])
    .ok();
    let (_, root) = said
        .trim_end()
        .rsplit_once("graph.cpb: Merkle root ")
        .unwrap();
    assert_eq!(root.len(), 64, "{said}");
    (dir, root.to_owned())
}

#[test]
fn the_root_that_split_prints_is_the_one_that_verify_finds() {
    let (dir, root) = prepared();
    let file = dir.path("graph.cpb");
    let said = run([&"verify", &file, &"--root", &root]).ok();
    assert!(
        said.contains(&format!("root     {root}, computed from all data read")),
        "{said}"
    );
    assert!(run([&"info", &file]).ok().contains(&format!("{root}\n")));
    assert_eq!(
        run([&"info", &file, &"--json"]).json()["merkle_root"],
        *root
    );
    let report = run([&"verify", &file, &"--root", &root.to_uppercase(), &"--json"]).json();
    assert_eq!(
        (&report["ok"], &report["root"]),
        (&true.into(), &(*root).into())
    );

    let failed = run([&"verify", &file, &"--root", &WRONG]);
    assert!(
        failed.out.contains("1 problem") && !failed.out.contains("root "),
        "{}",
        failed.out
    );
    let error = failed.failed(Exit::Bad);
    let expected = format!("graph.cpb: its Merkle root is {root}, where {WRONG} is expected");
    assert!(error.ends_with(&expected), "{error}");
}

#[test]
fn get_writes_nothing_that_is_not_of_the_root() {
    let (dir, root) = prepared();
    let file = dir.path("graph.cpb");
    let get = |root: &dyn AsRef<std::path::Path>| {
        run([
            &"get",
            &file,
            &"node[1].name",
            &"--format",
            &"text",
            &"--root",
            root,
        ])
    };
    let name = run([&"get", &file, &"node[1].name", &"--format", &"text"]).ok();
    assert_eq!(get(&root).ok(), name);
    let failed = get(&WRONG);
    assert_eq!(failed.out, "");
    assert!(failed.failed(Exit::Bad).contains("its Merkle root is "));
    let failed = run([&"get", &file, &"--chunk", &"2", &"--root", &WRONG]);
    assert_eq!(failed.out, "");
    assert_eq!(failed.exit, Exit::Bad);
    assert!(
        !run([
            &"get",
            &file,
            &"--chunk",
            &"2",
            &"--root",
            &root,
            &"-o",
            &dir.path("out")
        ])
        .out
        .contains('?')
    );
    assert!(dir.path("out").is_file());
}

#[test]
fn an_input_without_a_root_is_refused() {
    let dir = Dir::new();
    let without = dir.split(&fixture("graphdef_frozen_cnn/graph.pb"), "graph", &SMALL);
    let whole = dir.copy(&fixture("graphdef_frozen_cnn/graph.pb"), "whole.pb");
    for (file, what) in [
        (&without, "it has no Merkle root, where 0011"),
        (
            &whole,
            "it isn't a message in chunks, so it has no Merkle root, where 0011",
        ),
    ] {
        for error in [
            run([&"verify", file, &"--root", &WRONG]),
            run([
                &"get",
                file,
                &"node[1].name",
                &"--message",
                &"tensorflow.GraphDef",
                &"--root",
                &WRONG,
            ]),
        ] {
            let error = error.failed(Exit::Bad);
            assert!(error.contains(what), "{error}");
            assert!(
                error.contains(file.file_name().unwrap().to_str().unwrap()),
                "{error}"
            );
        }
    }
    let error = run([&"verify", &without, &"--root", &"0011"]);
    assert_eq!(error.exit, Exit::Usage);
    assert!(
        error.err.contains("a Merkle root is 64 hexadecimal digits"),
        "{}",
        error.err
    );
}

#[test]
fn recompressing_keeps_the_root_and_changes_have_others() {
    let (dir, root) = prepared();
    let file = dir.path("graph.cpb");
    let again = dir.path("again.cpb");
    run([
        &"recompress",
        &file,
        &"-o",
        &again,
        &"--compression",
        &"none",
    ])
    .ok();
    run([&"verify", &again, &"--root", &root]).ok();
    let named = dir.path("named.cpb");
    run([
        &"replace",
        &file,
        &"node[1].name",
        &"--value",
        &"other",
        &"-o",
        &named,
    ])
    .ok();
    let edited = dir.path("edited.cpb");
    run([&"edit", &file, &"--remove", &"node[1]", &"-o", &edited]).ok();
    for changed in [&named, &edited] {
        let found = run([&"info", changed, &"--json"]).json();
        let new = found["merkle_root"].as_str().unwrap();
        assert_ne!(new, root);
        run([&"verify", changed, &"--root", &new]).ok();
        assert_eq!(run([&"verify", changed, &"--root", &root]).exit, Exit::Bad);
    }
}

#[test]
fn a_message_in_one_piece_has_no_root() {
    let dir = Dir::new();
    let (graph, out) = (fixture("graphdef_frozen_cnn/graph.pb"), dir.path("whole"));
    let message = "tensorflow.GraphDef";
    let ran = run([
        &"split",
        &graph,
        &"-o",
        &out,
        &"--message",
        &message,
        &"--merkle-root",
    ]);
    assert_eq!(ran.exit, Exit::Done);
    assert!(
        ran.err
            .contains("no Merkle root: the message was not split"),
        "{}",
        ran.err
    );
    let named = dir.path("whole.cpb");
    fs::remove_file(dir.path("whole.pb")).unwrap();
    let said = run([
        &"split",
        &graph,
        &"-o",
        &named,
        &"--message",
        &message,
        &"--merkle-root",
    ])
    .ok();
    assert!(said.contains("Merkle root "), "{said}");
    let plan = dir.path("plan");
    let in_parts = run([
        &"split",
        &graph,
        &"-o",
        &out,
        &"--message",
        &message,
        &"--merkle-root",
        &"--plan-only",
        &plan,
    ]);
    assert_eq!(in_parts.exit, Exit::Usage);
}
