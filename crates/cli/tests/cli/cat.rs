//! Tests for `protosplit cat` and `protosplit schema`.

use std::fs;
use std::process::Command;

use protosplit_cli::Exit;

use crate::support::{Dir, files, fixture, messages, run, run_all};

#[test]
fn a_message_reads_the_same_in_one_piece_and_in_chunks_and_every_time() {
    for (file, kind) in messages() {
        let dir = Dir::new();
        let small = dir.split(
            &file,
            "small",
            &["--max-chunk-size", "5KiB", "--message", kind],
        );
        for format in ["text", "json", "binary"] {
            let cat = |file: &std::path::Path| {
                let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
                    .arg("cat")
                    .arg(file)
                    .args(["--format", format, "--message", kind])
                    .output()
                    .unwrap();
                assert!(ran.status.success(), "{ran:?}");
                ran.stdout
            };
            let [plain, chunked] = [cat(&file), cat(&small)];
            assert!(plain == chunked, "{file:?} as {format}");
            assert!(plain == cat(&file), "{file:?} as {format}, again");
            if format == "binary" {
                assert!(plain == fs::read(&file).unwrap());
            }
        }
    }
}

#[test]
fn a_mistyped_path_is_answered_with_what_was_meant() {
    let model = fixture("keras_mlp");
    for command in ["cat", "get"] {
        let line = run([&command, &model, &"graph_def.nod[0]"]).failed(Exit::Usage);
        assert!(
            line.ends_with("did you mean `meta_graphs[0].graph_def.node[0]`?"),
            "{line}"
        );
    }
}

#[test]
fn a_schema_is_a_folder_of_files_at_their_import_paths() {
    let dir = Dir::new();
    let graph = fixture("graphdef_dtypes/graph.pb");
    let out = dir.path("protos");
    let schema: [&dyn AsRef<std::path::Path>; 6] = [
        &"schema",
        &graph,
        &"--message",
        &"tensorflow.GraphDef",
        &"-o",
        &out,
    ];
    run(schema).ok();
    let written = files(&out);
    assert!(
        written.contains(&"tensorflow/core/framework/graph.proto".to_owned()),
        "{written:?}"
    );
    let json = run([
        &"schema",
        &graph,
        &"--message",
        &"tensorflow.GraphDef",
        &"--json",
    ])
    .json();
    for file in json["files"].as_array().unwrap() {
        let text = fs::read_to_string(out.join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(text, file["text"].as_str().unwrap());
    }
    let again = run(schema).failed(Exit::Usage);
    assert!(again.ends_with("is there already"), "{again}");
    let nameless = run([&"schema", &graph]).failed(Exit::Usage);
    assert!(nameless.contains("--message"), "{nameless}");
}

#[test]
fn without_a_schema_the_text_is_guessed() {
    let dir = Dir::new();
    let message = b"\x08\x96\x01\x12\x09\x0a\x07testing\x12\x02hi\x1d\x01\x00\x00\x00";
    let file = dir.file("unknown.pb", message);
    for (path, expected) in [
        (
            "",
            "1: 150\n2 {\n  1: \"testing\"\n}\n2: \"hi\"\n3: 0x00000001\n",
        ),
        ("1", "150\n"),
        ("2[0]", "1: \"testing\"\n"),
        ("2[1]", "\"hi\"\n"),
        ("3", "0x00000001\n"),
        ("2[0].1", "\"testing\"\n"),
        ("2[*]", "1: \"testing\"\n\"hi\"\n"),
    ] {
        assert_eq!(run([&"cat", &file, &path]).ok(), expected, "{path}");
    }
    let json = run([&"cat", &file, &"2[0]", &"--format=json"]).failed(Exit::Usage);
    assert!(json.contains("give it with --message TYPE"), "{json}");
    let bad = dir.file("bad.pb", b"\x0a\x7fshort");
    run([&"cat", &bad]).failed(Exit::Bad);
}

#[test]
fn elements_without_a_schema_are_counted_and_shown_by_how_they_are_written() {
    let dir = Dir::new();
    // The message contains three messages with a number and a string each, three strings, two
    // numbers, and four bytes.
    let message = [
        &b"\x0a\x03\x40\xec\x07\x0a\x03\x40\xed\x07\x0a\x03\x40\xee\x07"[..],
        b"\x12\x02hi\x12\x03you\x12\x02xy\x18\x05\x18\x96\x01\x25\x01\x00\x00\x00",
    ]
    .concat();
    let file = dir.file("unknown.pb", &message);
    for (path, expected) in [
        ("1[-1]", "8: 1006\n"),
        ("1[-1].8", "1006\n"),
        ("1[1].8", "1005\n"),
        ("1[*].8", "1004\n1005\n1006\n"),
        ("1[-2:].8", "1005\n1006\n"),
        ("2[-2]", "\"you\"\n"),
        ("2[*]", "\"hi\"\n\"you\"\n\"xy\"\n"),
        ("3[1]", "150\n"),
        ("3[-2]", "5\n"),
        ("3[*]", "5\n150\n"),
        ("4[*]", "0x00000001\n"),
    ] {
        assert_eq!(run([&"cat", &file, &path]).ok(), expected, "{path}");
    }
    for (path, told) in [
        ("1[-4]", "no such value: 1 has 3 elements, counted from 0"),
        ("2[-9]", "no such value: 2 has 3 elements, counted from 0"),
        ("2[\"key\"]", "no such value"),
    ] {
        let line = run([&"cat", &file, &path]).failed(Exit::Bad);
        assert!(line.contains(told), "{path}: {line}");
    }
}

#[test]
fn what_would_repaint_a_terminal_is_escaped_in_every_format() {
    let dir = Dir::new();
    // The name of a node contains an escape sequence with a C1 control character, and a character
    // that reverses text.
    let name = "a\u{9b}31m\u{202e}gpj.exe caf\u{e9}";
    let node = [
        &[0x0a, u8::try_from(name.len()).unwrap()][..],
        name.as_bytes(),
    ]
    .concat();
    let length = u8::try_from(node.len()).unwrap();
    let file = dir.file("g.pb", [&[0x0a, length][..], &node].concat());
    let of = "--message=tensorflow.GraphDef";
    let text = r#"name: "a\302\23331m\342\200\256gpj.exe café""#;
    let json = r#"a\u009b31m\u202egpj.exe café"#;
    let value = r"a\u{9b}31m\u{202e}gpj.exe café";
    let cases: [(&[&str], &str); 6] = [
        (&["cat", "node[0]", of], text),
        (&["cat", "node[0].name", of], value),
        (&["cat", "1[0]"], &text.replace("name", "1")),
        (&["cat", "node[*]", of, "--format=jsonl"], json),
        (&["cat", "node[0]", of, "--format=json"], json),
        (&["get", "node[0].name", of, "--format=json"], json),
    ];
    for (args, expected) in cases {
        let args = [args[0], file.to_str().unwrap()]
            .into_iter()
            .chain(args[1..].iter().copied());
        let args: Vec<&str> = args.collect();
        let out = run_all(args.iter().map(|arg| arg as &dyn AsRef<std::path::Path>)).ok();
        assert!(out.contains(expected), "{args:?}: {out}");
        assert!(!out.contains(['\u{9b}', '\u{202e}']), "{args:?}: {out:?}");
    }
    let binary = run([&"get", &file, &"node[0].name", &of]).ok();
    assert_eq!(binary, name);
    let named = dir.file("b\u{9b}\u{202e}.pb", b"");
    let report = run([&"info", &named, &"--json"]).ok();
    assert!(report.contains(r"b\u009b\u202e.pb"), "{report}");
}

#[test]
fn a_very_long_name_is_cut_in_messages_and_tables_and_whole_in_json() {
    let dir = Dir::new();
    let name = "n".repeat(100_000);
    // Returns an ONNX model that contains a TensorProto with the given name.
    let graph = |name: &str| {
        let field = |number: u8, value: &[u8]| {
            let mut field = vec![number << 3 | 2];
            proto_splitter::wire::put_varint(&mut field, value.len() as u64);
            [field, value.to_vec()].concat()
        };
        let tensor = [
            &b"\x08\x01\x10\x01"[..],
            &field(8, name.as_bytes()),
            &field(9, &[0; 4]),
        ];
        [b"\x08\x08".to_vec(), field(7, &field(5, &tensor.concat()))].concat()
    };
    let file = dir.file("long.onnx", graph(&name[..60_000]));
    let table = run([&"tensors", &file]).ok();
    assert!(
        table.lines().all(|line| line.chars().count() < 3000),
        "{}",
        table.len()
    );
    assert!(table.contains("nnn…nnn"));
    let json = run([&"tensors", &file, &"--json"]).ok();
    assert!(json.contains(&name[..60_000]));
    let line = run([&"get", &file, &"--tensor", &name]).failed(Exit::Bad);
    assert!(
        line.contains("nnn…nnn") && line.chars().count() < 3000,
        "{}",
        line.len()
    );
}

#[test]
fn long_values_are_cut_where_they_are_shown_unless_that_is_not_wanted() {
    let dir = Dir::new();
    // The tensor has contents of 10,000 bytes.
    let mut tensor = b"\x08\x04\x22\x90\x4e".to_vec();
    tensor.extend(vec![b'x'; 10_000]);
    let file = dir.file("tensor.pb", tensor);
    let cat = |options: [&str; 2]| {
        let of = "--message=tensorflow.TensorProto";
        run([&"cat", &file, &"", &of, &options[0], &options[1]]).ok()
    };
    let shown = |len: usize, more: usize| {
        let front = "x".repeat(len);
        format!("dtype: DT_UINT8\ntensor_content: \"{front}\" # and {more} more bytes\n")
    };
    assert_eq!(
        cat(["--format=text", "--max-value=4KiB"]),
        shown(4096, 5904)
    );
    assert_eq!(cat(["--format=text", "--quiet"]), shown(4096, 5904));
    assert_eq!(cat(["--format=text", "--max-value=10"]), shown(10, 9990));
    let whole = cat(["--format=text", "--max-value=none"]);
    assert!(whole.contains(&"x".repeat(10_000)) && !whole.contains("more bytes"));
    let json = cat(["--format=json", "--max-value=10"]);
    assert!(
        json.contains("eHh4eHh4eH... and 13326 more bytes"),
        "{json}"
    );
}

#[test]
fn what_is_printed_goes_to_a_file_by_the_same_option_everywhere() {
    let dir = Dir::new();
    let model = fixture("keras_mlp");
    let small = dir.split(
        &model.join("saved_model.pb"),
        "small",
        &[
            "--max-chunk-size",
            "5KiB",
            "--message",
            "tensorflow.SavedModel",
        ],
    );
    let commands: [&[&dyn AsRef<std::path::Path>]; 10] = [
        &[&"cat", &small, &"meta_graphs[0].meta_info_def"],
        &[
            &"get",
            &small,
            &"meta_graphs[0].meta_info_def",
            &"--format=text",
        ],
        &[&"tree", &small],
        &[&"info", &small],
        &[&"ls", &small],
        &[&"layout", &small],
        &[&"tensors", &small],
        &[&"verify", &small],
        &[&"diff", &small, &small],
        &[&"fingerprint", &model],
    ];
    for command in commands {
        let name = command[0].as_ref().display().to_string();
        let printed = run_all(command.iter().copied()).ok();
        let out = dir.path(&format!("{name}.out"));
        let to_file = || {
            let option: [&dyn AsRef<std::path::Path>; 2] = [&"-o", &out];
            run_all(command.iter().copied().chain(option))
        };
        assert_eq!(to_file().ok(), "", "{name}");
        assert_eq!(fs::read_to_string(&out).unwrap(), printed, "{name}");
        // Existing files aren't overwritten without `--force`.
        let line = to_file().failed(Exit::Usage);
        assert!(line.contains("--force"), "{name}: {line}");
    }
    let before = fs::read(&small).unwrap();
    for args in [
        [&"info" as &dyn AsRef<std::path::Path>, &small],
        [&"cat", &small],
    ] {
        let over: [&dyn AsRef<std::path::Path>; 3] = [&"-o", &small, &"--force"];
        run_all(args.into_iter().chain(over)).failed(Exit::Usage);
    }
    assert_eq!(fs::read(&small).unwrap(), before);
}
