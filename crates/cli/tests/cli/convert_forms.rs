//! Tests for the forms of models: listing them, their settings, and writing them to new folders.

use std::fs;

use proto_splitter::onnx::proto::AttributeProto;
use proto_splitter::prost::Message;
use protosplit_cli::Exit;

use crate::onnx::model;
use crate::support::{Dir, run};

#[test]
fn the_forms_of_an_input_are_listed_without_an_output() {
    let dir = Dir::new();
    let one = dir.file("one.onnx", model().encode_to_vec());
    let listed = run([&"convert", &one, &"--to", &"help"]).ok();
    for line in [
        "Forms of the ONNX model (--to):",
        "onnx-safetensors  safetensors file with the ONNX model in its header",
        "cpb               file in chunks",
        "shards           total size of the tensors in one data file; a larger tensor gets its own file (auto, external, safetensors)",
        "keep-external    how the input is read",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    let json = run([&"convert", &one, &"--to", &"help", &"--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["format"], "onnx");
    assert_eq!(json["settings"][0]["forms"][1], "external");
    let missing = dir.path("missing");
    run([&"convert", &missing, &"--to", &"help"]).failed(Exit::Usage);
    let line = run([&"convert", &one, &"--to", &"onnx"]).failed(Exit::Usage);
    assert!(
        line.contains("name the folder or file to write with -o"),
        "{line}"
    );
}

#[test]
fn sizes_take_units_and_a_setting_that_a_form_ignores_is_an_error() {
    let dir = Dir::new();
    let one = dir.file("one.onnx", model().encode_to_vec());
    let convert = |output: &str, to: &str, set: &str| {
        let output = dir.path(output);
        run([
            &"convert", &one, &"-o", &output, &"--to", &to, &"--set", &set,
        ])
    };
    convert("four.onnx", "external", "min-size=6K").ok();
    let data = fs::metadata(dir.path("four.onnx.data")).unwrap();
    // Only the tensor of 8,000 bytes is large enough for the data file. The other tensors have
    // 6,000 bytes.
    assert_eq!(data.len(), 8000);
    convert("shards.onnx", "safetensors", "shards=7KiB").ok();
    for name in [
        "shards-00001-of-00003.safetensors",
        "shards-00003-of-00003.safetensors",
        "shards.safetensors.index.json",
    ] {
        assert!(dir.path(name).is_file(), "{name}");
    }
    for (to, set, why) in [
        (
            "onnx",
            "alignment=4096",
            "alignment: doesn't apply to the form onnx, only to auto, external",
        ),
        (
            "safetensors",
            "alignment=4K",
            "alignment: doesn't apply to the form safetensors",
        ),
        (
            "onnx-safetensors",
            "shards=5GiB",
            "shards: doesn't apply to the form onnx-safetensors",
        ),
        (
            "external",
            "min-size=5 apples",
            "min-size must be a number of bytes: `apples` is not a unit",
        ),
    ] {
        let line = convert("none.onnx", to, set).failed(Exit::Usage);
        assert!(line.contains(why), "{line}");
        assert!(!dir.path("none.onnx").exists());
    }
    let none = dir.path("none.onnx");
    let line = run([
        &"convert",
        &one,
        &"-o",
        &none,
        &"--to",
        &"onnx",
        &"--max-file-size",
        &"1MiB",
    ])
    .failed(Exit::Usage);
    assert!(
        line.contains("max-file-size: doesn't apply to the form onnx"),
        "{line}"
    );
}

#[test]
fn folders_on_the_way_to_an_output_are_made_and_go_again_if_it_fails() {
    let dir = Dir::new();
    let one = dir.file("one.onnx", model().encode_to_vec());
    for (output, to) in [("a/b/pair.onnx", "external"), ("c/d/chunks.cpb", "auto")] {
        let output = dir.path(output);
        run([&"convert", &one, &"-o", &output, &"--to", &to]).ok();
        run([&"diff", &one, &output]).ok();
    }
    let failed = dir.path("e/f/pair.onnx");
    let set = "min-size=1";
    let line = run([
        &"convert",
        &one,
        &"-o",
        &failed,
        &"--to",
        &"external",
        &"--set",
        &set,
    ]);
    assert_ne!(line.exit, Exit::Done);
    assert!(!dir.path("e").exists());
}

#[test]
fn a_whole_model_in_a_safetensors_file_is_an_onnx_model_to_every_command() {
    let dir = Dir::new();
    let mut model = model();
    // The numbers in the header are written as JSON.
    let alpha = AttributeProto {
        name: Some("alpha".into()),
        f: Some(0.1),
        ints: vec![i64::MIN, 1],
        floats: vec![-1.5e-30, f32::NAN, f32::INFINITY],
        ..Default::default()
    };
    let graph = model.graph.get_or_insert_default();
    graph.node[0].attribute.push(alpha);
    let one = dir.file("one.onnx", model.encode_to_vec());
    let [embedded, back] = ["m.safetensors", "back.onnx"].map(|name| dir.path(name));
    run([
        &"convert",
        &one,
        &"-o",
        &embedded,
        &"--to",
        &"onnx-safetensors",
    ])
    .ok();
    let info = run([&"info", &embedded]).ok();
    assert!(info.contains("onnx.ModelProto"), "{info}");
    run([&"diff", &one, &embedded]).ok();
    run([&"verify", &embedded]).ok();
    run([&"convert", &embedded, &"-o", &back, &"--to", &"onnx"]).ok();
    assert!(fs::read(&back).unwrap() == fs::read(&one).unwrap());
    let listed = run([&"tensors", &embedded]).ok();
    assert!(
        listed.contains("float32") && listed.contains("m.safetensors at "),
        "{listed}"
    );
}
