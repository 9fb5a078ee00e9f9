//! Tests for `protosplit get`.

use std::fs;
use std::path::Path;
use std::process::Command;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, foreign, run, run_all};

/// Returns the path of a SavedModel in one piece, and of the same model in chunks of at most 10
/// KiB.
fn models(dir: &Dir) -> [std::path::PathBuf; 2] {
    let plain = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let sizes = ["--max-chunk-size", "10KiB", "--value-chunk-size", "1KiB"];
    let small = dir.split(&plain, "small", &sizes);
    [plain, small]
}

/// Returns the paths of all chunks in the message, and the paths of some values inside chunks.
fn paths(dir: &Dir) -> Vec<String> {
    let info = run([&"info", &dir.path("small.cpb"), &"--json"]).json();
    let chunks = info["chunks"].as_array().unwrap();
    let mut paths: Vec<String> = chunks
        .iter()
        .map(|chunk| chunk["path"].as_str().unwrap().to_owned())
        .collect();
    paths.extend(
        [
            "saved_model_schema_version",
            "meta_graphs[0].meta_info_def",
            "meta_graphs[0].meta_info_def.tensorflow_version",
            "meta_graphs[0].graph_def.node[0]",
            "meta_graphs[0].graph_def.node[0].name",
            "meta_graphs[0].graph_def.versions.producer",
            "meta_graphs[0].signature_def[\"serving_default\"]",
        ]
        .map(str::to_owned),
    );
    paths
}

#[test]
fn a_part_is_the_same_wherever_it_is_read() {
    let dir = Dir::new();
    let [plain, chunked] = models(&dir);
    let paths = paths(&dir);
    assert!(paths.len() > 10, "{paths:?}");
    for path in &paths {
        let mut seen = Vec::new();
        for file in [&plain, &chunked] {
            let out = dir.path("part");
            run([&"get", file, path, &"-o", &out, &"--force"]).ok();
            seen.push(fs::read(&out).unwrap());
        }
        assert_eq!(seen[0], seen[1], "{path}");
        let of = |file| run([&"get", file, path, &"--format", &"json"]).ok();
        assert!(of(&plain) == of(&chunked), "{path}");
    }
    let out = dir.path("all.pb");
    run([&"get", &chunked, &"", &"-o", &out]).ok();
    assert_eq!(fs::read(out).unwrap(), fs::read(plain).unwrap());
}

#[test]
fn values_are_shown_by_themselves() {
    let dir = Dir::new();
    let [_, chunked] = models(&dir);
    let get = |path: &str, format: &str| run([&"get", &chunked, &path, &"--format", &format]).ok();
    let version = "meta_graphs[0].meta_info_def.tensorflow_version";
    assert!(get(version, "text").starts_with("2."));
    assert!(get(version, "json").starts_with("\"2."));
    assert_eq!(get(version, "raw") + "\n", get(version, "text"));
    // Protobuf's JSON mapping represents 64-bit integers as strings.
    assert_eq!(get("saved_model_schema_version", "json"), "\"1\"\n");
    assert_eq!(get("saved_model_schema_version", "text"), "1\n");
    assert_eq!(
        get("meta_graphs[0].meta_info_def.tags[0]", "text"),
        "serve\n"
    );
    let info: serde_json::Value =
        serde_json::from_str(&get("meta_graphs[0].meta_info_def", "json")).unwrap();
    assert_eq!(info["tags"], serde_json::json!(["serve"]));
    assert!(get("meta_graphs[0].meta_info_def", "text").contains("tags: \"serve\""));
}

#[test]
fn a_float_has_no_more_digits_than_it_takes_to_tell_it() {
    let dir = Dir::new();
    // `float_val` is 0.1 and 1e-10, and `double_val` is a third.
    let floats = [0.1f32, 1e-10].map(f32::to_le_bytes).concat();
    let tensor = [
        &b"\x2a\x08"[..],
        &floats,
        b"\x32\x08",
        &(1f64 / 3.).to_le_bytes(),
    ]
    .concat();
    let file = dir.file("tensor.pb", tensor);
    let kind = "tensorflow.TensorProto";
    let ran = run([&"cat", &file, &"--format", &"json", &"--message", &kind]);
    let words: String = ran.ok().split_whitespace().collect();
    assert_eq!(
        words,
        r#"{"doubleVal":[0.3333333333333333],"floatVal":[0.1,1e-10]}"#
    );
}

#[test]
fn a_tensor_is_a_numpy_array() {
    // The tensor has the type DT_INT16, the shape [2, 3], and the elements 5 and -1. The last one
    // is repeated.
    let by_value = b"\x08\x05\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x3a\x0b\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    // The tensor has the type DT_FLOAT, the shape [2], and elements in `tensor_content`.
    let by_content = b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08\x00\x00\x80\x3f\x00\x00\x00\x40";
    let dir = Dir::new();
    for (tensor, descr, shape, elements) in [
        (
            &by_value[..],
            "<i2",
            "(2, 3)",
            &b"\x05\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        ),
        (
            &by_content[..],
            "<f4",
            "(2,)",
            &b"\x00\x00\x80\x3f\x00\x00\x00\x40"[..],
        ),
        (&b"\x08\x0a"[..], "|b1", "()", &b"\x00"[..]),
    ] {
        let file = dir.file("tensor.pb", tensor);
        let out = dir.path("array.npy");
        let kind = "tensorflow.TensorProto";
        run([
            &"get",
            &file,
            &"",
            &"--message",
            &kind,
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
        ])
        .ok();
        let array = fs::read(out).unwrap();
        assert_eq!(array[..8], *b"\x93NUMPY\x01\x00");
        let header = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
        assert_eq!(header % 64, 0);
        let wanted = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let text = std::str::from_utf8(&array[10..header]).unwrap();
        assert_eq!(text.trim_end(), wanted);
        assert!(text.ends_with('\n'));
        assert_eq!(array[header..], *elements);
    }
}

#[test]
fn a_tensor_of_strings_is_an_array_as_wide_as_the_longest() {
    let dir = Dir::new();
    for (tensor, expected) in [
        // The tensor has the type DT_STRING and the shape [2, 2]. The last string is repeated.
        (
            &b"\x08\x07\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02\x42\x03one\x42\x01a\x42\x02bc"[..],
            Ok(("|S3", "(2, 2)", &b"onea\0\0bc\0bc\0"[..])),
        ),
        (b"\x08\x07", Ok(("|S1", "()", b"\0"))),
        (
            b"\x08\x07\x12\x04\x12\x02\x08\x01\x42\x01a\x42\x01b",
            Err("the tensor's shape requires 1 strings, but it has 2"),
        ),
    ] {
        let file = dir.file("tensor.pb", tensor);
        let out = dir.path("array.npy");
        let args: [&dyn AsRef<std::path::Path>; 10] = [
            &"get",
            &file,
            &"",
            &"--message",
            &"tensorflow.TensorProto",
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
        ];
        let ran = run(args);
        match expected {
            Err(why) => {
                let line = ran.failed(Exit::Bad);
                assert!(line.ends_with(why), "{line}");
            }
            Ok((descr, shape, elements)) => {
                ran.ok();
                let array = fs::read(&out).unwrap();
                let header = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
                let text = std::str::from_utf8(&array[10..header]).unwrap();
                let wanted =
                    format!("'descr': '{descr}', 'fortran_order': False, 'shape': {shape}");
                assert!(text.contains(&wanted), "{text}");
                assert_eq!(array[header..], *elements);
            }
        }
    }
}

#[test]
fn rows_of_a_tensor_are_its_first_dimension_s() {
    let dir = Dir::new();
    // The tensor has the type DT_UINT8, the shape [3, 2], and elements in `tensor_content`.
    let tensor = b"\x08\x04\x12\x08\x12\x02\x08\x03\x12\x02\x08\x02\x22\x06abcdef";
    let file = dir.file("tensor.pb", tensor);
    let get = |rows: &str, format: &str| {
        let rows = format!("--rows={rows}");
        let kind = "tensorflow.TensorProto";
        run([
            &"get",
            &file,
            &".",
            &"--message",
            &kind,
            &"--format",
            &format,
            &rows,
        ])
    };
    for (rows, expected) in [
        ("0:3", "abcdef"),
        ("1:2", "cd"),
        (":1", "ab"),
        ("2:", "ef"),
        ("1:1", ""),
    ] {
        assert_eq!(get(rows, "binary").ok(), expected, "{rows}");
    }
    let out = dir.path("rows.npy");
    let of = [
        "--rows=1:",
        "--message=tensorflow.TensorProto",
        "--format=npy",
    ];
    run([&"get", &file, &".", &of[0], &of[1], &of[2], &"-o", &out]).ok();
    let array = fs::read(&out).unwrap();
    assert!(String::from_utf8_lossy(&array).contains("(2, 2)"));
    assert!(array.ends_with(b"cdef") && array.len() % 64 == 4);
    // The output's extension determines the format, unless `--format` is given.
    let all: [&dyn AsRef<Path>; 7] = [&"get", &file, &".", &of[1], &"-o", &out, &"--force"];
    run_all(all).ok();
    let array = fs::read(&out).unwrap();
    assert!(String::from_utf8_lossy(&array).contains("(3, 2)"));
    run_all(
        all.into_iter()
            .chain([&"--format=binary" as &dyn AsRef<Path>]),
    )
    .ok();
    assert!(!fs::read(&out).unwrap().starts_with(b"\x93NUMPY"));
    for (rows, exit, why) in [
        ("1:4", Exit::Usage, "no rows 1 to 4"),
        ("2", Exit::Usage, "rows are two numbers"),
        ("-1:", Exit::Usage, "rows are two numbers"),
    ] {
        let line = get(rows, "binary").failed(exit);
        assert!(line.contains(why), "{line}");
    }
}

#[test]
fn a_chunk_is_got_by_its_number() {
    let dir = Dir::new();
    let [plain, chunked] = models(&dir);
    let file = proto_splitter::container::ChunkedFile::open(&chunked).unwrap();
    use proto_splitter::merge::ChunkStore;
    for chunk in [0, file.len() - 1] {
        let out = dir.path("chunk.bin");
        let number = chunk.to_string();
        run([
            &"get", &chunked, &"--chunk", &number, &"-o", &out, &"--force",
        ])
        .ok();
        let mut expected = Vec::new();
        std::io::copy(&mut *file.stream(chunk).unwrap(), &mut expected).unwrap();
        assert_eq!(fs::read(out).unwrap(), expected);
    }
    let (count, behind) = (file.len(), file.len().to_string());
    let line = run([&"get", &chunked, &"--chunk", &behind]).failed(Exit::Bad);
    assert!(line.contains(&format!("it has {count} chunks")), "{line}");
    let line = run([&"get", &plain, &"--chunk", &"0"]).failed(Exit::Usage);
    assert!(line.contains("one message, not in chunks"), "{line}");
}

#[test]
fn a_tensor_of_onnx_is_a_numpy_array() {
    let dir = Dir::new();
    let schema = dir.file(
        "onnx.proto",
        "syntax = \"proto2\"; package onnx; message TensorProto {
           repeated int64 dims = 1; optional int32 data_type = 2; repeated int32 int32_data = 5 [packed = true];
           optional string name = 8; optional bytes raw_data = 9; repeated uint64 uint64_data = 11 [packed = true];
           optional int32 data_location = 14; }",
    );
    let get = |tensor: &[u8]| {
        let file = dir.file("tensor.pb", tensor);
        let message = "onnx.TensorProto";
        let out = dir.path("array.npy");
        let ran = run([
            &"get",
            &file,
            &".",
            &"--message",
            &message,
            &"--proto",
            &schema,
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
        ]);
        (ran, out)
    };
    for (tensor, head, elements) in [
        // The tensor has the type FLOAT, the dims 2 and 1, and elements in `raw_data`.
        (
            &b"\x08\x02\x08\x01\x10\x01\x42\x01n\x4a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"[..],
            "'<f4', 'fortran_order': False, 'shape': (2, 1), }",
            &b"\x00\x00\x80\x3f\x00\x00\x00\x40"[..],
        ),
        // The tensor has the type FLOAT16, packed dims, and elements in `int32_data`.
        (
            b"\x0a\x01\x02\x10\x0a\x2a\x04\x80\x78\x80\x7c",
            "'<f2', 'fortran_order': False, 'shape': (2,), }",
            b"\x00\x3c\x00\x3e",
        ),
        // The tensor has the type UINT32, no dims, and elements in `uint64_data`.
        (
            b"\x10\x0c\x5a\x01\x07",
            "'<u4', 'fortran_order': False, 'shape': (), }",
            b"\x07\x00\x00\x00",
        ),
        // The tensor has the type INT32, and no elements.
        (
            b"\x08\x00\x10\x06",
            "'<i4', 'fortran_order': False, 'shape': (0,), }",
            b"",
        ),
    ] {
        let (ran, out) = get(tensor);
        ran.ok();
        let array = fs::read(out).unwrap();
        let header = 10 + usize::from(u16::from_le_bytes([array[8], array[9]]));
        let text = std::str::from_utf8(&array[10..header]).unwrap();
        assert_eq!(text.trim_end(), format!("{{'descr': {head}"));
        assert_eq!(array[header..], *elements, "{head}");
    }
    for (tensor, why) in [
        (
            &b"\x10\x08"[..],
            "the tensor's shape requires 1 strings, but it has 0",
        ),
        (
            b"\x08\x02\x10\x06\x2a\x01\x07",
            "the tensor's shape requires 8 bytes, but it has 4",
        ),
        (
            b"\x08\x02\x10\x01\x70\x01",
            "the tensor's elements are in another file",
        ),
        (
            b"\x0a\x02\x02\x80\x10\x06",
            "the sizes of the tensor's dimensions end inside a number",
        ),
        (
            b"\x08\x7f\x10\x01\x4a\x04abcd",
            "the tensor's shape requires 508 bytes, but it has 4",
        ),
    ] {
        let line = get(tensor).0.failed(Exit::Bad);
        assert!(line.ends_with(why), "{line}");
    }
}

#[test]
fn what_cannot_be_got_says_why() {
    let dir = Dir::new();
    let [plain, chunked] = models(&dir);
    let failed = |path: &str, exit| run([&"get", &chunked, &path]).failed(exit);
    assert!(
        failed("meta_graphs[7]", Exit::Bad)
            .contains("meta_graphs[7]: the message has no such value")
    );
    assert!(failed("meta_graphs", Exit::Bad).contains("whole repeated field"));
    assert!(failed("nothing", Exit::Usage).contains("nothing"));
    let format = run([&"get", &plain, &"meta_graphs[0]", &"--format", &"npy"]);
    assert!(
        format
            .failed(Exit::Bad)
            .contains("only a tensorflow.TensorProto")
    );
    let exists = run([&"get", &chunked, &"", &"-o", &plain]);
    assert!(exists.failed(Exit::Usage).contains("--force"));

    // The file's name doesn't indicate the type of its message.
    let nameless = dir.copy(&fixture("graphdef_dtypes/graph.pb"), "graph.pb");
    let named = run([&"get", &nameless, &"node[0].name"]).failed(Exit::Usage);
    assert!(
        named.ends_with("(without --message TYPE, a path consists of field numbers)"),
        "{named}"
    );
    assert!(!run([&"get", &nameless, &"1[0].1"]).ok().is_empty());
    let json = run([&"get", &nameless, &"1[0]", &"--format", &"json"]);
    assert!(json.failed(Exit::Usage).contains("--message"));
    let theirs = dir.copy(&foreign("functions_consts.nested.none.cpb"), "theirs.cpb");
    let kind = "tensorflow.SavedModel";
    let part = run([
        &"get",
        &theirs,
        &"meta_graphs[0].meta_info_def",
        &"--message",
        &kind,
        &"--format",
        &"text",
    ]);
    let ours = run([
        &"get",
        &plain,
        &"meta_graphs[0].meta_info_def",
        &"--format",
        &"text",
    ]);
    assert_eq!(part.ok(), ours.ok());
}

#[test]
fn bytes_go_to_standard_output_as_they_are() {
    let dir = Dir::new();
    let [plain, chunked] = models(&dir);
    let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .arg("get")
        .args([&chunked, std::path::Path::new("")])
        .output()
        .unwrap();
    assert!(ran.status.success());
    assert_eq!(ran.stdout, fs::read(plain).unwrap());
}

#[test]
fn bytes_are_one_format_by_two_names_in_get_and_cat() {
    let dir = Dir::new();
    let [_, chunked] = models(&dir);
    let path = "meta_graphs[0].meta_info_def.tensorflow_version";
    let get = run([&"get", &chunked, &path]).ok();
    for command in ["get", "cat"] {
        for format in ["binary", "raw"] {
            let said = run([&command, &chunked, &path, &"--format", &format]).ok();
            assert_eq!(said, get, "{command} {format}");
        }
        let help = run([&command, &"--help"]).ok();
        assert!(
            help.contains("- binary:") && !help.contains("raw:"),
            "{help}"
        );
    }
    let message = dir.file("message.pb", b"\x0a\x01x");
    for format in ["json", "jsonl"] {
        let line = run([&"cat", &message, &"--format", &format]).failed(Exit::Usage);
        assert!(line.contains("--format binary"), "{line}");
        assert!(
            line.contains("--message TYPE") && !line.contains("plain"),
            "{line}"
        );
    }
    assert_eq!(
        run([&"cat", &message, &"1", &"--format", &"binary"]).ok(),
        "x"
    );
}

#[test]
fn keys_may_stand_in_single_quotes() {
    let model = fixture("keras_mlp");
    let get = |path: &str| run([&"get", &model, &path, &"--format", &"json"]);
    let double = get(r#"meta_graphs[0].signature_def["serving_default"].method_name"#).ok();
    let single = get("meta_graphs[0].signature_def['serving_default'].method_name").ok();
    assert_eq!(single, double);
    let error = get("meta_graph[0].signature_def['serving_default']").failed(Exit::Usage);
    let meant = r#"did you mean `meta_graphs[0].signature_def['serving_default']`?"#;
    assert!(error.contains(meant), "{error}");
}

/// Path of the graph in a SavedModel.
const GRAPH: &str = "meta_graphs[0].graph_def";

#[test]
fn elements_are_told_by_name_by_value_and_from_the_end() {
    let model = fixture("keras_mlp");
    let get = |path: &str| {
        run([
            &"get",
            &model,
            &format!("{GRAPH}.{path}"),
            &"--format",
            &"json",
        ])
    };
    let count = run([&"tree", &model, &format!("{GRAPH}.node[*]"), &"--json"]).json();
    let last = count["tree"]["count"].as_u64().unwrap() - 1;
    let by_index = get(&format!("node[{last}]")).json();
    assert_eq!(get("node[-1]").json(), by_index);
    let name = by_index["name"].as_str().unwrap();
    for path in [
        format!("node[\"{name}\"]"),
        format!("node['{name}']"),
        format!("node[name={name}]"),
    ] {
        assert_eq!(get(&path).json(), by_index, "{path}");
    }
    // The name of a function is that of its signature.
    let function = get("library.function[0]").json();
    let name = function["signature"]["name"].as_str().unwrap();
    assert_eq!(
        get(&format!("library.function[\"{name}\"]")).json(),
        function
    );
    assert_eq!(
        get(&format!("library.function[signature.name=\"{name}\"]")).json(),
        function
    );
    let tree = run([
        &"tree",
        &model,
        &format!("{GRAPH}.library.function[\"{name}\"]"),
        &"--json",
    ]);
    assert_eq!(
        tree.json()["tree"]["path"],
        format!("{GRAPH}.library.function[0]")
    );
}

#[test]
fn a_name_after_a_hundred_thousand_others_is_not_called_missing() {
    let dir = Dir::new();
    let mut graph = Vec::new();
    for number in 0..=100_000 {
        let name = format!("n{number}");
        let mut node = vec![0x0a, u8::try_from(name.len()).unwrap()];
        node.extend(name.bytes());
        if number == 100_000 {
            node.extend(b"\x2a\x05\x0a\x01T\x12\x00");
        }
        graph.extend([0x0a, u8::try_from(node.len()).unwrap()]);
        graph.extend(node);
    }
    let file = dir.file("graph.pb", &graph);
    let path = "node[\"n100000\"].attr[\"U\"]";
    let error = run([&"get", &file, &path, &"--message", &"tensorflow.GraphDef"]);
    let error = error.failed(Exit::Bad);
    assert!(error.contains("there is no \"U\""), "{error}");
}

#[test]
fn what_nothing_is_called_is_answered_with_what_something_is() {
    let model = fixture("keras_mlp");
    let get = |path: &str| run([&"get", &model, &format!("{GRAPH}.{path}")]);
    let name = run([
        &"get",
        &model,
        &format!("{GRAPH}.node[0].name"),
        &"--format",
        &"text",
    ])
    .ok();
    let name = name.trim_end();
    let error = get(&format!("node[\"{name}x\"].op")).failed(Exit::Bad);
    assert!(
        error.ends_with(&format!("did you mean {name:?}?")),
        "{error}"
    );
    let error = run([
        &"get",
        &model,
        &"meta_graphs[0].signature_def[\"serving_defualt\"]",
    ]);
    let error = error.failed(Exit::Bad);
    assert!(
        error.ends_with("did you mean \"serving_default\"?"),
        "{error}"
    );
    let error = run([&"get", &model, &"--tensor", &"nothing/like/it"]).failed(Exit::Bad);
    let told =
        "there is no tensor \"nothing/like/it\"; `protosplit tensors` lists the model's tensors";
    assert!(error.ends_with(told), "{error}");
    let error = get("node[100000]").failed(Exit::Bad);
    let told = "no such value: meta_graphs[0].graph_def.node has ";
    assert!(
        error.contains(told) && error.contains(" elements, counted from 0"),
        "{error}"
    );
    for beyond in ["node[-100000]", "node[-100000].name", "node[99999].name"] {
        let error = get(beyond).failed(Exit::Bad);
        assert!(error.contains(told), "{beyond}: {error}");
    }
    for (typed, meant) in [
        ("node[nam='a]b'].op", "node[name='a]b'].op"),
        ("node[-1].nam", "node[-1].name"),
        ("nodes[*].op", "node[*].op"),
    ] {
        let error = get(typed).failed(Exit::Usage);
        let told = format!("did you mean `{GRAPH}.{meant}`?");
        assert!(error.ends_with(&told), "{typed}: {error}");
    }
    // The path is valid, but has no value, so an error must not suggest another path.
    let error = run([
        &"get",
        &model,
        &"meta_graphs[0].signature_def['nothing like it']",
    ]);
    let error = error.failed(Exit::Bad);
    assert!(!error.contains("did you mean `"), "{error}");
    let error = get("node[op=\"VarHandleOp\"]").failed(Exit::Bad);
    assert!(
        error.contains("the path selects several values instead of one"),
        "{error}"
    );
    let error = get("node[*]").failed(Exit::Usage);
    assert!(error.contains("--format jsonl"), "{error}");
}

#[test]
fn all_elements_are_written_one_by_one() {
    let dir = Dir::new();
    let model = fixture("keras_mlp");
    let small = dir.path("small");
    run([
        &"split",
        &model,
        &"-o",
        &small,
        &"--max-chunk-size",
        &"4KiB",
    ])
    .ok();
    let all = format!("{GRAPH}.node[*].name");
    let names =
        |file: &std::path::Path, path: &str| run([&"cat", &file, &path, &"--format", &"text"]).ok();
    let plain = names(&model, &all);
    assert_eq!(names(&small, &all), plain);
    let lines: Vec<&str> = plain.lines().collect();
    let count = run([&"tree", &model, &format!("{GRAPH}.node[*]"), &"--json"]).json();
    assert_eq!(lines.len() as u64, count["tree"]["count"].as_u64().unwrap());
    let some = names(&small, &format!("{GRAPH}.node[1:-1].name"));
    assert_eq!(some.lines().collect::<Vec<_>>(), lines[1..lines.len() - 1]);
    let json = run([&"cat", &small, &all, &"--format", &"jsonl"]).ok();
    let parsed: Vec<String> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(parsed, lines);
    let keys = run([
        &"cat",
        &model,
        &"meta_graphs[0].signature_def[*].method_name",
        &"--format",
        &"text",
    ]);
    assert!(keys.ok().contains("tensorflow/serving/predict"));
}
