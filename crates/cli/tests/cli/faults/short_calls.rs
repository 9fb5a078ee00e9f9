//! Tests with system calls that do only part of their work, or are interrupted.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::scenarios::{Found, SCENARIOS, ok, protosplit};
use crate::support::Dir;

/// Number of random selections of calls to shorten, for each verb. `PROTOSPLIT_FAULTS` increases
/// it.
const SEEDS: u64 = 3;

/// Compiles a library that shortens system calls, and returns its path; `None` without a C
/// compiler.
fn library(dir: &Dir) -> Option<PathBuf> {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/cli/faults/short_calls.c"
    );
    let library = dir.path("short_calls.so");
    let mut build = Command::new("cc");
    build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    let built = build.args([source, "-ldl"]).status();
    match built {
        Ok(status) => {
            assert!(status.success(), "{source} doesn't compile");
            Some(library)
        }
        Err(_) => {
            println!("skipped: there is no C compiler");
            None
        }
    }
}

#[test]
fn calls_that_do_less_than_they_were_asked_for_change_nothing() {
    let tools = Dir::new();
    let Some(library) = library(&tools) else {
        return;
    };
    let seeds = match std::env::var_os("PROTOSPLIT_FAULTS") {
        Some(_) => SEEDS * 10,
        None => SEEDS,
    };
    let mut run = 0;
    for scenario in &SCENARIOS {
        let done = Dir::new();
        (scenario.prepare)(&done);
        ok(&done, scenario.args);
        let new = (scenario.read)(&done);
        assert!(matches!(new, Found::Message(_)), "{}", scenario.name);
        for seed in 0..seeds {
            let dir = Dir::new();
            (scenario.prepare)(&dir);
            let mut command = protosplit(&dir, scenario.args);
            command.env("LD_PRELOAD", &library);
            command.env("SHORT_CALLS", seed.to_string());
            let what = format!("{}, seed {seed}", scenario.name);
            let ran = command.stderr(Stdio::piped()).output().unwrap();
            assert!(ran.status.success(), "{what}: {ran:?}");
            assert!((scenario.read)(&dir) == new, "{what}");
            run += 1;
        }
    }
    println!("{run} runs, each with short calls");
}
