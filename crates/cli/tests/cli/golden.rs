//! Tests that compare printed text with stored files in this folder. `UPDATE_GOLDEN=1` rewrites the
//! files; review the difference before committing it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Dir, fixture, foreign, riegeli};

/// Runs the command in the folder `dir`, so that names in the output are reproducible, and compares
/// the output with a stored file.
#[track_caller]
fn expect(dir: &Dir, golden: &str, args: &[&str]) {
    let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(args)
        .current_dir(dir.path(""))
        .output()
        .unwrap();
    let mut seen = String::from_utf8(ran.stdout).unwrap();
    if !ran.stderr.is_empty() {
        seen.push_str("---- standard error\n");
        seen.push_str(&String::from_utf8(ran.stderr).unwrap());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/golden")
        .join(golden);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &seen).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, wanted, "{golden}; UPDATE_GOLDEN=1 accepts it");
}

#[test]
fn help_teaches() {
    let dir = Dir::new();
    expect(&dir, "help.txt", &["--help"]);
    expect(&dir, "no-command.txt", &[]);
    for command in [
        "split",
        "merge",
        "verify",
        "tree",
        "info",
        "ls",
        "layout",
        "cat",
        "schema",
        "get",
        "tensors",
        "export",
        "pieces",
        "convert",
        "externalize",
        "internalize",
        "fingerprint",
        "sign",
        "samediff",
        "diff",
        "recompress",
        "replace",
        "remove",
        "insert",
        "strip",
        "edit",
        "append",
        "completions",
        "man",
    ] {
        expect(&dir, &format!("help-{command}.txt"), &[command, "--help"]);
    }
}

#[test]
fn short_help_fits_on_a_screen() {
    let dir = Dir::new();
    expect(&dir, "short-help.txt", &["-h"]);
    for command in ["split", "tree"] {
        expect(&dir, &format!("short-help-{command}.txt"), &[command, "-h"]);
    }
    let commands = [
        "cat",
        "convert",
        "diff",
        "edit",
        "export",
        "externalize",
        "get",
        "info",
        "insert",
        "internalize",
        "layout",
        "ls",
        "merge",
        "pieces",
        "recompress",
        "remove",
        "replace",
        "samediff",
        "schema",
        "split",
        "strip",
        "tensors",
        "tree",
        "verify",
    ];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_protosplit"))
            .args([command, "-h"])
            .output()
            .unwrap();
        let lines = String::from_utf8(output.stdout).unwrap().lines().count();
        assert!((5..=40).contains(&lines), "{command} -h has {lines} lines");
    }
}

#[test]
fn results_read_well() {
    let dir = Dir::new();
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    dir.copy(&fixture("keras_mlp/saved_model.pb"), "other.pb");
    dir.copy(&foreign("functions_consts.nested.none.cpb"), "theirs.cpb");
    expect(
        &dir,
        "split-dry-run.txt",
        &[
            "split",
            "saved_model.pb",
            "--max-chunk-size",
            "20KiB",
            "--dry-run",
        ],
    );
    expect(
        &dir,
        "split.txt",
        &["split", "saved_model.pb", "--max-chunk-size", "20KiB"],
    );
    expect(
        &dir,
        "split-whole.txt",
        &["split", "saved_model.pb", "-o", "copy"],
    );
    expect(
        &dir,
        "split-exists.txt",
        &["split", "saved_model.pb", "--max-chunk-size", "20KiB"],
    );
    expect(&dir, "info.txt", &["info", "saved_model.cpb"]);
    expect(&dir, "info-theirs.txt", &["info", "theirs.cpb"]);
    expect(&dir, "ls.txt", &["ls", "saved_model.cpb"]);
    expect(&dir, "ls-plain.txt", &["ls", "saved_model.pb"]);
    expect(&dir, "ls-theirs.txt", &["ls", "theirs.cpb"]);
    expect(&dir, "layout.txt", &["layout", "saved_model.cpb"]);
    expect(&dir, "layout-plain.txt", &["layout", "saved_model.pb"]);
    dir.copy(&riegeli("ar_g60_transpose_zstd3.array_record"), "records");
    expect(&dir, "layout-records.txt", &["layout", "records"]);
    dir.copy(&riegeli("bad_flip_chunkheader_hash.riegeli"), "damaged");
    expect(&dir, "layout-damaged.txt", &["layout", "damaged"]);
    expect(
        &dir,
        "merge.txt",
        &["merge", "saved_model.cpb", "-o", "back.pb"],
    );
    expect(
        &dir,
        "verify.txt",
        &[
            "verify",
            "saved_model.cpb",
            "--deep",
            "--against",
            "saved_model.pb",
        ],
    );
    expect(
        &dir,
        "verify-different.txt",
        &["verify", "saved_model.cpb", "--against", "other.pb"],
    );
    expect(&dir, "verify-no-type.txt", &["verify", "theirs.cpb"]);
}

#[test]
fn parts_read_well() {
    let dir = Dir::new();
    let model = fixture("functions_consts/saved_model.pb");
    dir.copy(&model, "saved_model.pb");
    let node = "meta_graphs[0].graph_def.node[1]";
    expect(&dir, "cat.txt", &["cat", "saved_model.pb", node]);
    let json = ["cat", "saved_model.pb", node, "--format", "json"];
    expect(&dir, "cat.json", &json);
    expect(
        &dir,
        "cat-string.txt",
        &["cat", "saved_model.pb", &format!("{node}.name")],
    );
    expect(
        &dir,
        "cat-mistyped.txt",
        &["cat", "saved_model.pb", "meta_graph.graph_def"],
    );
    let versions = ["--message", "tensorflow.VersionDef"];
    dir.file("versions.pb", b"\x08\x2a");
    expect(
        &dir,
        "schema.txt",
        &[&["schema", "versions.pb"][..], &versions].concat(),
    );
    let json = ["schema", "versions.pb", "--json"];
    expect(&dir, "schema.json", &[&json[..], &versions].concat());
    expect(&dir, "schema-no-type.txt", &["schema", "versions.pb"]);
}

#[test]
fn changes_read_well() {
    let dir = Dir::new();
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    dir.copy(&fixture("keras_mlp/saved_model.pb"), "other.pb");
    dir.file("name", "another");
    let split = ["split", "saved_model.pb", "--max-chunk-size", "20KiB"];
    expect(&dir, "split.txt", &split);
    let diff = ["diff", "saved_model.pb", "saved_model.cpb"];
    expect(&dir, "diff-identical.txt", &diff);
    let node = "meta_graphs[0].graph_def.node[1].name";
    let replace = ["replace", "saved_model.cpb", node, "--with", "name"];
    expect(
        &dir,
        "replace.txt",
        &[&replace[..], &["-o", "new.cpb"]].concat(),
    );
    let json = [&replace[..], &["-o", "newer.cpb", "--json"]].concat();
    expect(&dir, "replace.json", &json);
    expect(&dir, "diff.txt", &["diff", "saved_model.cpb", "new.cpb"]);
    let typed = ["--message", "tensorflow.SavedModel"];
    let others = [&["diff", "saved_model.pb", "other.pb"][..], &typed].concat();
    expect(
        &dir,
        "diff-many.txt",
        &[&others[..], &["--limit", "4"]].concat(),
    );
    expect(
        &dir,
        "diff.json",
        &[&others[..], &["--limit", "2", "--json"]].concat(),
    );
    dir.copy(&fixture("graphdef_dtypes/graph.pb"), "graph.pb");
    dir.copy(&fixture("graphdef_frozen_cnn/graph.pb"), "cnn.pb");
    expect(
        &dir,
        "diff-no-type.txt",
        &["diff", "graph.pb", "cnn.pb", "--limit", "3"],
    );
    let recompress = ["recompress", "saved_model.cpb", "--compression", "brotli"];
    expect(
        &dir,
        "recompress.txt",
        &[&recompress[..], &["-o", "b.cpb"]].concat(),
    );
    let json = [&recompress[..], &["-o", "c.cpb", "--json"]].concat();
    expect(&dir, "recompress.json", &json);
}

#[test]
fn fingerprints_read_well() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("model")).unwrap();
    for name in ["saved_model.pb", "fingerprint.pb"] {
        let to = format!("model/{name}");
        dir.copy(&fixture("keras_mlp").join(name), &to);
    }
    let model = "model/";
    expect(&dir, "fingerprint-differs.txt", &["fingerprint", model]);
    expect(&dir, "fingerprint.json", &["fingerprint", model, "--json"]);
    let convert = ["convert", model, "--to", "cpb", "--max-chunk-size", "10KiB"];
    expect(&dir, "convert.txt", &[&convert[..], &["small"]].concat());
    expect(&dir, "fingerprint.txt", &["fingerprint", "small"]);
    let back = ["convert", "small", "--in-place", "--json"];
    expect(&dir, "convert.json", &back);
    expect(&dir, "convert-again.txt", &back[..3]);
}

#[test]
fn json_keeps_its_keys() {
    let dir = Dir::new();
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let split = [
        "split",
        "saved_model.pb",
        "-o",
        "m",
        "--max-chunk-size",
        "20KiB",
        "--json",
    ];
    expect(
        &dir,
        "split-dry-run.json",
        &[&split[..], &["--dry-run"]].concat(),
    );
    expect(&dir, "split.json", &split);
    expect(&dir, "info.json", &["info", "m", "--json"]);
    expect(&dir, "ls.json", &["ls", "m", "--json"]);
    expect(&dir, "layout.json", &["layout", "m", "--json"]);
    expect(
        &dir,
        "merge.json",
        &["merge", "m", "-o", "back.pb", "--json"],
    );
    let verify = [
        "verify",
        "m",
        "--deep",
        "--against",
        "saved_model.pb",
        "--json",
    ];
    expect(&dir, "verify.json", &verify);
}

#[test]
fn trees_read_well() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("model")).unwrap();
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "model/saved_model.pb",
    );
    dir.copy(&fixture("keras_mlp/saved_model.pb"), "old.pb");
    dir.copy(&fixture("graphdef_frozen_cnn/graph.pb"), "graph.pb");
    let split = [
        "split",
        "model/",
        "-o",
        "small",
        "--max-chunk-size",
        "20KiB",
    ];
    let ran = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(split)
        .current_dir(dir.path(""))
        .output();
    assert!(ran.unwrap().status.success());
    expect(&dir, "tree.txt", &["tree", "model/"]);
    expect(
        &dir,
        "tree-chunked.txt",
        &["tree", "small/", "--depth", "4"],
    );
    let nodes = [
        "tree",
        "graph.pb",
        "node[*]",
        "--message",
        "tensorflow.GraphDef",
    ];
    expect(&dir, "tree-nodes.txt", &nodes);
    let top = [
        &nodes[..],
        &["--top", "3", "--min-size", "0", "--sort", "name"],
    ]
    .concat();
    expect(&dir, "tree-top.txt", &top);
    expect(
        &dir,
        "tree-no-type.txt",
        &["tree", "graph.pb", "--depth", "3"],
    );
    let json = ["--json", "--depth", "5", "--top", "2"];
    expect(
        &dir,
        "tree.json",
        &[&["tree", "model/"], &json[..]].concat(),
    );
    expect(
        &dir,
        "tree-chunked.json",
        &[&["tree", "small/"], &json[..]].concat(),
    );
    let old = ["--diff", "old.pb", "--message", "tensorflow.SavedModel"];
    let diff = [&["tree", "small/"], &old[..]].concat();
    expect(&dir, "tree-diff.txt", &diff);
    expect(&dir, "tree-diff.json", &[&diff[..], &json[..3]].concat());
    expect(&dir, "tree-mistyped.txt", &["tree", "model/", "graph_def"]);
}

#[test]
fn extensions_are_called_by_their_names() {
    let dir = Dir::new();
    let schema = "syntax = \"proto2\";
        package shop;
        message Order { optional string id = 1; extensions 100 to 200; }
        message Note { optional string text = 1; }
        extend Order { optional int32 rank = 100; optional Note note = 101; repeated string tag = 102; }";
    dir.file("shop.proto", schema);
    dir.file(
        "order.pb",
        b"\x0a\x01a\xa0\x06\x07\xaa\x06\x04\x0a\x02hi\xb2\x06\x01x\xb2\x06\x01y",
    );
    dir.file(
        "other.pb",
        b"\x0a\x01a\xa0\x06\x08\xaa\x06\x04\x0a\x02ho\xb2\x06\x01x",
    );
    let typed = ["--proto", "shop.proto", "--message", "shop.Order"];
    for (golden, args) in [
        ("extensions-cat.txt", &["cat", "order.pb"][..]),
        (
            "extensions-cat.json",
            &["cat", "order.pb", "--format", "json"],
        ),
        ("extensions-number.txt", &["cat", "order.pb", "(shop.rank)"]),
        (
            "extensions-element.json",
            &["cat", "order.pb", "(shop.tag)[1]", "--format", "json"],
        ),
        (
            "extensions-message.txt",
            &["cat", "order.pb", "(shop.note)"],
        ),
        ("extensions-deep.txt", &["verify", "order.pb", "--deep"]),
        (
            "extensions-tree.txt",
            &["tree", "order.pb", "--min-size", "0"],
        ),
        ("extensions-diff.txt", &["diff", "order.pb", "other.pb"]),
    ] {
        expect(&dir, golden, &[args, &typed].concat());
    }
}

#[test]
fn every_command_has_a_golden_output_of_what_tensorflow_wrote() {
    let dir = Dir::new();
    for folder in ["model", "other"] {
        std::fs::create_dir(dir.path(folder)).unwrap();
    }
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "model/saved_model.pb",
    );
    dir.copy(&fixture("keras_mlp/saved_model.pb"), "other/saved_model.pb");
    dir.copy(&fixture("graphdef_dtypes/graph.pb"), "graph.pb");
    dir.copy(&fixture("graphdef_frozen_cnn/graph.pb"), "cnn.pb");
    dir.copy(&foreign("functions_consts.nested.none.cpb"), "theirs.cpb");
    let node = "meta_graphs[0].graph_def.node[1]";
    let model = ["--message", "tensorflow.SavedModel"];
    let graph = ["--message", "tensorflow.GraphDef"];
    for (golden, args, typed) in [
        (
            "theirs-tree.txt",
            &["tree", "theirs.cpb", "--depth", "4"][..],
            &model[..],
        ),
        ("theirs-cat.txt", &["cat", "theirs.cpb", node], &model),
        (
            "theirs-get.json",
            &["get", "theirs.cpb", node, "--format", "json"],
            &model,
        ),
        (
            "theirs-verify.json",
            &["verify", "theirs.cpb", "--deep", "--json"],
            &model,
        ),
        ("theirs-layout.txt", &["layout", "theirs.cpb"], &[]),
        ("theirs-ls.json", &["ls", "theirs.cpb", "--json"], &model),
        ("theirs-diff.txt", &["diff", "theirs.cpb", "model"], &model),
        (
            "theirs-merge.json",
            &["merge", "theirs.cpb", "-o", "theirs.pb", "--json"],
            &model,
        ),
        (
            "graph-tree.json",
            &["tree", "graph.pb", "--depth", "2", "--top", "2", "--json"],
            &graph,
        ),
        ("graph-cat.txt", &["cat", "graph.pb", "node[0]"], &graph),
        (
            "graph-get.json",
            &[
                "get",
                "graph.pb",
                "node[0].attr[\"dtype\"]",
                "--format",
                "json",
            ],
            &graph,
        ),
        (
            "graph-diff.json",
            &["diff", "graph.pb", "cnn.pb", "--limit", "3", "--json"],
            &graph,
        ),
        ("graph-info.txt", &["info", "graph.pb"], &graph),
        (
            "graph-split.json",
            &[
                "split",
                "graph.pb",
                "--max-chunk-size",
                "1KiB",
                "--dry-run",
                "--json",
            ],
            &graph,
        ),
        ("model-info.txt", &["info", "model"], &[]),
        ("model-ls.txt", &["ls", "model"], &[]),
        ("model-layout.json", &["layout", "model", "--json"], &[]),
        ("model-verify.txt", &["verify", "model", "--deep"], &[]),
        (
            "model-diff.txt",
            &["diff", "model", "other", "--limit", "2"],
            &[],
        ),
        ("model-fingerprint.txt", &["fingerprint", "model"], &[]),
        (
            "layout-blocks.txt",
            &["layout", "theirs.cpb", "--blocks"],
            &[],
        ),
    ] {
        expect(&dir, golden, &[args, typed].concat());
    }
    let files = [
        "split",
        "model/saved_model.pb",
        "-o",
        "m",
        "--profile",
        "extended",
    ];
    let files = [
        &files[..],
        &["--max-file-size", "64KiB", "--compression", "none"],
    ]
    .concat();
    for (golden, args) in [
        ("files-split.txt", &files[..]),
        ("files-info.txt", &["info", "m"]),
        ("files-ls.txt", &["ls", "m"]),
        ("files-layout.txt", &["layout", "m"]),
        (
            "files-recompress.txt",
            &["recompress", "m", "--compression", "none", "-o", "one.cpb"],
        ),
    ] {
        expect(&dir, golden, args);
    }
}
