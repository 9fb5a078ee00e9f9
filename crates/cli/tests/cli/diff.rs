//! Tests for `protosplit diff` with lists.

use std::path::{Path, PathBuf};

use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, run, run_all};

const GRAPH: &str = "tensorflow.GraphDef";

/// Creates a file with a graph. Each node has the given name and op.
fn graph(dir: &Dir, file: &str, nodes: &[(&str, &str)]) -> PathBuf {
    let field = |number: u8, value: &[u8]| {
        let len = u8::try_from(value.len()).unwrap();
        [&[number << 3 | 2, len], value].concat()
    };
    let node = |(name, op): &(&str, &str)| {
        let name = (!name.is_empty()).then(|| field(1, name.as_bytes()));
        let node = [name.unwrap_or_default(), field(2, op.as_bytes())].concat();
        field(1, &node)
    };
    let bytes: Vec<Vec<u8>> = nodes.iter().map(node).collect();
    dir.file(file, bytes.concat())
}

/// Returns the differences between two graphs, each as `PATH (NAME): HOW`.
fn differences(first: &Path, second: &Path) -> Vec<String> {
    let args: [&dyn AsRef<Path>; 6] = [&"diff", &first, &second, &"--message", &GRAPH, &"--json"];
    let ran = run_all(args);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let differences = report["differences"].as_array().unwrap();
    assert_eq!(ran.exit == Exit::Done, differences.is_empty());
    let text = |difference: &Value| {
        let [path, how] = ["path", "how"].map(|key| difference[key].as_str().unwrap());
        match difference["name"].as_str() {
            Some(name) => format!("{path} ({name}): {how}"),
            None => format!("{path}: {how}"),
        }
    };
    differences.iter().map(text).collect()
}

#[test]
fn a_node_that_was_put_in_front_is_one_difference() {
    let dir = Dir::new();
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "Op")).collect();
    let first = graph(&dir, "first.pb", &nodes);
    nodes.insert(0, ("new", "Const"));
    let second = graph(&dir, "second.pb", &nodes);
    assert_eq!(
        differences(&first, &second),
        ["node[0] (new): only in the second"]
    );
    assert_eq!(
        differences(&second, &first),
        ["node[0] (new): only in the first"]
    );
    let text = run([&"diff", &first, &second, &"--message", &GRAPH]);
    assert!(
        text.out.contains("  node[0] (new): only in the second\n"),
        "{}",
        text.out
    );
}

#[test]
fn elements_with_names_are_compared_with_those_that_are_called_the_same() {
    let dir = Dir::new();
    let nodes = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")];
    let first = graph(&dir, "first.pb", &nodes);
    for (nodes, expected) in [
        (
            &[("a", "A"), ("c", "C"), ("d", "D")][..],
            &["node[1] (b): only in the first"][..],
        ),
        (
            &[
                ("x", "X"),
                ("a", "A"),
                ("b", "other"),
                ("c", "C"),
                ("d", "D"),
            ],
            &[
                "node[0] (x): only in the second",
                "node[1].op: \"B\" in the first, \"other\" in the second",
            ],
        ),
        (
            &[("d", "D"), ("a", "A"), ("b", "B"), ("c", "C")],
            &["node[3] (d): element 3 in the first, 0 in the second"],
        ),
        (&nodes, &[]),
    ] {
        let second = graph(&dir, "second.pb", nodes);
        assert_eq!(differences(&first, &second), expected, "{nodes:?}");
    }
}

#[test]
fn elements_without_names_are_aligned_by_what_they_hold() {
    let dir = Dir::new();
    let nodes = [("", "A"), ("", "B"), ("", "C"), ("", "D"), ("", "D")];
    let first = graph(&dir, "first.pb", &nodes);
    for (nodes, expected) in [
        (
            &[
                ("", "X"),
                ("", "A"),
                ("", "B"),
                ("", "C"),
                ("", "D"),
                ("", "D"),
            ][..],
            &["node[0]: only in the second"][..],
        ),
        (
            &[("", "A"), ("", "C"), ("", "D"), ("", "D")],
            &["node[1]: only in the first"],
        ),
        (
            &[
                ("", "A"),
                ("", "B"),
                ("", "x"),
                ("", "D"),
                ("", "D"),
                ("", "D"),
            ],
            &[
                "node[2].op: \"C\" in the first, \"x\" in the second",
                "node[3]: only in the second",
            ],
        ),
        (&nodes, &[]),
    ] {
        let second = graph(&dir, "second.pb", nodes);
        assert_eq!(differences(&first, &second), expected, "{nodes:?}");
    }
}
