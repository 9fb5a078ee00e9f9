//! Runs that are killed, and the same command once more.

use std::fs;

use super::scenarios::{
    Found, SCENARIOS, SEVERAL, inputs, ok, protosplit, read_merged, read_prefix,
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
            // A complete output is in the way, as after a run that wasn't killed.
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

/// Prepares a merge to a new file, with all parts done.
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
