//! Tests that make each system call of every verb that writes fail, or kill the process there. After that, a reader must find the old or
//! the new state, and the exit status must indicate which.
//!
//! `strace` injects the failures. If it is missing, or isn't permitted to trace, nothing is tested. With `PROTOSPLIT_FAULTS=1`, as set by
//! `tests/faults/run.sh`, every call is tested; otherwise only every [`STRIDE`]th call is.

#![cfg(target_os = "linux")]
#![allow(
    clippy::print_stdout,
    reason = "the script that takes all calls counts the runs"
)]

mod full_disk;
mod killed;
mod scenarios;
mod short_calls;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitStatus, Stdio};

use crate::support::Dir;
use scenarios::{
    Found, SCENARIOS, SEVERAL, Scenario, inputs, ok, old_in_several, protosplit, read_prefix,
};

/// Interval between tested calls, unless `PROTOSPLIT_FAULTS` sets another.
const STRIDE: usize = 97;

/// System calls to test: those that read or change files or folders, or make changes durable.
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

/// A fault that is injected into a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error(&'static str),
    Kill,
}

const FAULTS: [Fault; 3] = [Fault::Error("EIO"), Fault::Error("ENOSPC"), Fault::Kill];

/// Runs a verb, and injects a fault into the `number`th call (counted from 1) of the given name on each thread.
fn run_with(scenario: &Scenario, dir: &Dir, call: &str, number: usize, fault: Fault) -> ExitStatus {
    let how = match fault {
        Fault::Error(name) => format!("error={name}"),
        Fault::Kill => "signal=KILL".to_owned(),
    };
    let inject = format!("inject={call}:{how}:when={number}");
    traced(scenario, dir, &["-e", &inject, "-o", "/dev/null"])
}

fn traced(scenario: &Scenario, dir: &Dir, options: &[&str]) -> ExitStatus {
    traced_command(scenario.args, dir, options)
}

fn traced_command(args: &[&str], dir: &Dir, options: &[&str]) -> ExitStatus {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(options);
    command.arg(env!("CARGO_BIN_EXE_protosplit")).args(args);
    command.current_dir(dir.path(""));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().unwrap()
}

/// Runs a verb without a fault, and returns its calls: their names, and their numbers on their thread. Calls by the loader and calls that
/// print are omitted.
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
        // A line has the form `PID  CALL(ARGUMENTS) = RESULT`. If another thread interrupts a call, the call's end is on a later line.
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

/// Returns the temporary files that are new. Earlier ones don't count, since the parts of a merge share one.
fn temporary(dir: &Dir, before: &[String]) -> Vec<String> {
    let mut left = dir.files();
    left.retain(|file| file.contains(".protosplit-") && !before.contains(file));
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
                    // A temporary file may stay if the fault prevents its removal. It may also stay after a failed `fsync`, since a crash
                    // could restore it.
                    let may_stay = ["unlink", "unlinkat", "getdents64", "openat"].contains(&call)
                        || (code == 0 && call == "fsync");
                    if !may_stay {
                        assert_eq!(temporary(&dir, &before), [""; 0], "{what}");
                    }
                    if code != 0 && temporary(&dir, &before).is_empty() && !is_same {
                        let mut files = dir.files();
                        files.retain(|file| before.contains(file) || !scenario.may_leave(file));
                        assert_eq!(files, before, "{what}");
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
