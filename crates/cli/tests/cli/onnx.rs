//! Tests that every command accepts ONNX models without options, in one file, with external data,
//! and in chunks.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use proto_splitter::prost::Message;
use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, run, run_all};

/// Returns `len` bytes that aren't all equal.
fn noise(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 31 + at / 251).to_le_bytes()[0] ^ seed)
        .collect()
}

fn tensor(name: &str, bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dims: vec![i64::try_from(bytes.len() / 4).unwrap()],
        data_type: Some(1),
        name: Some(name.into()),
        raw_data: Some(bytes.into()),
        ..Default::default()
    }
}

/// Returns a model with two initializers, one of which is in the model twice, and with a constant
/// of 6-bit floats.
pub(crate) fn model() -> ModelProto {
    let six_bits = TensorProto {
        dims: vec![4],
        data_type: Some(27),
        raw_data: Some(vec![0x81, 0x30, 0x10].into()),
        ..Default::default()
    };
    let value = AttributeProto {
        name: Some("value".into()),
        t: Some(six_bits),
        r#type: Some(4),
        ..Default::default()
    };
    let constant = NodeProto {
        output: vec!["c".into()],
        op_type: Some("Constant".into()),
        attribute: vec![value],
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("g".into()),
        node: vec![constant],
        initializer: vec![
            tensor("w", noise(1, 6000)),
            tensor("v", noise(2, 8000)),
            tensor("w2", noise(1, 6000)),
        ],
        ..Default::default()
    };
    ModelProto {
        ir_version: Some(10),
        producer_name: Some("tests".into()),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            version: Some(21),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Writes a model in one file, with external data, and in chunks, and returns the paths.
fn forms(dir: &Dir) -> [PathBuf; 3] {
    let one = dir.file("one.onnx", model().encode_to_vec());
    let (pair, chunks) = (dir.path("pair.onnx"), dir.path("chunks.cpb"));
    run([&"convert", &one, &"-o", &pair, &"--to", &"external"]).ok();
    run([
        &"convert",
        &one,
        &"-o",
        &chunks,
        &"--value-chunk-size",
        &"4KiB",
        &"--max-chunk-size",
        &"8KiB",
    ])
    .ok();
    [one, pair, chunks]
}

#[test]
fn every_command_takes_a_model_in_any_form_with_no_options() {
    let dir = Dir::new();
    for file in forms(&dir) {
        let shown = file.display();
        for (command, arguments, expected) in [
            ("tree", &[][..], "raw_data"),
            ("ls", &[][..], ""),
            ("get", &["graph.name", "--format", "text"][..], "g"),
            (
                "get",
                &["graph.initializer[\"v\"].name", "--format", "text"][..],
                "v",
            ),
            ("verify", &[][..], "result"),
            ("info", &[][..], "onnx.ModelProto"),
            ("tensors", &[][..], "w2"),
        ] {
            let named: [&dyn AsRef<Path>; 2] = [&command, &file];
            let others = arguments.iter().map(|one| one as &dyn AsRef<Path>);
            let ran = run_all(named.into_iter().chain(others));
            assert_eq!(ran.exit, Exit::Done, "{command} {shown}: {}", ran.err);
            assert!(ran.out.contains(expected), "{command} {shown}: {}", ran.out);
        }
    }
}

#[test]
fn the_folder_of_a_model_is_taken_wherever_the_model_is() {
    let dir = Dir::new();
    let [one, _, _] = forms(&dir);
    let folder = dir.path("folder");
    fs::create_dir(&folder).unwrap();
    let model = folder.join("model.onnx");
    run([&"convert", &one, &"-o", &model, &"--to", &"external"]).ok();
    let value = ["graph.name", "--value", "other"];
    for (command, arguments, output) in [
        ("info", &[][..], None),
        ("tree", &[][..], None),
        ("ls", &[][..], None),
        ("tensors", &[][..], None),
        ("verify", &[][..], None),
        ("cat", &[][..], None),
        ("schema", &[][..], None),
        ("get", &["graph.name"][..], None),
        ("merge", &[][..], Some("merged.pb")),
        (
            "split",
            &["--max-chunk-size", "4KiB"][..],
            Some("split.cpb"),
        ),
        ("convert", &[][..], Some("one.cpb")),
        ("export", &[][..], Some("w.safetensors")),
        ("strip", &["--tensors"][..], Some("s.pb")),
        ("remove", &["graph.name"][..], Some("r.pb")),
        ("insert", &["domain", "--value", "d"][..], Some("i.pb")),
        ("replace", &value[..], Some("v.pb")),
        (
            "pieces",
            &["--field", "opset_import", "--count", "1"][..],
            Some("pieces"),
        ),
    ] {
        let ran = |named: &Path, prefix: &str| {
            let mut args = vec![PathBuf::from(command), named.to_owned()];
            args.extend(arguments.iter().map(PathBuf::from));
            if let Some(output) = output {
                let output = dir.path(&format!("{prefix}{output}"));
                args.extend(["-o".into(), output]);
            }
            let ran = run_all(args.iter().map(|arg| arg as _));
            (
                ran.exit,
                ran.out.replace(prefix, ""),
                ran.err.replace(prefix, ""),
            )
        };
        assert_eq!(
            ran(&folder, "of-folder-"),
            // The prefixes have the same length, so that the models, which contain the names of
            // their data files, have the same size.
            ran(&model, "of-model--"),
            "{command}"
        );
    }
    run([&"diff", &folder, &one]).ok();
    let alone = dir.path("alone");
    fs::create_dir(&alone).unwrap();
    fs::copy(&one, alone.join("model.onnx")).unwrap();
    let chunks = dir.path("of-folder-one.cpb");
    for original in [&alone, &folder, &model] {
        run([&"verify", &chunks, &"--against", original]).ok();
    }
    let chunks = dir.path("of-pair.cpb");
    run([&"split", &model, &"-o", &chunks]).ok();
    let report = run([&"verify", &chunks, &"--against", &folder, &"--json"]).json();
    assert_eq!(report["against"]["result"], "byte-exact");
    // If there are two models in a folder, the folder's name is ambiguous.
    fs::copy(&one, folder.join("other.onnx")).unwrap();
    for command in ["info", "tensors", "tree", "verify", "cat"] {
        let error = run([&command, &folder]);
        assert_ne!(error.exit, Exit::Done, "{command}");
        let listed = "name one of them: model.onnx, other.onnx";
        assert!(error.err.contains(listed), "{command}: {}", error.err);
    }
}

#[test]
fn a_model_in_one_file_says_what_it_is() {
    let dir = Dir::new();
    for file in &forms(&dir)[..2] {
        let said = run([&"info", file]).ok();
        for expected in ["onnx", "tests", "ai.onnx 21", "5004"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

#[test]
fn a_tensor_that_has_other_bytes_than_its_shape_says_does_not_verify() {
    let dir = Dir::new();
    let mut model = model();
    model.graph.as_mut().unwrap().initializer[1].dims = vec![2001];
    let file = dir.file("one.onnx", model.encode_to_vec());
    let against: [&dyn AsRef<Path>; 2] = [&"--against", &file];
    let asked: [&[&dyn AsRef<Path>]; 4] = [&[], &[&"--deep"], &against, &[&"--deep", &"--json"]];
    for options in asked {
        let args = [&"verify" as &dyn AsRef<Path>, &file];
        let failed = run_all(args.into_iter().chain(options.iter().copied()));
        assert_eq!(failed.exit, Exit::Bad, "{failed:?}");
        let why = "\"v\": it has 8000 bytes, but its type and shape require 8004";
        assert_eq!(failed.err.matches(why).count(), 1, "{}", failed.err);
    }
}

#[test]
fn all_forms_are_the_same_message() {
    let dir = Dir::new();
    let forms = forms(&dir);
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        assert_eq!(run([&"diff", &forms[a], &forms[b]]).exit, Exit::Done);
    }
    let mut other = model();
    other.graph.as_mut().unwrap().initializer[1] = tensor("v", noise(3, 8000));
    let other = dir.file("other.onnx", other.encode_to_vec());
    for file in &forms {
        let said = run([&"diff", file, &other]);
        assert_ne!(said.exit, Exit::Done);
        assert!(said.out.contains("raw_data"), "{}", said.out);
    }
}

#[test]
fn a_model_goes_from_each_form_to_each_other_and_has_the_same_bytes_in_each() {
    let dir = Dir::new();
    let [one, pair, chunks] = forms(&dir);
    for (at, file) in [&one, &pair, &chunks].into_iter().enumerate() {
        let to = |name: &str| dir.path(&format!("{at}/{name}"));
        fs::create_dir(dir.path(&at.to_string())).unwrap();
        for (name, form) in [
            ("auto.onnx", "auto"),
            ("one.onnx", "onnx"),
            ("pair.onnx", "external"),
        ] {
            let before: [&dyn AsRef<Path>; 6] =
                [&"convert", file, &"-o", &to(name), &"--to", &form];
            run_all(before).ok();
        }
        let same = |a: &Path, b: &Path| assert!(fs::read(a).unwrap() == fs::read(b).unwrap());
        same(&to("auto.onnx"), &one);
        same(&to("one.onnx"), &one);
        same(&to("pair.onnx"), &pair);
        same(&to("pair.onnx.data"), &dir.path("pair.onnx.data"));
        let split = to("split");
        if at < 2 {
            run([&"split", file, &"-o", &split, &"--max-chunk-size", &"8KiB"]).ok();
            let merged = to("merged.onnx");
            run([&"merge", &to("split.cpb"), &"-o", &merged]).ok();
            same(&merged, &one);
        }
    }
    // The data of two equal tensors is stored once.
    let stored = fs::metadata(dir.path("pair.onnx.data")).unwrap().len();
    assert_eq!(stored, 14_000);
}

#[test]
fn a_constant_has_the_name_of_its_output_in_every_form() {
    let dir = Dir::new();
    for (at, file) in forms(&dir).iter().enumerate() {
        let shown = file.display();
        let listed: Value = serde_json::from_str(&run([&"tensors", file, &"--json"]).ok()).unwrap();
        let names: Vec<&str> = listed["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tensor| tensor["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["c", "w", "v", "w2"], "{shown}");
        let out = dir.path(&format!("{at}.c"));
        let raw: [&dyn AsRef<Path>; 8] = [
            &"get",
            file,
            &"--tensor",
            &"c",
            &"--format",
            &"raw",
            &"-o",
            &out,
        ];
        run_all(raw).ok();
        assert_eq!(fs::read(&out).unwrap(), [0x81, 0x30, 0x10], "{shown}");
    }
}

#[test]
fn tensors_are_got_and_exported_by_name_from_each_form() {
    let dir = Dir::new();
    for (at, file) in forms(&dir).iter().enumerate() {
        let out = dir.path(&format!("{at}.raw"));
        run([
            &"get",
            file,
            &"--tensor",
            &"v",
            &"--format",
            &"raw",
            &"-o",
            &out,
        ])
        .ok();
        assert!(fs::read(&out).unwrap() == noise(2, 8000));
        for format in ["safetensors", "npz"] {
            let out = dir.path(&format!("{at}.{format}"));
            run([&"export", file, &"--format", &format, &"-o", &out]).ok();
            let exported = fs::read(&out).unwrap();
            let has = |bytes: &[u8]| exported.windows(bytes.len()).any(|part| part == bytes);
            assert!(has(&noise(2, 8000)), "{}", out.display());
        }
        // An element has six bits in the model, and a byte in NumPy.
        let npy = dir.path(&format!("{at}.npy"));
        // The tensor is selected by name or by path.
        let name = ["c", "c", "graph.node[0].attribute[0].t"][at];
        run([
            &"get",
            file,
            &"--tensor",
            &name,
            &"--format",
            &"npy",
            &"-o",
            &npy,
        ])
        .ok();
        assert!(fs::read(&npy).unwrap().ends_with(&[1, 2, 3, 4]));
    }
}

#[test]
fn external_data_is_written_as_the_settings_say() {
    let dir = Dir::new();
    let [one, pair, _] = forms(&dir);
    let shards = dir.path("shards.onnx");
    run([
        &"convert",
        &one,
        &"-o",
        &shards,
        &"--to",
        &"external",
        &"--max-file-size",
        &"8KiB",
        &"--set",
        &"min-size=6001",
    ])
    .ok();
    let data = fs::read(dir.path("shards.onnx.data")).unwrap();
    assert_eq!(data, noise(2, 8000));
    let two = dir.path("two.onnx");
    run([
        &"convert",
        &pair,
        &"-o",
        &two,
        &"--to",
        &"external",
        &"--max-file-size",
        &"8KiB",
    ])
    .ok();
    for (name, size) in [
        ("two-00001-of-00002.onnx.data", 6000),
        ("two-00002-of-00002.onnx.data", 8000),
    ] {
        assert_eq!(fs::metadata(dir.path(name)).unwrap().len(), size);
    }
    run([&"diff", &two, &one]).ok();

    for (set, why) in [
        ("min-size=x", "min-size must be a number of bytes"),
        ("everywhere=perhaps", "everywhere must be true or false"),
        ("nonsense=1", "there is no setting \"nonsense\""),
        ("alignment=3", "must be a power of two"),
    ] {
        let out = dir.path("new.onnx");
        let failed = run([
            &"convert",
            &one,
            &"-o",
            &out,
            &"--to",
            &"external",
            &"--set",
            &set,
        ]);
        assert_ne!(failed.exit, Exit::Done, "{set}");
        assert!(failed.err.contains(why), "{set}: {}", failed.err);
        assert!(!out.exists());
    }
}

#[test]
fn external_data_is_found_in_another_folder_or_left_where_it_is() {
    let dir = Dir::new();
    let [one, pair, _] = forms(&dir);
    fs::create_dir(dir.path("data")).unwrap();
    fs::rename(dir.path("pair.onnx.data"), dir.path("data/pair.onnx.data")).unwrap();
    let back = dir.path("back.onnx");
    let failed = run([&"convert", &pair, &"-o", &back, &"--to", &"onnx"]);
    assert_ne!(failed.exit, Exit::Done);
    assert!(failed.err.contains("pair.onnx.data"), "{}", failed.err);
    let set = format!("external-folder={}", dir.path("data").display());
    let args: [&dyn AsRef<Path>; 8] = [
        &"convert", &pair, &"-o", &back, &"--to", &"onnx", &"--set", &set,
    ];
    run_all(args).ok();
    assert!(fs::read(&back).unwrap() == fs::read(&one).unwrap());
    fs::rename(dir.path("data/pair.onnx.data"), dir.path("pair.onnx.data")).unwrap();
    let kept = dir.path("kept.onnx");
    run([
        &"convert",
        &pair,
        &"-o",
        &kept,
        &"--to",
        &"onnx",
        &"--set",
        &"keep-external=true",
    ])
    .ok();
    assert!(fs::read(&kept).unwrap() == fs::read(&pair).unwrap());
}

/// Verbs that change a message, each with its arguments.
const CHANGES: [(&str, &[&str]); 5] = [
    ("edit", &["--replace", "domain=d"]),
    ("insert", &["domain", "--value", "d"]),
    ("remove", &["graph.name"]),
    ("replace", &["graph.name", "--value", "d"]),
    ("strip", &["--over", "1MiB"]),
];

#[test]
fn a_changed_pair_stays_a_pair_unless_another_form_is_asked_for() {
    let dir = Dir::new();
    let mut model = model();
    model.domain = Some("before".into());
    let one = dir.file("one.onnx", model.encode_to_vec());
    let pair = dir.path("pair.onnx");
    run([&"convert", &one, &"-o", &pair, &"--to", &"external"]).ok();
    model.domain = None;
    let one_without = dir.file("without.onnx", model.encode_to_vec());
    let pair_without = dir.path("pair-without.onnx");
    let to_pair: [&dyn AsRef<Path>; 6] = [
        &"convert",
        &one_without,
        &"-o",
        &pair_without,
        &"--to",
        &"external",
    ];
    run_all(to_pair).ok();
    let [chunks, chunks_without] = [&one, &one_without].map(|model| {
        let chunks = model.with_extension("cpb");
        run([&"convert", model, &"-o", &chunks]).ok();
        chunks
    });
    for (command, arguments) in CHANGES {
        let (one, pair, chunks) = match command {
            "insert" => (&one_without, &pair_without, &chunks_without),
            _ => (&one, &pair, &chunks),
        };
        let change = |input: &Path, output: &str, more: &[&str]| {
            let mut args: Vec<PathBuf> = vec![command.into(), input.to_owned()];
            args.extend(arguments.iter().chain(more).map(PathBuf::from));
            args.extend(["-o".into(), dir.path(output)]);
            run_all(args.iter().map(|arg| arg as _)).ok();
            dir.path(output)
        };
        let expected = change(one, &format!("{command}.one.onnx"), &[]);
        let changed = change(pair, &format!("{command}.pair.onnx"), &[]);
        let data = dir.path(&format!("{command}.pair.onnx.data"));
        assert_eq!(fs::metadata(&data).unwrap().len(), 14_000, "{command}");
        assert!(fs::metadata(&changed).unwrap().len() < 1000, "{command}");
        run([&"diff", &changed, &expected]).ok();
        let whole = change(pair, &format!("{command}.whole.onnx"), &["--to", "onnx"]);
        let from_chunks = change(chunks, &format!("{command}.merged.onnx"), &["--to", "onnx"]);
        for made in [whole, from_chunks] {
            let is_same = fs::read(&made).unwrap() == fs::read(&expected).unwrap();
            assert!(is_same, "{command}: {}", made.display());
        }
    }
    let error = run([
        &"edit",
        &pair,
        &"--remove",
        &"domain",
        &"-o",
        &dir.path("x.cpb"),
        &"--to",
        &"onnx",
    ])
    .failed(Exit::Usage);
    assert!(error.contains("a .cpb is a file in chunks"), "{error}");
    // No form limits the size of its files, so the limit isn't dropped silently.
    for (command, arguments) in CHANGES {
        let mut args: Vec<PathBuf> = vec![command.into(), chunks.clone()];
        args.extend(arguments.iter().map(PathBuf::from));
        args.extend(["-o".into(), dir.path("limited.onnx")]);
        args.extend(["--to", "external", "--max-file-size", "1GiB"].map(PathBuf::from));
        let error = run_all(args.iter().map(|arg| arg as _)).failed(Exit::Usage);
        let expected = "--max-file-size: doesn't apply to the form external";
        assert_eq!(error, expected, "{command}");
    }
}

#[test]
fn a_pair_keeps_its_small_tensors_beside_it_when_the_large_ones_are_stripped() {
    let dir = Dir::new();
    let one = dir.file("one.onnx", model().encode_to_vec());
    let pair = dir.path("pair.onnx");
    run([&"convert", &one, &"-o", &pair, &"--to", &"external"]).ok();
    let strip = |input: &Path, output: &str| {
        let output = dir.path(output);
        run([&"strip", &input, &"--over", &"7000", &"-o", &output]).ok();
        output
    };
    let expected = strip(&one, "stripped-one.onnx");
    let stripped = strip(&pair, "stripped.onnx");
    let data = fs::metadata(dir.path("stripped.onnx.data")).unwrap();
    assert_eq!(data.len(), 6000);
    run([&"diff", &stripped, &expected]).ok();
}

#[test]
fn references_are_kept_only_where_they_lead_to_the_data() {
    let dir = Dir::new();
    let [_, pair, _] = forms(&dir);
    fs::create_dir(dir.path("elsewhere")).unwrap();
    for output in ["elsewhere/kept.onnx", "kept.cpb", "elsewhere/kept.cpb"] {
        let output = dir.path(output);
        let kept: [&dyn AsRef<Path>; 6] = [
            &"convert",
            &pair,
            &"-o",
            &output,
            &"--set",
            &"keep-external=true",
        ];
        let failed = run_all(kept);
        assert_ne!(failed.exit, Exit::Done, "{}", output.display());
        assert!(failed.err.contains("pair.onnx.data"), "{}", failed.err);
        assert!(!output.exists());
    }
}

#[test]
fn a_model_without_its_data_is_looked_at_and_what_needs_the_data_names_it() {
    let dir = Dir::new();
    let [_, pair, _] = forms(&dir);
    let data = dir.path("pair.onnx.data");
    fs::remove_file(&data).unwrap();
    for (command, arguments, expected) in [
        ("info", &[][..], "missing file"),
        ("tree", &[][..], "initializer"),
        ("ls", &[][..], ""),
        ("tensors", &[][..], "pair.onnx.data"),
        ("cat", &[][..], "external_data"),
        ("get", &["graph.name", "--format", "text"][..], "g"),
        (
            "get",
            &["--tensor", "c", "--format", "raw", "-o", "c"][..],
            "",
        ),
        ("strip", &["--tensors", "-o", "stripped.onnx"][..], ""),
    ] {
        let mut args: Vec<PathBuf> = vec![command.into(), pair.clone()];
        let is_output = |argument: &&str| ["c", "stripped.onnx"].contains(argument);
        for (at, argument) in arguments.iter().enumerate() {
            let named = at > 0 && arguments[at - 1] == "-o" && is_output(argument);
            args.push(if named {
                dir.path(argument)
            } else {
                argument.into()
            });
        }
        let ran = run_all(args.iter().map(|arg| arg as _));
        assert_eq!(ran.exit, Exit::Done, "{command}: {}", ran.err);
        assert!(ran.out.contains(expected), "{command}: {}", ran.out);
    }
    let tensor: &[&str] = &["--tensor", "w", "--format", "raw"];
    for (command, arguments, writes) in [
        ("get", tensor, true),
        ("get", &["."][..], true),
        ("split", &[][..], true),
        ("merge", &[][..], true),
        ("convert", &["--to", "onnx"][..], true),
        ("export", &["--format", "npz"][..], true),
        ("edit", &["--remove", "domain"][..], true),
        ("verify", &[][..], false),
    ] {
        let output = dir.path("out");
        let mut args: Vec<PathBuf> = vec![command.into(), pair.clone()];
        args.extend(arguments.iter().map(PathBuf::from));
        if writes {
            args.extend(["-o".into(), output.clone()]);
        }
        let ran = run_all(args.iter().map(|arg| arg as _));
        assert_ne!(ran.exit, Exit::Done, "{command}");
        assert!(ran.err.contains("pair.onnx.data"), "{command}: {}", ran.err);
        assert!(!output.exists(), "{command}");
    }
}

#[test]
fn an_empty_file_is_called_one_by_every_verb() {
    let dir = Dir::new();
    let empty = dir.file("empty.onnx", "");
    for command in [
        "info", "tree", "ls", "tensors", "cat", "verify", "split", "merge", "convert",
    ] {
        let mut args: Vec<PathBuf> = vec![command.into(), empty.clone()];
        if ["split", "merge", "convert"].contains(&command) {
            args.extend(["-o".into(), dir.path("out")]);
        }
        let ran = run_all(args.iter().map(|arg| arg as _));
        assert_ne!(ran.exit, Exit::Done, "{command}");
        assert!(
            ran.err.contains("the file is empty"),
            "{command}: {}",
            ran.err
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_comes_through_a_pipe() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    for arguments in [
        &["tensors", "-", "--message", "onnx.ModelProto"][..],
        &["tensors", "-"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
        command.args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        input.write_all(&model().encode_to_vec()).unwrap();
        drop(input);
        let done = running.wait_with_output().unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
        );
        assert!(done.status.success(), "{arguments:?}: {err}");
        assert!(out.contains("w2"), "{out}{err}");
    }
}

#[test]
fn a_difference_names_the_tensor_that_has_it_in_every_form() {
    let dir = Dir::new();
    let mut other = model();
    let graph = other.graph.as_mut().unwrap();
    graph.initializer[1].raw_data = Some(noise(3, 8000).into());
    let constant = graph.node[0].attribute[0].t.as_mut().unwrap();
    constant.raw_data = Some(vec![0x81, 0x30, 0x11].into());
    let other = dir.file("other.onnx", other.encode_to_vec());
    for file in forms(&dir) {
        let ran = run([&"diff", &file, &other]);
        assert_eq!(ran.exit, Exit::Bad, "{}", ran.err);
        for expected in [
            "graph.node[0].attribute[0].t.raw_data (c): ",
            "graph.initializer[1].raw_data (v): ",
        ] {
            assert!(
                ran.out.contains(expected),
                "{}: {}",
                file.display(),
                ran.out
            );
        }
    }
}
