//! Tests that errors about a file that isn't a message name the kind of file.

use std::fs;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, riegeli, run, run_all};

#[test]
fn an_error_says_what_the_file_is_instead() {
    let dir = Dir::new();
    let model = fs::read(fixture("keras_mlp/saved_model.pb")).unwrap();
    for (name, bytes, what) in [
        (
            "a.gz",
            &b"\x1f\x8b\x08\0\0\0\0\0"[..],
            "it is compressed with gzip",
        ),
        (
            "a.zip",
            b"PK\x03\x04\x14\0\0\0\x08\0",
            "it is a zip archive",
        ),
        (
            "a.json",
            b"{\n \"node\": [1, 2]\n}\n",
            "text that begins like JSON",
        ),
        (
            "a.pbtxt",
            b"node {\n  name: \"x\"\n}\n",
            "maybe in protobuf's text format",
        ),
        (
            "a.tflite",
            b"\x1c\0\0\0TFL3\x14\0 \0\x1c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "a FlatBuffer of the kind TFL3",
        ),
        (
            "a.pb",
            &model[..3000],
            "if the file is cut, 29775 bytes are missing",
        ),
    ] {
        let file = dir.file(name, bytes);
        for command in ["verify", "tree"] {
            let line = run([&command, &file]).failed(Exit::Bad);
            assert!(line.ends_with(what), "{command}: {line}");
        }
    }
}

/// Verbs with their arguments, except for the file.
const VERBS: &[&[&str]] = &[
    &["info"],
    &["ls"],
    &["tree"],
    &["cat"],
    &["get", "1"],
    &["verify"],
    &["layout"],
    &["tensors"],
    &["schema", "--message=tensorflow.GraphDef"],
    &["split", "--message=tensorflow.GraphDef", "-o", "OUT"],
    &["merge", "-o", "OUT"],
    &[
        "strip",
        "--over=1",
        "--message=tensorflow.GraphDef",
        "-o",
        "OUT",
    ],
    &["remove", "1", "-o", "OUT"],
    &["pieces", "--field=1", "--count=1", "-o", "OUT"],
    &["export", "-o", "OUT.npz"],
    &["convert", "--to=external", "-o", "OUT"],
];

#[test]
fn every_verb_names_what_a_file_is_instead() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 104857\n";
    let page = b"<!DOCTYPE html>\n<html><title>Not found</title></html>\n";
    let text = b"a note, and no model\n";
    let front = b"junk\x08\x01";
    let kinds: &[(&str, &[u8], &str)] = &[
        ("m.pb", pointer, "a Git LFS pointer to 104857 bytes"),
        ("m.onnx", pointer, "a Git LFS pointer to 104857 bytes"),
        ("m.pdmodel", pointer, "a Git LFS pointer to 104857 bytes"),
        ("saved_model.pb", pointer, "a Git LFS pointer"),
        ("m.pb", page, "an HTML page"),
        ("m.onnx", page, "an HTML page"),
        ("m.pb", b"\x1f\x8b\x08\0\0\0\0\0", "compressed with gzip"),
        ("m.onnx", b"\x1f\x8b\x08\0\0\0\0\0", "compressed with gzip"),
        ("m.pb", b"{\"node\": []}", "JSON"),
        ("m.txt", text, "it is text"),
        ("saved_model.pb", b"", "the file is empty"),
        ("m.onnx", b"", "the file is empty"),
        ("m.safetensors", b"", "the file is empty"),
        ("m.zip", b"", "the file is empty"),
        ("m.index", b"", "the file is empty"),
        ("m.pb", front, "run past the end of the message"),
        ("m.cpb", pointer, "a Git LFS pointer to 104857 bytes"),
        ("m.cpb", page, "an HTML page"),
        ("m.cpb", b"\x1f\x8b\x08\0\0\0\0\0", "compressed with gzip"),
    ];
    for (name, bytes, what) in kinds {
        for verb in VERBS {
            let dir = Dir::new();
            let file = dir.file(name, bytes);
            let out = |arg: &str| match arg.strip_prefix("OUT") {
                Some(rest) => dir.path(&format!("out{rest}")),
                None => arg.into(),
            };
            let mut args = vec![verb[0].into(), file];
            args.extend(verb[1..].iter().map(|arg| out(arg)));
            let ran = run_all(args.iter().map(|arg| arg as &dyn AsRef<std::path::Path>));
            let line = ran.failed(Exit::Bad);
            assert!(line.contains(what), "{verb:?} of {name}: {line}");
            assert_eq!(line.matches(what).count(), 1, "{verb:?} of {name}: {line}");
            assert_eq!(dir.files(), [*name], "{verb:?}");
        }
    }
}

#[test]
fn a_record_file_of_something_else_is_for_layout() {
    let file = riegeli("cpp_default_small.riegeli");
    let line = run([&"info", &file]).failed(Exit::Bad);
    assert!(
        line.ends_with("`protosplit layout` reads any record file"),
        "{line}"
    );
    run([&"layout", &file]).ok();
}
