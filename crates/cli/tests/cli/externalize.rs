//! Tests for moving constants out of SavedModels, and back.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run};

#[test]
fn what_would_move_is_said_and_nothing_is_written() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let report = run([
        &"externalize",
        &model,
        &"--dry-run",
        &"--min-size",
        &"64KiB",
        &"--json",
    ])
    .json();
    assert_eq!(report["moved"].as_array().unwrap().len(), 1);
    assert_eq!(report["moved"][0]["node"], "Const_1");
    assert_eq!(report["moved"][0]["function"], "__inference_f_325");
    assert_eq!(report["moved"][0]["shape"].to_string(), "[64,300]");
    assert_eq!(report["stored_bytes"], 76_800);
    assert!(report["output"].is_null());
    assert_eq!(fs::read_dir(dir.path("")).unwrap().count(), 0);
}

#[test]
fn a_model_goes_out_and_comes_back_byte_for_byte() {
    let dir = Dir::new();
    let (runs, again) = (dir.path("runs"), dir.path("again"));
    let model = fixture("functions_consts");
    let ran = run([&"externalize", &model, &"-o", &runs, &"--min-size", &"1KiB"]);
    ran.ok();
    run([&"internalize", &runs, &"-o", &again]).ok();
    let bytes = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(bytes(&again) == bytes(&model));
    assert!(bytes(&runs).len() < bytes(&model).len());
    // Externalizing an externalized folder is an error, and so is internalizing any other folder.
    let twice = dir.path("twice");
    run([&"externalize", &runs, &"-o", &twice]).failed(Exit::Usage);
    run([&"internalize", &model, &"-o", &twice]).failed(Exit::Usage);
    assert!(!twice.exists());
}

/// Creates a folder with a model called `model`, and its externalized form, called `runs`.
fn externalized() -> Dir {
    let dir = Dir::new();
    let (model, runs) = (fixture("functions_consts"), dir.path("runs"));
    run([&"externalize", &model, &"-o", &runs, &"--min-size", &"1KiB"]).ok();
    dir
}

const KERNEL: &str =
    "meta_graphs[0].graph_def.library.function[5].node_def[0].attr[\"value\"].tensor";

#[test]
fn an_externalized_model_is_shown_as_the_model_that_it_was() {
    let dir = externalized();
    let (model, runs) = (fixture("functions_consts"), dir.path("runs"));
    for command in [
        &["tensors"][..],
        &["tree", "--depth", "6", "--min-size", "0"],
        &["cat"],
        &["get", KERNEL, "--format", "text"],
        &["get", KERNEL, "--format", "npy", "-o", "-"],
        &[
            "get",
            "--tensor",
            "__inference_f_325/Const_1",
            "--format",
            "npy",
            "-o",
            "-",
        ],
    ] {
        let said = |of: &Path| {
            let mut args: Vec<&dyn AsRef<Path>> = vec![&command[0], &of];
            args.extend(command[1..].iter().map(|arg| arg as &dyn AsRef<Path>));
            process(&args)
        };
        let (was, is) = (said(&model), said(&runs));
        assert!(!was.is_empty(), "{command:?}");
        assert!(was == is, "{command:?}\n{}", String::from_utf8_lossy(&is));
    }
    let info = run([&"info", &runs, &"--json"]).json();
    assert_eq!(info["format"], "externalized");
    assert_eq!(info["message"], "tensorflow.SavedModel");
    let size = fs::metadata(model.join("saved_model.pb")).unwrap().len();
    assert_eq!(info["message_bytes"], size);
    // The model, the record of the original, and the two files of the bundle.
    assert_eq!(info["files"].as_array().unwrap().len(), 4);
    let listed = run([&"ls", &runs, &"--json"]).json();
    assert!(listed["entries"].as_array().unwrap().len() > 10);

    let diff = run([&"diff", &model, &runs, &"--json"]).json();
    assert_eq!(diff["result"], "identical");
    let other = fixture("keras_mlp");
    let different = run([&"diff", &other, &runs, &"--json"]);
    assert_eq!(different.exit, Exit::Bad);
}

/// Runs the command in a separate process, and returns the bytes that it prints.
fn process(args: &[&dyn AsRef<Path>]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.args(args.iter().map(|arg| arg.as_ref()));
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    ran.stdout
}

#[test]
fn a_damaged_constant_of_an_externalized_model_is_found() {
    let dir = externalized();
    let runs = dir.path("runs");
    let sound = run([&"verify", &runs, &"--json"]).json();
    assert_eq!(
        (&sound["ok"], &sound["checksums"]),
        (&true.into(), &true.into())
    );
    assert_eq!(sound["tensors"], 3);
    let data = runs.join("assets/proto_splitter_constants.data-00000-of-00001");
    let mut bytes = fs::read(&data).unwrap();
    bytes[1000] ^= 1;
    fs::write(&data, bytes).unwrap();
    let ran = run([&"verify", &runs, &"--json"]);
    assert_eq!(ran.exit, Exit::Bad, "{ran:?}");
    assert!(ran.err.contains("crc32c"), "{}", ran.err);
}

#[test]
fn a_checkpoint_is_known_by_its_prefix_and_by_any_of_its_files() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let sharded = fixture("../checkpoints/checkpoint");
    let prefix = model.join("variables/variables");
    let mut forms = vec![prefix.clone()];
    for suffix in [".index", ".data-00000-of-00001"] {
        forms.push(prefix.with_extension(&suffix[1..]));
    }
    let name = "v/.ATTRIBUTES/VARIABLE_VALUE";
    for form in &forms {
        let listed = run([&"tensors", form, &"--json"]).json();
        let tensors = listed["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), 2, "{form:?}");
        assert_eq!(
            (&tensors[1]["name"], &tensors[1]["bytes"]),
            (&name.into(), &1200.into())
        );
        let entries = run([&"ls", form, &"--json"]).json();
        assert_eq!(entries["entries"][1]["name"], name);
        let info = run([&"info", form, &"--json"]).json();
        assert_eq!(
            (&info["format"], &info["tensors"]),
            (&"checkpoint".into(), &2.into())
        );
        let tree = run([&"tree", form]).ok();
        assert!(tree.contains("VARIABLE_VALUE"), "{tree}");
        let checked = run([&"verify", form, &"--json"]).json();
        assert_eq!(
            (&checked["ok"], &checked["checksums"]),
            (&true.into(), &true.into())
        );
        let diff = run([&"diff", form, &prefix]);
        assert_eq!(diff.exit, Exit::Done, "{diff:?}");
        let npy = process(&[
            &"get",
            form,
            &"--tensor",
            &name,
            &"--format",
            &"npy",
            &"-o",
            &"-",
        ]);
        assert!(npy.starts_with(b"\x93NUMPY"));
        let data = fs::read(prefix.with_extension("data-00000-of-00001")).unwrap();
        assert!(npy.ends_with(&data[..1200]));
    }
    // The constants are in two data files, one of which will be damaged.
    let info = run([&"info", &sharded, &"--json"]).json();
    assert_eq!(info["files"].as_array().unwrap().len(), 3);
    run([&"verify", &sharded]).ok();
    let different = run([&"diff", &sharded, &prefix]);
    assert_eq!(different.exit, Exit::Bad, "{different:?}");
    for file in ["index", "data-00000-of-00002", "data-00001-of-00002"] {
        dir.copy(&sharded.with_extension(file), &format!("copy.{file}"));
    }
    let copy = dir.path("copy");
    run([&"verify", &copy]).ok();
    let data = dir.path("copy.data-00001-of-00002");
    let mut bytes = fs::read(&data).unwrap();
    bytes[0] ^= 1;
    fs::write(data, bytes).unwrap();
    run([&"verify", &copy]).failed(Exit::Bad);
}

#[cfg(target_os = "linux")]
#[test]
fn a_node_with_millions_of_fields_is_refused_in_little_memory() {
    use prost_reflect::prost::encoding::encode_varint;
    use proto_splitter_testkit::memory::watch;

    const FIELDS: usize = 4 << 20;
    /// Limit on anonymous memory, in bytes: 32 for each field.
    const MOST: u64 = 128 << 20;
    let dir = Dir::new();
    fs::create_dir(dir.path("model")).unwrap();
    // The node has many empty names, and then one that isn't UTF-8.
    let mut bytes = b"\x0a\x00".repeat(FIELDS);
    bytes.extend(b"\x0a\x01\xff");
    // The node is in a graph, which is in a meta graph of the model.
    for tag in [0x0a, 0x12, 0x12] {
        let mut message = vec![tag];
        encode_varint(bytes.len() as u64, &mut message);
        message.append(&mut bytes);
        bytes = message;
    }
    dir.file("model/saved_model.pb", bytes);
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.args(["externalize", "model", "--dry-run", "--min-size", "1KiB"]);
    command.current_dir(dir.path("")).stderr(Stdio::null());
    let (status, peak) = watch(&mut command).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(peak.anonymous > 0, "nothing was seen");
    assert!(peak.anonymous <= MOST, "{peak:?}");
}
