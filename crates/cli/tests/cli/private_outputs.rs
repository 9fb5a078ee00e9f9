//! Tests that outputs made from private files are private, too.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use proto_splitter::prost::Message;

use crate::support::{Dir, fixture};

/// Path of a list element in the model.
const NODE: &str = "meta_graphs[0].graph_def.node[1]";
const NODE_NAME: &str = "meta_graphs[0].graph_def.node[1].name";

/// Path of a list of strings in the model.
const TAGS: &str = "meta_graphs[0].meta_info_def.tags";

/// File with a private key for signing.
const P256: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/sign/p256.pem"
);

/// Arguments of every command that writes a new file from its input. Each command has a different
/// output.
const WRITING: &[&[&str]] = &[
    &["split", "model", "-o", "split", "--max-chunk-size", "20KiB"],
    &[
        "split",
        "graph.pb",
        "--message",
        "tensorflow.GraphDef",
        "-o",
        "graph2",
    ],
    &["split", "m.onnx", "-o", "m2", "--max-chunk-size", "10KiB"],
    &[
        "split",
        "paddle",
        "-o",
        "paddle2",
        "--max-chunk-size",
        "300B",
    ],
    &["sign", "model", "--key", P256, "-o", "sig"],
    &["merge", "small", "-o", "merge"],
    &["merge", "m.cpb", "-o", "m3.onnx"],
    &["merge", "pair/m.onnx", "-o", "m4.onnx"],
    &["verify", "small", "-o", "verify"],
    &["tree", "small", "-o", "tree"],
    &["tree", "small", "--html", "tree.html"],
    &["info", "small", "-o", "info"],
    &["ls", "small", "-o", "ls"],
    &["layout", "small", "-o", "layout"],
    &["tensors", "m.onnx", "-o", "tensors"],
    &["get", "small", NODE, "-o", "get"],
    &["get", "m.onnx", "graph.initializer[0]", "-o", "get.npy"],
    &["export", "m.onnx", "-o", "export.safetensors"],
    &["export", "m.cpb", "-o", "export.npz"],
    &[
        "pieces",
        "model",
        "--field",
        "meta_graphs[0].graph_def.node",
        "--count",
        "9",
        "-o",
        "pieces",
    ],
    &["convert", "model", "convert", "--to", "cpb"],
    &["convert", "small", "convert2", "--to", "pb"],
    &["convert", "m.onnx", "-o", "m5.onnx", "--to", "onnx"],
    &["convert", "m.cpb", "-o", "m6.onnx", "--to", "external"],
    &["convert", "m.onnx", "-o", "m7.cpb"],
    &["convert", "paddle", "-o", "paddle3.cpb"],
    &["convert", "paddle", "-o", "paddle4", "--to", "combined"],
    &["convert", "z.zip", "-o", "z.fb", "--to", "fb"],
    &[
        "convert",
        "graph.pb",
        "-o",
        "nodes.log",
        "--to",
        "delimited",
        "--set",
        "others=drop",
        "--set",
        "field=node",
        "--message",
        "tensorflow.GraphDef",
    ],
    &[
        "convert",
        "graph.pb",
        "-o",
        "nodes.records",
        "--to",
        "records",
        "--set",
        "others=drop",
        "--set",
        "field=node",
        "--message",
        "tensorflow.GraphDef",
    ],
    &[
        "externalize",
        "model",
        "-o",
        "externalize",
        "--min-size",
        "1KiB",
    ],
    &["internalize", "runs", "-o", "internalize"],
    &["fingerprint", "model", "-o", "fingerprint"],
    &["diff", "model", "small", "-o", "diff"],
    &[
        "recompress",
        "small",
        "--compression",
        "none",
        "-o",
        "recompress",
    ],
    &[
        "replace", "small", NODE_NAME, "--with", "name", "-o", "replace",
    ],
    &[
        "replace",
        "model/saved_model.pb",
        NODE_NAME,
        "--with",
        "name",
        "-o",
        "replace.pb",
    ],
    &["remove", "model", NODE, "-o", "remove"],
    &["insert", "model", TAGS, "--value", "gpu", "-o", "insert"],
    &["insert", "small", TAGS, "--value", "gpu", "-o", "i2.cpb"],
    &["strip", "model", "--tensors", "-o", "strip"],
    &["strip", "small", "--tensors", "-o", "strip2"],
    &["remove", "small", NODE, "-o", "remove2.cpb"],
    &["remove", "m.onnx", "graph.name", "-o", "remove3.cpb"],
    &["edit", "small", "--remove", NODE, "-o", "edit2.cpb"],
    &[
        "edit",
        "model/saved_model.pb",
        "--remove",
        NODE,
        "-o",
        "edit.pb",
    ],
    &["samediff", "add", "z.fb", "--tag", "x", "-o", "add.zip"],
    &["samediff", "gc", "z.zip", "-o", "gc.zip"],
    &[
        "samediff",
        "extract",
        "z.zip",
        "-o",
        "extract.safetensors",
        "--to",
        "safetensors",
    ],
];

/// Names of the commands that don't write a new file from their input. `append` only extends an
/// existing file, whose mode doesn't change.
const OTHERS: &[&str] = &["append", "cat", "completions", "help", "man", "schema"];

/// Runs the command with a umask that makes new files readable by everyone.
fn ran(dir: &Dir, args: &[&str]) -> std::process::Output {
    Command::new("sh")
        .args([
            "-c",
            "umask 022; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_protosplit"),
        ])
        .args(args)
        .current_dir(dir.path(""))
        .output()
        .unwrap()
}

/// Creates models in every format that only their owner can read.
fn prepared() -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path("model")).unwrap();
    let model = fixture("functions_consts").join("saved_model.pb");
    dir.copy(&model, "model/saved_model.pb");
    let graph = fixture("graphdef_dtypes").join("graph.pb");
    dir.copy(&graph, "graph.pb");
    dir.file("name", "another");
    dir.file("m.onnx", crate::onnx::model().encode_to_vec());
    fs::create_dir(dir.path("pair")).unwrap();
    fs::create_dir(dir.path("paddle")).unwrap();
    for name in ["model.pdmodel", "model.pdiparams"] {
        let file = fixture("../paddle").join("infer_fc").join(name);
        dir.copy(&file, &format!("paddle/{name}"));
    }
    fs::rename(crate::samediff::model(&dir), dir.path("z.zip")).unwrap();
    for args in [
        &["split", "model", "-o", "small", "--max-chunk-size", "20KiB"][..],
        &["split", "m.onnx", "-o", "m", "--max-chunk-size", "10KiB"],
        &["convert", "m.onnx", "-o", "pair/m.onnx", "--to", "external"],
        &["externalize", "model", "-o", "runs", "--min-size", "1KiB"],
    ] {
        let made = ran(&dir, args);
        assert!(made.status.success(), "{args:?}: {made:?}");
    }
    for file in dir.files() {
        fs::set_permissions(dir.path(&file), fs::Permissions::from_mode(0o600)).unwrap();
    }
    dir
}

/// Runs commands, and returns a line for each new file that others than its owner can read.
fn open_files(dir: &Dir, commands: &[&[&str]]) -> Vec<String> {
    let mut known: BTreeSet<String> = dir.files().into_iter().collect();
    let mut open = Vec::new();
    for args in commands {
        let ran = ran(dir, args);
        let now: BTreeSet<String> = dir.files().into_iter().collect();
        let new: Vec<&String> = now.difference(&known).collect();
        assert!(
            !new.is_empty(),
            "{args:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        for file in new {
            let mode = fs::metadata(dir.path(file)).unwrap().permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                open.push(format!("{}: {file} has the mode {mode:o}", args.join(" ")));
            }
        }
        known = now;
    }
    open
}

#[test]
fn no_command_makes_a_file_more_readable_than_what_it_is_made_from() {
    let open = open_files(&prepared(), WRITING);
    assert!(open.is_empty(), "{}", open.join("\n"));
}

#[test]
fn no_command_makes_a_new_value_more_readable_than_the_file_that_it_is_read_from() {
    let dir = prepared();
    for file in dir.files().iter().filter(|file| *file != "name") {
        fs::set_permissions(dir.path(file), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let inserted = format!("{TAGS}=name");
    let replaced = format!("{NODE_NAME}=name");
    let (pb, tags, name) = ("model/saved_model.pb", &*inserted, &*replaced);
    let commands: &[&[&str]] = &[
        &["insert", "small", TAGS, "--with", "name", "-o", "a.cpb"],
        &["insert", pb, TAGS, "--with", "name", "-o", "b.pb"],
        &["insert", "model", TAGS, "--with", "name", "-o", "c"],
        &["edit", "small", "--insert-with", tags, "-o", "d.cpb"],
        &["edit", pb, "--replace-with", name, "-o", "e.pb"],
        &["replace", pb, NODE_NAME, "--with", "name", "-o", "f.pb"],
        &[
            "replace", "small", NODE_NAME, "--with", "name", "-o", "g.cpb",
        ],
    ];
    let mut open = open_files(&dir, commands);
    // The other files of a folder are copied, and contain nothing of the value.
    open.retain(|line| !line.contains("c/fingerprint.pb"));
    assert!(open.is_empty(), "{}", open.join("\n"));
}

#[test]
fn an_output_is_as_private_as_each_of_the_shards_that_it_is_made_from() {
    let dir = Dir::new();
    let model = fixture("../samediff").join("model.sdnb");
    let [first, second] = ["m.shard0-of-2.sdnb", "m.shard1-of-2.sdnb"];
    for (shard, mode) in [(first, 0o644), (second, 0o600)] {
        dir.copy(&model, shard);
        fs::set_permissions(dir.path(shard), fs::Permissions::from_mode(mode)).unwrap();
    }
    let commands: &[&[&str]] = &[
        &["convert", first, "-o", "a.zip", "--to", "samediff"],
        &["samediff", "add", first, "--tag", "x", "-o", "b.zip"],
    ];
    let open = open_files(&dir, commands);
    assert!(open.is_empty(), "{}", open.join("\n"));
}

#[test]
fn an_output_made_from_an_externalized_model_is_as_private_as_each_of_its_files() {
    let args = [
        "externalize",
        "model",
        "-o",
        "runs",
        "--min-size",
        "1KiB",
        "--mmap",
    ];
    for args in [&args[..6], &args] {
        let dir = Dir::new();
        fs::create_dir(dir.path("model")).unwrap();
        let model = fixture("functions_consts").join("saved_model.pb");
        dir.copy(&model, "model/saved_model.pb");
        let made = ran(&dir, args);
        assert!(made.status.success(), "{made:?}");
        let files = dir.files().into_iter();
        for (at, file) in files.filter(|file| file.starts_with("runs/")).enumerate() {
            let set = |mode| {
                let mode = fs::Permissions::from_mode(mode);
                fs::set_permissions(dir.path(&file), mode).unwrap();
            };
            set(0o600);
            let out = at.to_string();
            let open = open_files(&dir, &[&["get", "runs", NODE, "-o", &*out]]);
            assert!(open.is_empty(), "{file}: {}", open.join("\n"));
            set(0o644);
        }
    }
}

#[test]
fn a_report_is_as_private_as_the_second_message_and_never_replaces_it() {
    let dir = prepared();
    fs::set_permissions(dir.path("m.cpb"), fs::Permissions::from_mode(0o644)).unwrap();
    let second = fs::read(dir.path("m.onnx")).unwrap();
    for args in [
        &["verify", "m.cpb", "--against", "m.onnx"][..],
        &["tree", "m.cpb", "--diff", "m.onnx"],
    ] {
        let written = ran(&dir, &[args, &["-o", args[0]]].concat());
        assert!(written.status.success(), "{args:?}: {written:?}");
        let mode = fs::metadata(dir.path(args[0]))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{args:?}: {mode:o}");
        let refused = ran(&dir, &[args, &["-o", "m.onnx", "--force"]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("refusing to overwrite the input"), "{said}");
        assert!(fs::read(dir.path("m.onnx")).unwrap() == second, "{args:?}");
    }
}

#[test]
fn a_report_on_a_signature_never_replaces_the_signature_or_the_key() {
    let dir = prepared();
    let signed = ["verify", "m.cpb", "--signature", "m.sig", "--key", "m.pub"];
    for name in ["m.sig", "m.pub"] {
        fs::write(dir.path(name), name).unwrap();
        let refused = ran(&dir, &[&signed[..], &["-o", name, "--force"]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("refusing to overwrite the input"), "{said}");
        assert_eq!(fs::read_to_string(dir.path(name)).unwrap(), name);
    }
}

/// Splits a model to `several.cpb` and other files. Returns the names of the other files.
fn split_in_files(dir: &Dir) -> Vec<String> {
    let split = [
        "split",
        "model/saved_model.pb",
        "-o",
        "several",
        "--profile",
        "extended",
        "--max-file-size",
        "8KiB",
        "--compression",
        "none",
    ];
    assert!(ran(dir, &split).status.success());
    let mut files = dir.files();
    files.retain(|file| file.starts_with("several.") && file != "several.cpb");
    files
}

#[test]
fn a_report_is_as_private_as_each_file_of_its_input_and_never_replaces_one() {
    let dir = prepared();
    let parts = split_in_files(&dir);
    fs::create_dir(dir.path("ckpt")).unwrap();
    for end in ["index", "data-00000-of-00001"] {
        let file = fixture("keras_mlp/variables/variables").with_extension(end);
        dir.copy(&file, &format!("ckpt/v.{end}"));
    }
    let files = dir.files();
    let mode = |file: &str| fs::metadata(dir.path(file)).unwrap().permissions().mode();
    for (input, other) in [
        ("pair/m.onnx", "pair/m.onnx.data"),
        ("ckpt/v", "ckpt/v.data-00000-of-00001"),
        ("several", &parts[0]),
    ] {
        for file in &files {
            let mode = if file == other { 0o600 } else { 0o644 };
            fs::set_permissions(dir.path(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        let content = fs::read(dir.path(other)).unwrap();
        for args in [
            &["verify", input][..],
            &["tree", input],
            &["info", input],
            &["ls", input],
            &["tensors", input],
            &["diff", input, input],
            &["layout", input],
        ] {
            if args[0] == "layout" && input != "several" {
                continue;
            }
            let written = ran(&dir, &[args, &["-o", "report"]].concat());
            assert!(written.status.success(), "{args:?}: {written:?}");
            assert_eq!(mode("report") & 0o077, 0, "{args:?}");
            fs::remove_file(dir.path("report")).unwrap();
            let refused = ran(&dir, &[args, &["-o", other, "--force"]].concat());
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains("refusing to overwrite the input"), "{said}");
            assert!(fs::read(dir.path(other)).unwrap() == content, "{args:?}");
        }
    }
}

#[test]
fn a_report_on_an_incomplete_message_never_replaces_a_file_with_its_chunks() {
    let dir = prepared();
    let parts = split_in_files(&dir);
    let [kept, damaged, ..] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let content = fs::read(dir.path(kept)).unwrap();
    dir.file(damaged, "damaged");
    for args in [&["layout", "several"][..], &["verify", "--json", "several"]] {
        let refused = ran(&dir, &[args, &["-o", kept.as_str(), "--force"]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("refusing to overwrite"), "{said}");
        assert!(fs::read(dir.path(kept)).unwrap() == content, "{args:?}");
    }
}

#[test]
fn every_command_is_among_those_that_write_or_those_that_do_not() {
    let dir = Dir::new();
    assert!(ran(&dir, &["man", "pages"]).status.success());
    let listed: BTreeSet<&str> = WRITING
        .iter()
        .map(|args| args[0])
        .chain(OTHERS.iter().copied())
        .collect();
    for page in dir.files() {
        let name = page
            .trim_start_matches("pages/protosplit")
            .trim_end_matches(".1");
        // The name of a nested subcommand's page begins with the name of its parent.
        let Some(command) = name
            .trim_start_matches('-')
            .split('-')
            .next()
            .filter(|name| !name.is_empty())
        else {
            continue;
        };
        assert!(
            listed.contains(command),
            "{command}: say in this file whether it writes"
        );
    }
}
