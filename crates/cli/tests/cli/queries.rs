//! Tests for typical queries: repeated numbers, conditions, counts and sums.

use std::path::{Path, PathBuf};

use protosplit_cli::Exit;

use crate::support::{Dir, Ran, run_all};

const SCHEMA: &str = r#"
    syntax = "proto3"; package q;
    message Index { repeated Document documents = 1; repeated int32 coeffs = 2;
                    repeated double loose = 3 [packed = false]; }
    message Document { string relative_path = 1; int64 size = 2; Kind kind = 3; repeated sint32 lines = 4; }
    enum Kind { NONE = 0; TEXT = 1; }
"#;

/// Message with three documents, packed numbers in two fields, and numbers that aren't packed.
const INDEX: &[u8] = b"\x0a\x08\x0a\x01a\x10\x05\x22\x01\x03\
    \x12\x03\x01\xac\x02\
    \x0a\x09\x0a\x02ab\x10\xac\x02\x18\x01\
    \x12\x01\x07\
    \x0a\x03\x0a\x01b\
    \x19\0\0\0\0\0\0\xe0\x3f\x19\0\0\0\0\0\0\xf8\x3f";

struct Index {
    dir: Dir,
    file: PathBuf,
    proto: PathBuf,
}

fn index() -> Index {
    let dir = Dir::new();
    let file = dir.file("index.pb", INDEX);
    let proto = dir.file("q.proto", SCHEMA);
    Index { dir, file, proto }
}

impl Index {
    fn run(&self, verb: &str, args: &[&str]) -> Ran {
        let front: [&dyn AsRef<Path>; 2] = [&verb, &self.file];
        let args = args.iter().map(|arg| arg as &dyn AsRef<Path>);
        let schema: [&dyn AsRef<Path>; 2] = [&"--proto", &self.proto];
        run_all(front.into_iter().chain(args).chain(schema))
    }

    fn cat(&self, args: &[&str]) -> String {
        self.run("cat", args).ok()
    }
}

#[test]
fn numbers_of_a_list_are_printed_one_some_or_all() {
    let index = index();
    for (path, format, expected) in [
        ("coeffs[1]", "text", "300\n"),
        ("coeffs[-1]", "text", "7\n"),
        ("coeffs[1:]", "text", "300\n7\n"),
        ("coeffs", "text", "1\n300\n7\n"),
        ("coeffs", "jsonl", "1\n300\n7\n"),
        ("coeffs", "json", "[\n1,\n300,\n7\n]\n"),
        ("loose[1]", "json", "1.5\n"),
        ("loose", "json", "[\n0.5,\n1.5\n]\n"),
        ("documents[*].lines[0]", "text", "-2\n"),
        ("documents[1].lines", "json", "[]\n"),
    ] {
        assert_eq!(index.cat(&[path, "--format", format]), expected, "{path}");
    }
    let line = index.run("cat", &["coeffs[3]"]).failed(Exit::Bad);
    assert!(
        line.ends_with("coeffs has 3 elements, counted from 0"),
        "{line}"
    );
    let line = index.run("get", &["coeffs[*]"]).failed(Exit::Usage);
    assert!(line.contains("run into each other"), "{line}");
}

#[test]
fn a_number_among_packed_ones_is_edited() {
    let index = index();
    let out = index.dir.path("out.pb");
    let out_name = out.to_str().unwrap();
    let edits = [
        "--replace",
        "coeffs[1]=-1",
        "--replace",
        "coeffs[2]=5",
        "-o",
        out_name,
    ];
    index.run("edit", &edits).ok();
    let changed = Index {
        file: out.clone(),
        ..index
    };
    assert_eq!(changed.cat(&["coeffs"]), "1\n-1\n5\n");
    assert_eq!(changed.cat(&["documents[2].relative_path"]), "b\n");
    let wrong = ["--replace", "coeffs[1]=x", "-o", "none.pb"];
    changed.run("edit", &wrong).failed(Exit::Usage);
}

#[test]
fn conditions_pick_all_elements_that_meet_them() {
    let index = index();
    for (picked, expected) in [
        ("relative_path=a", "a"),
        ("relative_path!=a", "ab b"),
        ("relative_path~\"a\"", "a ab"),
        ("size>5", "ab"),
        ("size>=5", "a ab"),
        ("size<5", "b"),
        ("size=0", "b"),
        ("relative_path~a, size<=5", "a"),
        ("relative_path ~ \"a\" , kind = TEXT", "ab"),
        ("relative_path>\"a\", size<1", "b"),
        ("lines[0]<0", "a"),
    ] {
        let path = format!("documents[{picked}].relative_path");
        for format in ["text", "jsonl"] {
            let found = index.cat(&[&path, "--format", format]);
            let found: Vec<&str> = found.lines().map(|line| line.trim_matches('"')).collect();
            assert_eq!(found.join(" "), expected, "{picked} as {format}");
        }
    }
    // Selecting several values is an error if a single one is expected. Selecting none is always an
    // error.
    let line = index.run("get", &["documents[size>1]"]).failed(Exit::Bad);
    assert!(
        line.contains("the path selects several values instead of one"),
        "{line}"
    );
    for format in ["text", "json", "jsonl"] {
        let none = ["documents[size>1000]", "--format", format];
        let line = index.run("cat", &none).failed(Exit::Bad);
        assert!(line.contains("no such value"), "{line}");
    }
    let line = index.run("cat", &["documents[size~1]"]).failed(Exit::Usage);
    assert!(
        line.contains("~ only applies to strings and bytes, but size is int64"),
        "{line}"
    );
}

#[test]
fn a_key_by_another_field_than_a_name_is_hinted() {
    let line = index().run("cat", &["documents[\"ab\"]"]).failed(Exit::Bad);
    let hint = "did you mean `documents[relative_path=\"ab\"]`?";
    assert!(line.ends_with(hint), "{line}");
}

#[test]
fn values_are_counted_and_added_up() {
    let index = index();
    for (args, expected) in [
        (&["documents[*]", "--count"][..], "3\n"),
        (&["documents", "--count"], "3\n"),
        (&["coeffs", "--sum", "."], "308\n"),
        (&["documents[size>1]", "--sum", "size"], "305\n"),
    ] {
        assert_eq!(index.cat(args), expected, "{args:?}");
    }
    let by = ["documents", "--sum", "size", "--by", "kind"];
    let table = index.cat(&by);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    assert_eq!(rows[1..], [["1", "300", "TEXT"], ["2", "5", "NONE"]]);
    let json = index
        .run("cat", &[&by[..], &["--format", "json"]].concat())
        .json();
    assert_eq!(json["count"], 3);
    assert_eq!(json["groups"][0]["sums"][0], 300);
    let line = index
        .run("cat", &["documents", "--sum", "relative_path"])
        .failed(Exit::Bad);
    assert!(line.contains("only numbers"), "{line}");
}

#[test]
fn without_a_message_the_one_root_is_taken_or_all_are_listed() {
    let mut index = index();
    assert_eq!(index.cat(&["documents[0].size"]), "5\n");
    let several = format!("{SCHEMA} message Other {{ Index index = 1; }} message More {{}}");
    index.proto = index.dir.file("several.proto", several);
    let line = index.run("cat", &["1[0]"]).failed(Exit::Usage);
    assert!(line.contains("--message TYPE"), "{line}");
    assert!(
        line.contains("q.Other") && line.contains("q.More"),
        "{line}"
    );
    assert_eq!(
        index.cat(&["documents[0].size", "--message", "q.Index"]),
        "5\n"
    );
}

#[test]
fn a_message_over_a_limit_fails_with_its_largest_parts() {
    let index = index();
    index.run("tree", &["--limit", "1KiB"]).ok();
    let ran = index.run("tree", &["--limit", "20"]);
    assert!(ran.out.contains("documents"), "{}", ran.out);
    let line = ran.failed(Exit::Bad);
    let (_, largest) = line.split_once("the largest: ").unwrap();
    assert!(largest.contains("documents[1] 11 B"), "{line}");
    assert_eq!(largest.split(", ").count(), 3, "{line}");
}

#[test]
fn what_precedes_a_value_that_cannot_be_read_is_printed_and_its_path_is_named() {
    const WRONG: usize = 7000;
    let index = index();
    let documents = |wrong: Option<usize>| {
        let mut bytes = Vec::new();
        for number in 0..10_000 {
            // The wrong path consists of two bytes that aren't valid UTF-8.
            let path: &[u8] = if wrong == Some(number) {
                b"\xff\xfe"
            } else {
                b"ab"
            };
            bytes.extend_from_slice(b"\x0a\x06\x0a\x02");
            bytes.extend_from_slice(path);
            bytes.extend_from_slice(&[0x10, u8::try_from(number % 100 + 1).unwrap()]);
        }
        bytes
    };
    let line = |number: usize| {
        format!(
            "{{\"relativePath\":\"ab\",\"size\":\"{}\"}}\n",
            number % 100 + 1
        )
    };
    let all: String = (0..10_000).map(line).collect();
    std::fs::write(&index.file, documents(None)).unwrap();
    assert_eq!(index.cat(&["documents[*]", "--format", "jsonl"]), all);

    std::fs::write(&index.file, documents(Some(WRONG))).unwrap();
    for (path, text) in [
        ("documents[*]", (0..WRONG).map(line).collect::<String>()),
        ("documents[*].relative_path", "\"ab\"\n".repeat(WRONG)),
    ] {
        let ran = index.run("cat", &[path, "--format", "jsonl"]);
        assert_eq!(ran.out, text, "{path}");
        let line = ran.failed(Exit::Bad);
        assert!(line.contains(&format!("documents[{WRONG}]")), "{line}");
    }
}
