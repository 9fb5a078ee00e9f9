//! What is not a message is named.

use std::fs;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, riegeli, run};

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
            "by its beginning JSON",
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
