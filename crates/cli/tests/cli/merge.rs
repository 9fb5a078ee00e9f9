//! Tests for merging files with `protosplit merge`.

use std::fs;

use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, fixture, foreign, run};

fn manifest() -> Vec<(String, String, String)> {
    let entries: Vec<Value> =
        serde_json::from_slice(&fs::read(foreign("MANIFEST.json")).unwrap()).unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    entries
        .iter()
        .map(|e| (text(e, "file"), text(e, "message"), text(e, "source")))
        .collect()
}

#[test]
fn files_by_other_writers_merge_to_their_sources() {
    let dir = Dir::new();
    let back = dir.path("back.pb");
    let manifest = manifest();
    assert!(manifest.len() > 30);
    for (file, message, source) in manifest {
        run([
            &"merge",
            &foreign(&file),
            &"-o",
            &back,
            &"--message",
            &message,
            &"--force",
        ])
        .ok();
        let report = run([
            &"verify",
            &foreign(&file),
            &"--message",
            &message,
            &"--deep",
            &"--against",
            &fixture(&source),
            &"--json",
        ])
        .json();
        let result = report["against"]["result"].as_str().unwrap();
        assert!(matches!(result, "byte-exact" | "equal"), "{file}: {report}");
        let same = fs::read(&back).unwrap() == fs::read(fixture(&source)).unwrap();
        assert_eq!(same, result == "byte-exact", "{file}");
    }
}

#[test]
fn the_name_of_a_saved_model_tells_its_type() {
    let dir = Dir::new();
    let file = dir.copy(
        &foreign("functions_consts.const_slice.zstd.cpb"),
        "saved_model.cpb",
    );
    let report = run([&"merge", &file, &"-o", &dir.path("whole.pb"), &"--json"]).json();
    assert_eq!(report["message"], "tensorflow.SavedModel");
    run([
        &"merge",
        &dir.path("saved_model"),
        &"-o",
        &dir.path("again.pb"),
    ])
    .ok();
}

#[test]
fn a_type_is_asked_for_where_the_merge_depends_on_it() {
    let dir = Dir::new();
    let file = foreign("functions_consts.const_slice.zstd.cpb");
    let (back, plain) = (dir.path("back.pb"), dir.path("plain.pb"));
    let error = run([&"merge", &file, &"-o", &back]).failed(Exit::Usage);
    assert!(
        error.contains(r#"5["value"].8.4: "#) && error.contains("--message TYPE"),
        "{error}"
    );
    assert!(dir.files().is_empty());
    run([&"merge", &file, &"-o", &plain, &"--assume-plain"]).ok();
    run([
        &"merge",
        &file,
        &"-o",
        &back,
        &"--message",
        &"tensorflow.SavedModel",
    ])
    .ok();
    let report = run([
        &"verify",
        &plain,
        &"--message",
        &"tensorflow.SavedModel",
        &"--against",
        &back,
        &"--json",
    ])
    .json();
    assert_eq!(report["against"]["result"], "equal");
}

#[test]
fn a_type_that_contradicts_the_file_is_wrong_usage() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    dir.split(&file, "m", &["--max-chunk-size", "10KiB"]);
    let error = run([
        &"merge",
        &dir.path("m"),
        &"-o",
        &dir.path("b.pb"),
        &"--message",
        &"tensorflow.GraphDef",
    ])
    .failed(Exit::Usage);
    assert!(
        error.ends_with("holds tensorflow.SavedModel, not tensorflow.GraphDef"),
        "{error}"
    );
}

#[test]
fn a_message_that_was_not_split_is_copied() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    run([&"split", &file, &"-o", &dir.path("m")]).ok();
    let said = run([&"merge", &dir.path("m"), &"-o", &dir.path("back.pb")]).ok();
    assert!(
        said.ends_with("32.0 KiB: not split, so it was copied unchanged\n"),
        "{said}"
    );
    assert!(fs::read(dir.path("back.pb")).unwrap() == fs::read(file).unwrap());
}

#[test]
fn nothing_is_overwritten_but_by_force_and_never_the_input() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    dir.split(&file, "m", &["--max-chunk-size", "10KiB"]);
    let back = dir.file("back.pb", "stale");
    let error = run([&"merge", &dir.path("m"), &"-o", &back]).failed(Exit::Usage);
    assert!(
        error.contains("back.pb") && error.ends_with("(--force replaces it)"),
        "{error}"
    );
    assert_eq!(fs::read(&back).unwrap(), b"stale");
    run([&"merge", &dir.path("m"), &"-o", &back, &"--force"]).ok();
    run([
        &"merge",
        &dir.path("m"),
        &"-o",
        &dir.path("m.cpb"),
        &"--force",
    ])
    .failed(Exit::Usage);
    run([&"merge", &dir.path("m"), &"-o", &dir.path("again.pb")]).ok();
}

#[test]
fn a_damaged_file_gives_one_line_and_no_output() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    let whole = fs::read(dir.split(&file, "m", &["--max-chunk-size", "10KiB"])).unwrap();
    let damaged = |name: &str, bytes: &[u8]| {
        let file = dir.file(name, bytes);
        run([&"merge", &file, &"-o", &dir.path("back.pb")]).failed(Exit::Bad)
    };
    let mut flipped = whole.clone();
    flipped[5000] ^= 1;
    assert!(damaged("flipped.cpb", &flipped).contains("flipped.cpb: "));
    damaged("cut.cpb", &whole[..whole.len() - 10]);
    damaged("nothing.cpb", b"");
    damaged(
        "text.cpb",
        b"this is not a record file, but it is longer than a signature, which has 64 bytes",
    );
    assert!(!dir.path("back.pb").exists());
}

#[test]
fn an_input_that_is_not_there_is_said_with_what_was_looked_for() {
    let dir = Dir::new();
    let prefix = dir.path("m");
    let error = run([&"merge", &prefix, &"-o", &dir.path("back.pb")]).failed(Exit::Usage);
    let name = prefix.display();
    assert_eq!(
        error,
        format!("{name}: no such file, nor {name}.cpb, nor {name}.pb")
    );
}

#[test]
fn the_file_that_is_named_is_the_one_that_is_merged() {
    let dir = Dir::new();
    let whole = fixture("keras_mlp/saved_model.pb");
    let chunked = dir.split(&whole, "m", &["--max-chunk-size", "10KiB"]);
    let back = dir.path("back.pb");
    // `x.pb` is a message, but also the name of a chunked file without its extension.
    let named = dir.file("x.pb", b"\x0a\x01a");
    dir.copy(&chunked, "x.pb.cpb");
    run([&"merge", &named, &"-o", &back]).ok();
    assert_eq!(fs::read(&back).unwrap(), b"\x0a\x01a");
    // A chunked file has another extension, and may be next to a file with the same name and `.pb`.
    for beside in [false, true] {
        let named = dir.copy(&chunked, "g.chunks");
        if beside {
            dir.file("g.chunks.pb", b"\x0a\x01b");
        }
        run([&"merge", &named, &"-o", &back, &"--force"]).ok();
        assert!(fs::read(&back).unwrap() == fs::read(&whole).unwrap());
    }
}
