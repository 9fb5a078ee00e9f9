//! What `-v` and `-vv` tell of the work.

use std::process::Command;

use serde_json::Value;

use crate::support::{Dir, fixture};

/// A span that was closed: `DEBUG`, `plan` and what it carries.
type Told = (String, String, Vec<(String, u64)>);

/// Runs the command, and says what it told.
fn told(dir: &Dir, args: &str) -> Vec<Told> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    let command = command.args(args.split(' ')).current_dir(dir.path(""));
    let ran = command.output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{args}: {err}");
    err.lines().filter_map(span).collect()
}

/// `TIME LEVEL outer{..}:inner{name=number ..}: module: close ..`, of which the innermost span is
/// the one that ended.
fn span(line: &str) -> Option<Told> {
    let (front, _) = line.split_once(": close ")?;
    let (front, _module) = front.rsplit_once(": ")?;
    let level = front.split_whitespace().nth(1)?;
    let (spans, fields) = front.strip_suffix('}')?.rsplit_once('{')?;
    let name = spans.rsplit([' ', ':']).next()?;
    let numbers = fields.split(' ').filter_map(|field| {
        let (name, number) = field.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Some((level.to_owned(), name.to_owned(), numbers.collect()))
}

/// The bytes of the spans of one name, in ascending order.
fn bytes(told: &[Told], level: &str, name: &str) -> Vec<u64> {
    let spans = told.iter().filter(|told| told.0 == level && told.1 == name);
    let bytes = |told: &Told| told.2.iter().find(|field| field.0 == "bytes").unwrap().1;
    let mut bytes: Vec<u64> = spans.map(bytes).collect();
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
            assert_eq!(bytes(told, "DEBUG", "plan"), [size]);
            assert_eq!(bytes(told, "DEBUG", "write"), [all]);
            assert_eq!(bytes(told, "TRACE", "read"), chunks);
        }
        // Neighbours that are small are written to a file together.
        assert_eq!(bytes(&plain, "TRACE", "write").iter().sum::<u64>(), all);
        assert!(bytes(&plain, "TRACE", "compress").is_empty());
        assert_eq!(bytes(&compressed, "TRACE", "compress"), chunks);
    }

    for merge in ["merge m -o -", "merge m -o merged.pb --force"] {
        let told = told(&dir, &format!("{merge} -vv"));
        assert_eq!(bytes(&told, "DEBUG", "plan"), [all], "{merge}");
        assert_eq!(bytes(&told, "DEBUG", "write"), [size], "{merge}");
        assert_eq!(bytes(&told, "TRACE", "read"), chunks, "{merge}");
    }
    let verify = told(&dir, "verify m -vv");
    assert_eq!(bytes(&verify, "DEBUG", "read"), [all]);

    for args in [
        "split saved_model.pb -o m --force --max-chunk-size 20KiB -v",
        "merge m -o - -v",
    ] {
        let told = told(&dir, args);
        assert!(!told.is_empty(), "{args}");
        assert!(
            told.iter().all(|told| told.0 == "DEBUG"),
            "{args}: {told:?}"
        );
    }
}
