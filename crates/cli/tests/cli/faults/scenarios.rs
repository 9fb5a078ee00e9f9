//! The scenarios for faults: a verb that writes, the files before it runs, and a reader for its
//! output.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proto_splitter::SavedModelDir;
use proto_splitter::merge::Merger;
use proto_splitter::prost::Message as _;

use crate::support::{Dir, fixture};

/// The output of a verb, as found by a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Message(Vec<u8>),
    /// State that no reader may ever find, with the reader's error.
    Broken(String),
}

fn found(read: proto_splitter::Result<impl AsRef<[u8]>>) -> Found {
    match read {
        Ok(bytes) => Found::Message(bytes.as_ref().to_vec()),
        Err(error) => Found::Broken(error.to_string()),
    }
}

/// A verb, the files before it runs, and a reader for its output.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Creates the files that exist before the verb runs.
    pub(super) prepare: fn(&Dir),
    pub(super) args: &'static [&'static str],
    pub(super) read: fn(&Dir) -> Found,
}

impl Scenario {
    /// Returns true if a failed run may leave this file behind. Only the chunks of a part of a
    /// split may be left: their names depend on their contents, readers need the part's report to
    /// use them, and another host that runs the same part may already use the same file.
    pub(super) fn may_leave(&self, file: &str) -> bool {
        self.name == PART_OF_A_SPLIT && file.starts_with("m.0") && file.ends_with(".cpb")
    }
}

const PART_OF_A_SPLIT: &str = "a part of a split";

pub(super) fn protosplit(dir: &Dir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.args(args).current_dir(dir.path(""));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

pub(super) fn ok(dir: &Dir, args: &[&str]) {
    assert!(
        protosplit(dir, args).status().unwrap().success(),
        "{args:?}"
    );
}

pub(super) const SEVERAL: [&str; 10] = [
    "--profile",
    "extended",
    "--max-file-size",
    "8KiB",
    "--max-chunk-size",
    "4KiB",
    "--compression",
    "none",
    "--threads",
    "1",
];

pub(super) fn inputs(dir: &Dir) {
    for (name, from) in [("a.pb", "lookup_strings"), ("b.pb", "keras_mlp")] {
        dir.copy(&fixture(from).join("saved_model.pb"), name);
    }
    dir.file("name", "another");
}

fn old_in_one(dir: &Dir) {
    inputs(dir);
    ok(
        dir,
        &[
            "split",
            "a.pb",
            "--message",
            "tensorflow.SavedModel",
            "-o",
            "m",
            "--max-chunk-size",
            "8KiB",
        ],
    );
}

pub(super) fn old_in_several(dir: &Dir) {
    inputs(dir);
    ok(
        dir,
        &[
            &[
                "split",
                "a.pb",
                "--message",
                "tensorflow.SavedModel",
                "-o",
                "m",
            ][..],
            &SEVERAL,
        ]
        .concat(),
    );
}

/// Creates an input in several files, and an older output in several files to overwrite.
fn read_and_old_in_several(dir: &Dir) {
    old_in_several(dir);
    ok(
        dir,
        &[
            &[
                "split",
                "b.pb",
                "--message",
                "tensorflow.SavedModel",
                "-o",
                "b",
            ][..],
            &SEVERAL,
        ]
        .concat(),
    );
}

fn old_merged(dir: &Dir) {
    old_in_one(dir);
    dir.copy(&dir.path("b.pb"), "out.pb");
}

fn folder(dir: &Dir, from: &str, to: &str) {
    fs::create_dir_all(dir.path(to)).unwrap();
    for name in ["saved_model.pb", "fingerprint.pb"] {
        dir.copy(&fixture(from).join(name), &format!("{to}/{name}"));
    }
}

pub(super) fn old_folder(dir: &Dir) {
    folder(dir, "keras_mlp", "from");
    folder(dir, "lookup_strings", "to");
}

fn folder_in_several(dir: &Dir) {
    inputs(dir);
    fs::create_dir(dir.path("from")).unwrap();
    ok(
        dir,
        &[
            &[
                "split",
                "b.pb",
                "--message",
                "tensorflow.SavedModel",
                "-o",
                "from/saved_model",
            ][..],
            &SEVERAL,
        ]
        .concat(),
    );
}

fn message(prefix: &Path) -> Found {
    let is_there = |extension| prefix.with_extension(extension).exists();
    if !is_there("cpb") && !is_there("pb") {
        return Found::Nothing;
    }
    found(Merger::new().merge_to_bytes(prefix))
}

pub(super) fn read_prefix(dir: &Dir) -> Found {
    message(&dir.path("m"))
}

pub(super) fn read_merged(dir: &Dir) -> Found {
    match fs::read(dir.path("out.pb")) {
        Ok(bytes) => Found::Message(bytes),
        Err(_) => Found::Nothing,
    }
}

fn read_folder_at(folder: &Path) -> Found {
    if !folder.is_dir() {
        return Found::Nothing;
    }
    let read = || {
        let to = tempfile::tempdir()?;
        let options = proto_splitter::SaveOptions::new().keep_fingerprint(true);
        SavedModelDir::open(folder)?.save(to.path(), &options)?;
        Ok(fs::read(to.path().join("saved_model.pb"))?)
    };
    found(read())
}

fn read_folder(dir: &Dir) -> Found {
    read_folder_at(&dir.path("to"))
}

fn read_source_folder(dir: &Dir) -> Found {
    read_folder_at(&dir.path("from"))
}

/// Creates two ONNX models.
pub(super) fn onnx_models(dir: &Dir) {
    dir.file("a.onnx", crate::onnx::model().encode_to_vec());
    let mut other = crate::onnx::model();
    other.domain = Some("other".into());
    dir.file("b.onnx", other.encode_to_vec());
}

fn old_onnx_in_several(dir: &Dir) {
    onnx_models(dir);
    let several = ["--to", "external", "--max-file-size", "8KiB"];
    ok(
        dir,
        &[&["convert", "a.onnx", "-o", "m.onnx"][..], &several].concat(),
    );
}

pub(super) fn read_onnx(dir: &Dir) -> Found {
    let model = dir.path("m.onnx");
    if !model.exists() {
        return Found::Nothing;
    }
    let opened = proto_splitter::formats::ALL.open(&model, &proto_splitter::OpenOptions::new());
    found(opened.and_then(|opened| opened.bytes()))
}

/// Plans work in two parts, and runs the second part.
fn plan_and_do_one(dir: &Dir, work: &[&str]) {
    let planned = ["--force", "--plan-only", "plan", "--parts", "2"];
    ok(dir, &[work, &planned].concat());
    ok(dir, &[work[0], "--plan", "plan", "--part", "1"]);
}

/// Plans a split in parts, and runs all parts except one. An older file has the name of the result.
fn one_part_is_left(dir: &Dir) {
    old_in_one(dir);
    let split = [
        "split",
        "b.pb",
        "--message",
        "tensorflow.SavedModel",
        "-o",
        "m",
    ];
    let small = ["--max-chunk-size", "4KiB", "--profile", "extended"];
    plan_and_do_one(dir, &[&split[..], &small].concat());
}

fn all_parts_are_done(dir: &Dir) {
    one_part_is_left(dir);
    ok(dir, &["split", "--plan", "plan", "--part", "0"]);
}

fn one_part_of_a_merge_is_left(dir: &Dir) {
    old_merged(dir);
    plan_and_do_one(dir, &["merge", "m.cpb", "-o", "out.pb"]);
}

fn all_parts_of_a_merge_are_done(dir: &Dir) {
    one_part_of_a_merge_is_left(dir);
    ok(dir, &["merge", "--plan", "plan", "--part", "0"]);
}

/// Commits the parts if the first part has a report, and reads the result.
fn read_committed(dir: &Dir, verb: &str, read: fn(&Dir) -> Found) -> Found {
    if !dir.path("plan.00000.report").exists() {
        return Found::Nothing;
    }
    let committed = protosplit(dir, &[verb, "--plan", "plan", "--commit"]).status();
    if committed.unwrap().success() {
        read(dir)
    } else {
        Found::Broken("a part with a report that can't be committed".into())
    }
}

fn read_part(dir: &Dir) -> Found {
    read_committed(dir, "split", read_prefix)
}

fn read_part_of_a_merge(dir: &Dir) -> Found {
    read_committed(dir, "merge", read_merged)
}

pub(super) const SCENARIOS: [Scenario; 22] = [
    Scenario {
        name: "split to several files where nothing is",
        prepare: inputs,
        args: &[
            "split",
            "b.pb",
            "--message",
            "tensorflow.SavedModel",
            "-o",
            "m",
            "--profile",
            "extended",
            "--max-file-size",
            "8KiB",
            "--max-chunk-size",
            "4KiB",
            "--compression",
            "none",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "split over one file",
        prepare: old_in_one,
        args: &[
            "split",
            "b.pb",
            "--message",
            "tensorflow.SavedModel",
            "-o",
            "m",
            "--max-chunk-size",
            "8KiB",
            "--force",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "split to several files over several",
        prepare: old_in_several,
        args: &[
            "split",
            "b.pb",
            "--message",
            "tensorflow.SavedModel",
            "-o",
            "m",
            "--profile",
            "extended",
            "--max-file-size",
            "8KiB",
            "--max-chunk-size",
            "4KiB",
            "--compression",
            "none",
            "--force",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "a message in one piece over one in several files",
        prepare: old_in_several,
        args: &[
            "split",
            "b.pb",
            "--message",
            "tensorflow.SavedModel",
            "-o",
            "m",
            "--force",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "merge over a file",
        prepare: old_merged,
        args: &[
            "merge",
            "m.cpb",
            "-o",
            "out.pb",
            "--force",
            "--threads",
            "1",
        ],
        read: read_merged,
    },
    Scenario {
        name: "get over a file",
        prepare: old_merged,
        args: &["get", "m.cpb", "meta_graphs[0]", "-o", "out.pb", "--force"],
        read: read_merged,
    },
    Scenario {
        name: "recompress to several files over several",
        prepare: read_and_old_in_several,
        args: &[
            "recompress",
            "b.cpb",
            "-o",
            "m.cpb",
            "--compression",
            "zstd",
            "--max-file-size",
            "6KiB",
            "--force",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "replace to several files over several",
        prepare: read_and_old_in_several,
        args: &[
            "replace",
            "b.cpb",
            "meta_graphs[0].graph_def.node[0].name",
            "--with",
            "name",
            "-o",
            "m.cpb",
            "--max-file-size",
            "64KiB",
            "--force",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "convert a folder over another",
        prepare: old_folder,
        args: &[
            "convert",
            "from",
            "to",
            "--to",
            "cpb",
            "--max-chunk-size",
            "8KiB",
            "--force",
            "--threads",
            "1",
        ],
        read: read_folder,
    },
    Scenario {
        name: "convert a folder with a model in several files",
        prepare: folder_in_several,
        args: &["convert", "from", "to", "--to", "cpb"],
        read: read_folder,
    },
    Scenario {
        name: "convert a folder in place",
        prepare: old_folder,
        args: &[
            "convert",
            "from",
            "--in-place",
            "--to",
            "cpb",
            "--max-chunk-size",
            "8KiB",
            "--threads",
            "1",
        ],
        read: read_source_folder,
    },
    Scenario {
        name: "remove to a file in chunks over one in several",
        prepare: read_and_old_in_several,
        args: &[
            "remove",
            "b.cpb",
            "meta_graphs[0].graph_def.node[0]",
            "-o",
            "m.cpb",
            "--max-chunk-size",
            "8KiB",
            "--force",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "insert to several files over several",
        prepare: read_and_old_in_several,
        args: &[
            "insert",
            "b.cpb",
            "meta_graphs[0].meta_info_def.tags[0]",
            "--value",
            "another",
            "-o",
            "m.cpb",
            "--max-chunk-size",
            "4KiB",
            "--max-file-size",
            "64KiB",
            "--force",
            "--threads",
            "1",
        ],
        read: read_prefix,
    },
    Scenario {
        name: "strip over a file",
        prepare: old_merged,
        args: &[
            "strip",
            "m.cpb",
            "--over",
            "16",
            "-o",
            "out.pb",
            "--force",
            "--threads",
            "1",
        ],
        read: read_merged,
    },
    Scenario {
        name: "edit over a file",
        prepare: old_merged,
        args: &[
            "edit",
            "m.cpb",
            "--remove",
            "meta_graphs[0].graph_def.node[1]",
            "--replace",
            "meta_graphs[0].graph_def.node[0].name=another",
            "-o",
            "out.pb",
            "--force",
            "--threads",
            "1",
        ],
        read: read_merged,
    },
    Scenario {
        name: "a merge that skips what is damaged over a file",
        prepare: old_merged,
        args: &[
            "merge",
            "m.cpb",
            "--skip-damaged",
            "-o",
            "out.pb",
            "--force",
            "--threads",
            "1",
        ],
        read: read_merged,
    },
    Scenario {
        name: PART_OF_A_SPLIT,
        prepare: one_part_is_left,
        args: &["split", "--plan", "plan", "--part", "0", "--threads", "1"],
        read: read_part,
    },
    Scenario {
        name: "the parts of a split are put together over one file",
        prepare: all_parts_are_done,
        args: &["split", "--plan", "plan", "--commit"],
        read: read_prefix,
    },
    Scenario {
        name: "a part of a merge",
        prepare: one_part_of_a_merge_is_left,
        args: &["merge", "--plan", "plan", "--part", "0", "--threads", "1"],
        read: read_part_of_a_merge,
    },
    Scenario {
        name: "the parts of a merge are put together over a file",
        prepare: all_parts_of_a_merge_are_done,
        args: &["merge", "--plan", "plan", "--commit"],
        read: read_merged,
    },
    Scenario {
        name: "an ONNX model with its tensors beside it where nothing is",
        prepare: onnx_models,
        args: &[
            "convert",
            "b.onnx",
            "-o",
            "m.onnx",
            "--to",
            "external",
            "--threads",
            "1",
        ],
        read: read_onnx,
    },
    Scenario {
        name: "an ONNX model with its tensors beside it over one in several files",
        prepare: old_onnx_in_several,
        args: &[
            "convert",
            "b.onnx",
            "-o",
            "m.onnx",
            "--to",
            "external",
            "--force",
            "--threads",
            "1",
        ],
        read: read_onnx,
    },
];
