//! Every verb that writes, with its system calls failing or killing it, one after the other: a reader
//! finds the old or the new, and the status says which.
//!
//! `strace` injects the failures; where there is none, or it may not trace, nothing is tested here.
//! `PROTOSPLIT_FAULTS=1` takes every call of every kind, as `tests/faults/run.sh` does; without it,
//! each [`STRIDE`]th.

#![cfg(target_os = "linux")]
#![allow(
    clippy::print_stdout,
    reason = "the script that takes all calls counts the runs"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use proto_splitter::SavedModelDir;
use proto_splitter::merge::Merger;

use crate::support::{Dir, fixture};

/// One in so many calls is made to fail in the short form.
const STRIDE: usize = 97;

/// What is made to fail: whatever can change a file or a folder, or say that it did.
const CALLS: [&str; 22] = [
    "openat",
    "read",
    "pread64",
    "write",
    "pwrite64",
    "writev",
    "copy_file_range",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "fchmod",
    "flock",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "linkat",
    "unlink",
    "unlinkat",
    "getdents64",
];

/// What a reader finds where the verb writes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Message(Vec<u8>),
    /// What no reader is ever to find.
    Broken(String),
}

fn found(read: proto_splitter::Result<impl AsRef<[u8]>>) -> Found {
    match read {
        Ok(bytes) => Found::Message(bytes.as_ref().to_vec()),
        Err(error) => Found::Broken(error.to_string()),
    }
}

/// A verb, and what it replaces.
struct Scenario {
    name: &'static str,
    /// What is there before.
    prepare: fn(&Dir),
    args: &'static [&'static str],
    read: fn(&Dir) -> Found,
}

fn protosplit(dir: &Dir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command.args(args).current_dir(dir.path(""));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn ok(dir: &Dir, args: &[&str]) {
    assert!(
        protosplit(dir, args).status().unwrap().success(),
        "{args:?}"
    );
}

const SEVERAL: [&str; 10] = [
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

fn inputs(dir: &Dir) {
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

fn old_in_several(dir: &Dir) {
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

/// A file in several, which is read, and an older one, which is replaced.
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

fn old_folder(dir: &Dir) {
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

fn read_prefix(dir: &Dir) -> Found {
    message(&dir.path("m"))
}

fn read_merged(dir: &Dir) -> Found {
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

const SCENARIOS: [Scenario; 11] = [
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
];

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error(&'static str),
    Kill,
}

const FAULTS: [Fault; 3] = [Fault::Error("EIO"), Fault::Error("ENOSPC"), Fault::Kill];

/// Runs a verb with one of its calls going wrong: the `number`th (from 1) of that name, on whatever
/// thread.
fn run_with(scenario: &Scenario, dir: &Dir, call: &str, number: usize, fault: Fault) -> ExitStatus {
    let how = match fault {
        Fault::Error(name) => format!("error={name}"),
        Fault::Kill => "signal=KILL".to_owned(),
    };
    let inject = format!("inject={call}:{how}:when={number}");
    traced(scenario, dir, &["-e", &inject, "-o", "/dev/null"])
}

fn traced(scenario: &Scenario, dir: &Dir, options: &[&str]) -> ExitStatus {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(options);
    command
        .arg(env!("CARGO_BIN_EXE_protosplit"))
        .args(scenario.args);
    command.current_dir(dir.path(""));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().unwrap()
}

/// The calls that a verb makes without a fault, by kind and by number on their thread; but for
/// those before it begins, as the loader's, and what it says.
fn calls(scenario: &Scenario) -> Vec<(&'static str, usize)> {
    let dir = Dir::new();
    (scenario.prepare)(&dir);
    let log = dir.path("calls.log");
    let of = format!("trace={}", CALLS.join(","));
    let status = traced(scenario, &dir, &["-e", &of, "-o", log.to_str().unwrap()]);
    assert!(status.success(), "{}", scenario.name);
    let mut made = std::collections::BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        // `PID  CALL(ARGUMENTS) = RESULT`; a call that another thread's came in between of is resumed.
        let Some((thread, call)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let call = call.trim_start();
        let Some(name) = CALLS.iter().find(|name| {
            call.strip_prefix(**name)
                .is_some_and(|rest| rest.starts_with('('))
        }) else {
            continue;
        };
        let number: &mut usize = made.entry((thread.to_owned(), *name)).or_default();
        *number += 1;
        let is_said = ["write(1,", "write(2,"]
            .iter()
            .any(|start| call.starts_with(start));
        let is_loaded = call.contains("/etc/ld") || call.contains("/lib/");
        if !is_said && !is_loaded {
            found.insert((*name, *number));
        }
    }
    found.into_iter().collect()
}

fn can_trace() -> bool {
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .stderr(Stdio::null());
    let can = traced.status().is_ok_and(|status| status.success());
    if !can {
        println!("skipped: strace is not there, or may not trace");
    }
    can
}

fn stride() -> usize {
    std::env::var("PROTOSPLIT_FAULTS").map_or(STRIDE, |stride| stride.parse().unwrap())
}

fn temporary(dir: &Dir) -> Vec<String> {
    let mut left = dir.files();
    left.retain(|file| file.contains(".protosplit-"));
    left
}

#[test]
fn with_any_call_failing_the_status_says_whether_the_old_or_the_new_is_there() {
    if !can_trace() {
        return;
    }
    let (mut run, mut at) = (0, 0);
    for scenario in &SCENARIOS {
        let done = Dir::new();
        (scenario.prepare)(&done);
        let old = (scenario.read)(&done);
        ok(&done, scenario.args);
        let new = (scenario.read)(&done);
        let is_same = old == new;
        assert!(
            !is_same || scenario.name.contains("in place"),
            "{}",
            scenario.name
        );
        for (call, number) in calls(scenario) {
            for fault in FAULTS {
                at += 1;
                if at % stride() != 0 {
                    continue;
                }
                let dir = Dir::new();
                (scenario.prepare)(&dir);
                let before = dir.files();
                let status = run_with(scenario, &dir, call, number, fault);
                let found = (scenario.read)(&dir);
                let what = format!("{}: {call} {number} {fault:?}: {status}", scenario.name);
                if let Found::Broken(error) = &found {
                    panic!("{what}: {error}");
                }
                assert!(found == old || found == new, "{what}");
                if let (Some(code), false) = (status.code(), fault == Fault::Kill) {
                    assert!(
                        code != 0 || found == new,
                        "{what}: done, and the old is there"
                    );
                    assert!(
                        code == 0 || found == old,
                        "{what}: failed, and the new is there"
                    );
                    // What can't be removed stays, and so does what a crash could bring back.
                    let may_stay = ["unlink", "unlinkat", "getdents64", "openat"].contains(&call)
                        || (code == 0 && call == "fsync");
                    if !may_stay {
                        assert_eq!(temporary(&dir), [""; 0], "{what}");
                    }
                    if code != 0 && temporary(&dir).is_empty() && !is_same {
                        assert_eq!(dir.files(), before, "{what}");
                    }
                }
                run += 1;
            }
        }
    }
    println!("{run} runs, each left the old or the new");
    assert!(run > 20, "{run}");
}

#[test]
fn two_at_once_of_which_one_is_killed_leave_one_of_them_or_the_old() {
    if !can_trace() {
        return;
    }
    let split = |input: &'static str, force: bool| {
        let start = [
            &[
                "split",
                input,
                "--message",
                "tensorflow.SavedModel",
                "-o",
                "m",
            ][..],
            &SEVERAL,
        ]
        .concat();
        let force: &[&str] = if force { &["--force"] } else { &[] };
        [&start[..], force].concat()
    };
    let dir = Dir::new();
    old_in_several(&dir);
    let old = read_prefix(&dir);
    let new = Found::Message(fs::read(dir.path("b.pb")).unwrap());
    let (mut run, mut at) = (0, 0);
    for call in ["openat", "flock", "rename", "renameat2", "fsync", "unlink"] {
        for number in 1..=24 {
            at += 1;
            if at % stride().min(17) != 0 {
                continue;
            }
            for force in [false, true] {
                let dir = Dir::new();
                if force {
                    old_in_several(&dir);
                } else {
                    inputs(&dir);
                }
                let inject = format!("inject={call}:signal=KILL:when={number}");
                let mut killed = Command::new("strace");
                killed.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]);
                killed
                    .arg(env!("CARGO_BIN_EXE_protosplit"))
                    .args(split("b.pb", force));
                killed
                    .current_dir(dir.path(""))
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                let mut killed = killed.spawn().unwrap();
                let other = protosplit(&dir, &split("a.pb", force)).status().unwrap();
                let killed = killed.wait().unwrap();
                let found = read_prefix(&dir);
                let what = format!("{call} {number}, force {force}: {killed}, {other}");
                let one_is_done = killed.success() || other.success();
                let allowed = found == old
                    || found == new
                    || (found == Found::Nothing && !force && !one_is_done);
                assert!(allowed, "{what}");
                run += 1;
            }
        }
    }
    println!("{run} runs, each of two at once");
    assert!(run > 10, "{run}");
}
