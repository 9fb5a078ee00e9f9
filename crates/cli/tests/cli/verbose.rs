//! Tests for the log that `-v` and `-vv` print.

use std::process::Command;

use serde_json::Value;

use crate::support::{Dir, fixture};

/// A logged step: its verb, its number of bytes, and true if it is a stage rather than work on a
/// chunk.
#[derive(Debug)]
struct Told {
    is_stage: bool,
    verb: String,
    bytes: Option<u64>,
}

/// Runs the command, and returns the steps that it logs.
fn told(dir: &Dir, args: &str) -> Vec<Told> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    let command = command.args(args.split(' ')).current_dir(dir.path(""));
    let ran = command.output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{args}: {err}");
    err.lines().filter_map(step).collect()
}

/// Parses a line such as `protosplit: wrote 3 chunks, 2.0 KiB (2048 bytes), in 1.5ms`. Lines about
/// a single chunk are indented.
fn step(line: &str) -> Option<Told> {
    let said = line.strip_prefix("protosplit: ")?;
    let (said, _time) = said.rsplit_once(", in ")?;
    let (verb, _) = said.trim_start().split_once(' ')?;
    let bytes = said.rsplit_once('(').map(|(_, bytes)| bytes);
    let bytes = bytes.and_then(|bytes| bytes.strip_suffix(" bytes)"));
    Some(Told {
        is_stage: !said.starts_with(' '),
        verb: verb.to_owned(),
        bytes: bytes.map(|bytes| bytes.parse().unwrap()),
    })
}

/// Returns the numbers of bytes of all steps with the given verb, in ascending order.
fn bytes(told: &[Told], is_stage: bool, verb: &str) -> Vec<u64> {
    let steps = told
        .iter()
        .filter(|told| told.is_stage == is_stage && told.verb == verb);
    let mut bytes: Vec<u64> = steps.map(|told| told.bytes.unwrap()).collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn stages_are_told_with_their_bytes_and_with_vv_each_chunk() {
    let dir = Dir::new();
    dir.copy(
        &fixture("functions_consts").join("saved_model.pb"),
        "saved_model.pb",
    );
    let size = std::fs::metadata(dir.path("saved_model.pb")).unwrap().len();
    let split = |target: &str, how: &str| {
        let split = "split saved_model.pb --force --max-chunk-size 20KiB -vv -o";
        told(&dir, &format!("{split} {target} --compression {how}"))
    };
    let split = ["m", "-"].map(|target| ["none", "zstd:1"].map(|how| split(target, how)));

    let info = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(["info", "--json", "m"])
        .current_dir(dir.path(""))
        .output()
        .unwrap();
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let chunks = info["chunks"].as_array().unwrap().iter();
    let mut chunks: Vec<u64> = chunks.map(|c| c["size"].as_u64().unwrap()).collect();
    chunks.sort_unstable();
    let all = chunks.iter().sum::<u64>();

    for [plain, compressed] in split {
        for told in [&plain, &compressed] {
            assert_eq!(bytes(told, true, "planned"), [size]);
            assert_eq!(bytes(told, true, "wrote"), [all]);
            assert_eq!(bytes(told, false, "read"), chunks);
        }
        // Small consecutive chunks are written together, so only the total size is known.
        assert_eq!(bytes(&plain, false, "wrote").iter().sum::<u64>(), all);
        assert!(bytes(&plain, false, "compressed").is_empty());
        assert_eq!(bytes(&compressed, false, "compressed"), chunks);
    }

    for merge in ["merge m -o -", "merge m -o merged.pb --force"] {
        let told = told(&dir, &format!("{merge} -vv"));
        assert_eq!(bytes(&told, true, "planned"), [all], "{merge}");
        assert_eq!(bytes(&told, true, "wrote"), [size], "{merge}");
        assert_eq!(bytes(&told, false, "read"), chunks, "{merge}");
    }
    let verify = told(&dir, "verify m -vv");
    assert_eq!(bytes(&verify, true, "read"), [all]);

    for args in [
        "split saved_model.pb -o m --force --max-chunk-size 20KiB -v",
        "merge m -o - -v",
    ] {
        let told = told(&dir, args);
        assert!(!told.is_empty(), "{args}");
        assert!(told.iter().all(|told| told.is_stage), "{args}: {told:?}");
    }
}
