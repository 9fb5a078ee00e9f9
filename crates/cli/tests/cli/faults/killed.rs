//! Tests that kill the process of a command, and run the command again.

use std::fs;

use super::scenarios::{
    Found, SCENARIOS, SEVERAL, inputs, ok, old_folder, onnx_models, protosplit, read_merged,
    read_onnx, read_prefix,
};
use super::{Fault, can_trace, run_with, temporary, traced_command};
use crate::support::Dir;

#[test]
fn what_a_killed_run_left_is_removed_by_the_same_command() {
    if !can_trace() {
        return;
    }
    let mut left = 0;
    for scenario in &SCENARIOS {
        for call in ["fsync", "fdatasync"] {
            let dir = Dir::new();
            (scenario.prepare)(&dir);
            let before = dir.files();
            let status = run_with(scenario, &dir, call, 1, Fault::Kill);
            if status.success() || temporary(&dir, &before).is_empty() {
                continue;
            }
            left += 1;
            ok(&dir, scenario.args);
            assert_eq!(temporary(&dir, &before), [""; 0], "{}", scenario.name);
        }
    }
    assert!(left > 10, "{left} runs left something");
}

#[test]
fn a_split_to_several_files_that_is_killed_at_any_of_its_last_steps_is_done_by_the_same_command() {
    if !can_trace() {
        return;
    }
    let message = ["--message", "tensorflow.SavedModel"];
    let split = [&["split", "b.pb", "-o", "m"][..], &message, &SEVERAL].concat();
    let whole = Dir::new();
    inputs(&whole);
    ok(&whole, &split);
    let (mut killed, mut placed) = (0, 0);
    for call in ["rename", "renameat2", "linkat", "fsync", "unlink"] {
        for number in 1.. {
            let dir = Dir::new();
            inputs(&dir);
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let status = traced_command(&split, &dir, &["-e", &inject, "-o", "/dev/null"]);
            if status.success() {
                break;
            }
            killed += 1;
            let is_there = dir.path("m.cpb").exists();
            placed += usize::from(!is_there && dir.files().len() > 3);
            let again = protosplit(&dir, &split).status().unwrap();
            // The second run fails if the output was already complete, since it isn't overwritten.
            assert_eq!(again.success(), !is_there, "{call} {number}");
            let mut files = dir.files();
            if is_there {
                files.retain(|file| !file.contains(".protosplit-0"));
            }
            assert_eq!(files, whole.files(), "{call} {number}");
            let new = Found::Message(fs::read(dir.path("b.pb")).unwrap());
            assert!(read_prefix(&dir) == new, "{call} {number}");
        }
    }
    assert!(
        killed > 10 && placed > 3,
        "{killed} killed, {placed} left files"
    );
}

#[test]
fn the_folder_of_a_model_that_is_replaced_leaves_nothing_once_the_same_command_is_done() {
    if !can_trace() {
        return;
    }
    let convert = ["convert", "from", "to", "--to", "pb", "--force"];
    let whole = Dir::new();
    old_folder(&whole);
    ok(&whole, &convert);
    let (mut killed, mut left) = (0, 0);
    for call in ["rename", "renameat2", "rmdir", "unlinkat", "fsync"] {
        for number in 1.. {
            let dir = Dir::new();
            old_folder(&dir);
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let status = traced_command(&convert, &dir, &["-e", &inject, "-o", "/dev/null"]);
            if status.success() {
                break;
            }
            killed += 1;
            left += usize::from(dir.path("to").exists() && dir.files() != whole.files());
            ok(&dir, &convert);
            let names = |dir: &Dir| fs::read_dir(dir.path("")).unwrap().count();
            assert_eq!(
                names(&dir),
                names(&whole),
                "{call} {number}: {:?}",
                dir.files()
            );
            assert_eq!(dir.files(), whole.files(), "{call} {number}");
        }
    }
    assert!(killed > 8 && left > 4, "{killed} killed, {left} left files");
}

#[test]
fn data_of_an_onnx_model_replaced_by_a_run_that_was_killed_is_removed_by_the_same_command() {
    if !can_trace() {
        return;
    }
    let shards = ["--to", "safetensors", "--set", "shards=8KiB"];
    let external = ["--to", "external", "--max-file-size", "8KiB"];
    let convert = |input: &'static str, form: &[&'static str]| {
        [&["convert", input, "-o", "m.onnx", "--force"], form].concat()
    };
    for (old, new) in [
        (&external, &["--to", "external"][..]),
        (&shards, &["--to", "onnx"]),
        (&external, &shards),
    ] {
        let (old, new) = (convert("a.onnx", old), convert("b.onnx", new));
        let prepare = || {
            let dir = Dir::new();
            onnx_models(&dir);
            ok(&dir, &old);
            dir
        };
        let whole = prepare();
        let before = whole.files();
        ok(&whole, &new);
        let (mut killed, mut orphaned) = (0, 0);
        for call in ["rename", "renameat2", "linkat", "unlink", "fsync"] {
            for number in 1.. {
                let dir = prepare();
                let inject = format!("inject={call}:signal=KILL:when={number}");
                let status = traced_command(&new, &dir, &["-e", &inject, "-o", "/dev/null"]);
                if status.success() {
                    break;
                }
                killed += 1;
                let left = dir.files();
                let is_orphan =
                    |file: &String| left.contains(file) && !whole.files().contains(file);
                let is_new = read_onnx(&dir) == read_onnx(&whole);
                orphaned += usize::from(is_new && before.iter().any(is_orphan));
                ok(&dir, &new);
                let what = format!("{new:?}: {call} {number}");
                assert_eq!(dir.files(), whole.files(), "{what}");
                assert!(read_onnx(&dir) == read_onnx(&whole), "{what}");
            }
        }
        assert!(killed > 5 && orphaned > 2, "{new:?}: {killed}, {orphaned}");
    }
}

#[test]
fn files_replaced_by_a_commit_that_was_killed_are_removed_by_the_next() {
    if !can_trace() {
        return;
    }
    let prepare = || {
        let dir = Dir::new();
        inputs(&dir);
        let split = ["--message", "tensorflow.SavedModel", "-o", "m"];
        let old = [&["split", "a.pb"][..], &split, &SEVERAL].concat();
        ok(&dir, &old);
        let extended = ["--profile", "extended", "--max-chunk-size", "4KiB"];
        let planned = ["--force", "--plan-only", "plan", "--parts", "2"];
        let new = [&["split", "b.pb"][..], &split, &extended, &planned].concat();
        ok(&dir, &new);
        for part in ["0", "1"] {
            ok(&dir, &["split", "--plan", "plan", "--part", part]);
        }
        dir
    };
    let commit = ["split", "--plan", "plan", "--commit"];
    let whole = prepare();
    ok(&whole, &commit);
    let (mut killed, mut left) = (0, 0);
    for call in ["rename", "unlink", "fsync"] {
        for number in 1.. {
            let dir = prepare();
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let status = traced_command(&commit, &dir, &["-e", &inject, "-o", "/dev/null"]);
            if status.success() {
                break;
            }
            killed += 1;
            let placed = read_prefix(&dir) == read_prefix(&whole);
            left += usize::from(placed && dir.files() != whole.files());
            ok(&dir, &commit);
            assert!(read_prefix(&dir) == read_prefix(&whole), "{call} {number}");
            assert_eq!(dir.files(), whole.files(), "{call} {number}");
        }
    }
    assert!(killed > 3 && left > 2, "{killed} killed, {left} left files");
}

/// Prepares a merge in parts to a new file. All parts are done, but not committed.
fn merge_in_parts(dir: &Dir) {
    inputs(dir);
    let typed = [
        "--message",
        "tensorflow.SavedModel",
        "--max-chunk-size",
        "8KiB",
    ];
    ok(dir, &[&["split", "b.pb", "-o", "m"][..], &typed].concat());
    let planned = ["--plan-only", "plan", "--parts", "2"];
    ok(
        dir,
        &[&["merge", "m.cpb", "-o", "out.pb"][..], &planned].concat(),
    );
    for part in ["0", "1"] {
        ok(dir, &["merge", "--plan", "plan", "--part", part]);
    }
}

#[test]
fn a_commit_of_a_merge_that_is_killed_is_done_by_the_next() {
    if !can_trace() {
        return;
    }
    let commit = ["merge", "--plan", "plan", "--commit"];
    let (mut killed, mut placed) = (0, 0);
    for call in ["linkat", "fsync", "unlink"] {
        for number in 1..=3 {
            let dir = Dir::new();
            merge_in_parts(&dir);
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let status = traced_command(&commit, &dir, &["-e", &inject, "-o", "/dev/null"]);
            killed += usize::from(!status.success());
            placed += usize::from(!status.success() && dir.path("out.pb").exists());
            ok(&dir, &commit);
            let new = Found::Message(fs::read(dir.path("b.pb")).unwrap());
            assert!(read_merged(&dir) == new, "{call} {number}");
            assert_eq!(temporary(&dir, &[]), [""; 0], "{call} {number}");
        }
    }
    assert!(
        killed >= 3 && placed >= 1,
        "{killed} killed, {placed} in its place"
    );
}
