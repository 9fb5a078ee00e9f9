//! Tests for valid arguments, and for the errors about invalid ones.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run, run_all};

const NODE: &str = "meta_graphs[0].graph_def.node[1]";

#[test]
fn what_is_read_is_never_overwritten() {
    let dir = Dir::new();
    let files = [model_file(&dir, "small.cpb"), model_file(&dir, "model.pb")];
    for file in files {
        let before = fs::read(&file).unwrap();
        for args in [
            &["get", "FILE", ".", "-o", "FILE", "--force"][..],
            &["tree", "FILE", "--html", "FILE", "--force"],
            &["tree", "FILE", "--svg", "FILE", "--force"],
            &["merge", "FILE", "-o", "FILE", "--force"],
            &[
                "replace", "FILE", NODE, "--with", "FILE", "-o", "FILE", "--force",
            ],
        ] {
            let mut args: Vec<_> = args
                .iter()
                .map(|arg| arg.replace("FILE", file.to_str().unwrap()))
                .collect();
            args.extend(["--message".into(), "tensorflow.SavedModel".into()]);
            let line = run_all(args.iter().map(|arg| arg as _)).failed(Exit::Usage);
            assert!(
                line.contains("refusing to overwrite the input "),
                "{args:?}: {line}"
            );
            assert!(fs::read(&file).unwrap() == before, "{args:?}");
        }
    }
}

#[test]
fn a_value_is_not_overwritten_by_what_it_goes_into() {
    let dir = Dir::new();
    let (chunked, value) = (model_file(&dir, "m.cpb"), dir.file("value", "a name"));
    let path = "meta_graphs[0].graph_def.node[0].name";
    let args = [&"--with" as &dyn AsRef<Path>, &value, &"-o", &value];
    let [with, from, out, to] = args;
    let ran = run([&"replace", &chunked, &path, with, from, out, to, &"--force"]);
    let line = ran.failed(Exit::Usage);
    assert!(line.contains("refusing to overwrite the input "), "{line}");
    assert_eq!(fs::read(&value).unwrap(), b"a name");
}

#[test]
fn a_folder_whose_model_is_in_chunks_by_another_name_is_split_already() {
    let dir = Dir::new();
    let chunked = model_file(&dir, "m.cpb");
    let folder = dir.path("model");
    fs::create_dir(&folder).unwrap();
    fs::rename(chunked, folder.join("saved_model.pb")).unwrap();
    let ran = run([&"split", &folder, &"-o", &dir.path("out")]);
    let line = ran.failed(Exit::Usage);
    assert!(
        line.ends_with("saved_model.pb: split already; `protosplit merge` makes a .pb of it"),
        "{line}"
    );
}

/// Writes a SavedModel's message to a file with the given name, in chunks if the name ends in
/// `.cpb`.
fn model_file(dir: &Dir, name: &str) -> PathBuf {
    let plain = fixture("keras_mlp/saved_model.pb");
    match name.strip_suffix(".cpb") {
        Some(prefix) => dir.split(&plain, prefix, &["--max-chunk-size", "10KiB"]),
        None => dir.copy(&plain, name),
    }
}

#[test]
fn what_a_file_is_called_does_not_matter_where_its_content_tells() {
    let dir = Dir::new();
    let (chunked, plain) = (model_file(&dir, "m.cpb"), model_file(&dir, "m.pb"));
    let (as_pb, onnx) = (dir.path("chunked.pb"), dir.path("model.onnx"));
    fs::rename(chunked, &as_pb).unwrap();
    fs::rename(&plain, &onnx).unwrap();
    let kind = "tensorflow.SavedModel";
    let merged = dir.path("merged.pb");
    run([&"merge", &as_pb, &"-o", &merged]).ok();
    assert!(fs::read(&merged).unwrap() == fs::read(&onnx).unwrap());
    run([&"verify", &as_pb, &"--against", &onnx]).ok();
    assert_eq!(run([&"info", &as_pb, &"--json"]).json()["split"], true);
    let tree = run([&"tree", &onnx, &"--message", &kind, &"--json"]).json();
    assert!(tree["tree"]["size"].as_u64().unwrap() > 10_000);
    let line = run([&"split", &as_pb]).failed(Exit::Usage);
    assert!(line.contains("split already"), "{line}");
    let line = run([&"verify", &as_pb, &"--against", &as_pb]).failed(Exit::Usage);
    assert!(line.contains("protosplit diff"), "{line}");
}

#[test]
fn what_is_wrong_with_an_argument_is_said_of_what_it_is() {
    let dir = Dir::new();
    let (chunked, plain) = (model_file(&dir, "m.cpb"), model_file(&dir, "m.pb"));
    let damaged = dir.file("damaged.pb", b"\x0a\x7f\x00");
    let (empty, folder) = (dir.file("empty.cpb", ""), dir.path("folder"));
    fs::create_dir(&folder).unwrap();
    let nowhere = dir.path("nowhere");
    let (how, pb) = (["--compression", "none"], "pb");
    for (ran, exit, said) in [
        (
            run([&"fingerprint", &plain]),
            Exit::Usage,
            "m.pb: a file, not the folder of a SavedModel",
        ),
        (
            run([&"fingerprint", &nowhere]),
            Exit::Usage,
            "nowhere: no such folder",
        ),
        (
            run([&"convert", &nowhere, &folder, &"--to", &pb]),
            Exit::Usage,
            "nowhere: no such file or folder",
        ),
        (
            run([&"convert", &nowhere, &folder, &"--to", &"external"]),
            Exit::Usage,
            "nowhere: no such file or folder",
        ),
        (
            run([&"convert", &plain, &folder, &"--to", &pb]),
            Exit::Usage,
            "`protosplit merge` to make a .pb",
        ),
        (
            run([&"convert", &folder, &"-", &"--to", &pb]),
            Exit::Usage,
            "standard output: ",
        ),
        (
            run([&"recompress", &chunked, &"-o", &"-", &how[0], &how[1]]),
            Exit::Usage,
            "standard output: ",
        ),
        (
            run([&"split", &plain, &"-o", &"-", &"--json"]),
            Exit::Usage,
            "--json: the file is written to standard output",
        ),
        (
            run([&"merge", &chunked, &"-o", &folder]),
            Exit::Usage,
            "folder: expected a file, found a folder",
        ),
        (
            run([&"merge", &fixture("keras_mlp"), &"-o", &empty]),
            Exit::Usage,
            "empty.cpb: expected a folder, found a file",
        ),
        (
            run([&"man", &plain]),
            Exit::Usage,
            "m.pb: a file, not a folder",
        ),
        (
            run([&"verify", &chunked, &"--threads", &"0"]),
            Exit::Usage,
            "the number of threads must be at least 1",
        ),
        (
            run([&"diff", &chunked, &damaged]),
            Exit::Bad,
            "damaged.pb: ",
        ),
        (
            run([&"merge", &empty, &"-o", &nowhere]),
            Exit::Bad,
            "empty.cpb: the file has no records",
        ),
    ] {
        let line = ran.failed(exit);
        assert!(line.contains(said), "{said}: {line}");
    }
    assert!(run([&"layout", &empty]).ok().contains("0 B (0 bytes)"));
    assert!(!nowhere.exists());
}

#[test]
fn who_types_the_name_alone_gets_help() {
    let ran = run([]);
    assert_eq!((ran.exit, ran.err.as_str()), (Exit::Usage, ""));
    assert!(ran.out.contains("Usage: protosplit"), "{}", ran.out);
    assert!(ran.out.contains("Split and merge:"), "{}", ran.out);
    assert!(ran.out.contains("see more with '--help'"), "{}", ran.out);
}

#[test]
fn with_q_nothing_is_said_if_all_goes_well() {
    let dir = Dir::new();
    let model = dir.copy(
        &fixture("keras_mlp").join("saved_model.pb"),
        "saved_model.pb",
    );
    let [chunked, merged, edited] = ["m", "merged.pb", "edited.pb"].map(|name| dir.path(name));
    let cpb = dir.path("m.cpb");
    let classic = fixture("../samediff/classic.fb");
    let (schema, zip) = (dir.path("schema"), dir.path("model.zip"));
    let commands: [&[&dyn AsRef<std::path::Path>]; 8] = [
        &[
            &"split",
            &model,
            &"-o",
            &chunked,
            &"--max-chunk-size",
            &"10KiB",
        ],
        &[&"verify", &cpb],
        &[&"schema", &cpb, &"-o", &schema],
        &[&"samediff", &"add", &classic, &"--tag", &"one", &"-o", &zip],
        &[&"merge", &cpb, &"-o", &merged],
        &[&"diff", &cpb, &merged],
        &[&"strip", &model, &"--tensors", &"-o", &edited],
        &[
            &"recompress",
            &cpb,
            &"--compression",
            &"none",
            &"-o",
            &edited,
            &"--force",
        ],
    ];
    for command in commands {
        let command = command
            .iter()
            .copied()
            .chain([&"-q" as &dyn AsRef<std::path::Path>]);
        assert_eq!(run_all(command).ok(), "");
    }
    // With `-q`, output that the user requested is still printed.
    assert!(!run([&"info", &cpb, &"-q"]).ok().is_empty());
    assert!(!run([&"verify", &cpb, &"-q", &"--json"]).ok().is_empty());
}

#[test]
fn the_profiles_are_completed() {
    let script = run([&"completions", &"bash"]).ok();
    assert!(script.contains("\"tensorflow extended\""));
}
