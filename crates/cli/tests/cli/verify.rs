//! Tests for `protosplit verify`.

use std::fs;
use std::path::PathBuf;

use proto_splitter::ops::{VerifyOptions, verify};
use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::{ErrorKind, OpenOptions, Opened, formats};
use protosplit_cli::Exit;
use serde_json::Value;

use crate::support::{Dir, fixture, foreign, run};

fn split(dir: &Dir, name: &str) -> PathBuf {
    let file = fixture(name).join("saved_model.pb");
    let options = ["--max-chunk-size", "10KiB", "--compression", "zstd"];
    dir.split(&file, name, &options)
}

#[test]
fn a_sound_file_is_ok() {
    let dir = Dir::new();
    let file = split(&dir, "keras_mlp");
    let report = run([&"verify", &file, &"--deep", &"--json"]).json();
    assert_eq!(report["ok"], true);
    assert_eq!(report["byte_exact"], true);
    assert_eq!(report["merged_bytes"], 32775);
    assert!(report["deep"]["messages"].as_u64().unwrap() > 100);
    assert_eq!(report["deep"]["unknown_fields"], 0);
    assert!(
        run([&"verify", &dir.path("keras_mlp")])
            .ok()
            .ends_with("result   ok\n")
    );
}

#[test]
fn a_cancelled_verification_is_an_error_instead_of_a_problem_in_the_data() {
    let dir = Dir::new();
    let token = CancelToken::new();
    token.cancel();
    let progress = Progress::none().cancelled_by(&token);
    let message = |file: PathBuf| Opened::of_file(&file, None, &OpenOptions::new()).unwrap();
    let checkpoint = fixture("keras_mlp/variables/variables");
    for opened in [
        message(split(&dir, "keras_mlp")),
        message(fixture("keras_mlp/saved_model.pb")),
        formats::ALL.open(&checkpoint, &OpenOptions::new()).unwrap(),
    ] {
        let options = VerifyOptions::new().progress(progress.clone());
        let error = verify(&opened, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let dir = Dir::new();
    let whole = fs::read(split(&dir, "tf1_two_metagraphs")).unwrap();
    for at in (0..whole.len()).step_by(17) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let file = dir.file("damaged.cpb", damaged);
        let ran = run([&"verify", &file, &"--json"]);
        assert_eq!(ran.exit, Exit::Bad, "byte {at}: {ran:?}");
        assert!(ran.err.starts_with("protosplit: "), "byte {at}");
    }
}

#[test]
fn what_is_found_does_not_depend_on_the_threads() {
    let dir = Dir::new();
    let whole = fs::read(split(&dir, "functions_consts")).unwrap();
    let mut most_problems = 0;
    for step in [
        whole.len(),
        whole.len() / 2,
        whole.len() / 7,
        whole.len() / 60,
    ] {
        let mut damaged = whole.clone();
        // No bits are flipped in the signature and the trailer.
        let last = whole.len() - whole.len() / 8;
        (100..last)
            .skip(step)
            .step_by(step)
            .for_each(|at| damaged[at] ^= 4);
        let file = dir.file("damaged.cpb", damaged);
        for format in ["--json", "--deep"] {
            let [one, two, many] = ["1", "2", "9"].map(|threads| {
                let ran = run([&"verify", &file, &format, &"--threads", &threads]);
                (ran.exit, ran.out, ran.err)
            });
            most_problems = most_problems.max(one.2.lines().count());
            assert_eq!(one, two, "a byte in {step}");
            assert_eq!(one, many, "a byte in {step}");
        }
    }
    assert!(most_problems > 2, "{most_problems}");
}

#[test]
fn a_merge_can_be_equal_as_a_message_without_being_byte_exact() {
    let dir = Dir::new();
    // The lengths of the tensor and of its contents are encoded with more bytes than necessary.
    let value = [&[0x42, 0x8b, 0x00, 0x22, 0x88, 0x00][..], b"contents"].concat();
    let original = dir.file("graph.pb", &value);
    let written = run([
        &"split",
        &original,
        &"--message",
        &"tensorflow.AttrValue",
        &"-o",
        &dir.path("g"),
        &"--max-chunk-size",
        &"10",
        &"--json",
    ]);
    assert_eq!(written.json()["byte_exact"], false);
    let report = run([
        &"verify",
        &dir.path("g"),
        &"--against",
        &original,
        &"--json",
    ]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(report["against"]["result"], "equal", "{report}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["byte_exact"], false);
    let said = run([&"verify", &dir.path("g"), &"--against", &original]).ok();
    assert!(
        said.contains("equal to ") && said.contains("the bytes differ from byte "),
        "{said}"
    );
}

#[test]
fn what_differs_is_named_by_its_path() {
    let dir = Dir::new();
    let file = split(&dir, "keras_mlp");
    let ran = run([
        &"verify",
        &file,
        &"--against",
        &fixture("lookup_strings/saved_model.pb"),
        &"--json",
    ]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["against"]["result"], "different");
    let path = report["against"]["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with("meta_graphs[0]."), "{path}");
    let error = ran.failed(Exit::Bad);
    assert!(
        error.contains(&path) && error.contains("differs from"),
        "{error}"
    );
}

#[test]
fn the_original_may_be_named_by_the_folder_of_its_model() {
    let dir = Dir::new();
    let file = split(&dir, "keras_mlp");
    let report = run([
        &"verify",
        &file,
        &"--against",
        &fixture("keras_mlp"),
        &"--json",
    ]);
    assert_eq!(report.json()["against"]["result"], "byte-exact");
}

#[test]
fn without_a_type_messages_are_compared_as_they_are_written() {
    let dir = Dir::new();
    let file = foreign("graphdef_dtypes.const.none.cpb");
    let original = fixture("graphdef_frozen_cnn/graph.pb");
    let error =
        run([&"verify", &file, &"--against", &original, &"--assume-plain"]).failed(Exit::Bad);
    assert!(
        error.contains(" at 1: ") && error.contains("different from byte 1 on"),
        "{error}"
    );
    let error = run([&"verify", &file, &"--deep", &"--assume-plain"]).failed(Exit::Usage);
    assert!(error.contains("--deep needs the message's type"), "{error}");
    let error = run([&"verify", &file, &"--against", &dir.path("nowhere.pb")]).failed(Exit::Usage);
    assert!(error.contains("nowhere.pb: "), "{error}");
}

#[test]
fn deep_finds_what_no_checksum_can() {
    let dir = Dir::new();
    // The node has a name that isn't valid UTF-8, and enough data around the name to be split.
    let node = [&[0x0a, 200, 1][..], &[0xff; 200]].concat();
    let graph = [&[0x0a, 203, 1][..], &node].concat().repeat(3);
    let original = dir.file("graph.pb", graph);
    run([
        &"split",
        &original,
        &"--message",
        &"tensorflow.GraphDef",
        &"-o",
        &dir.path("g"),
        &"--max-chunk-size",
        &"300",
    ])
    .ok();
    run([&"verify", &dir.path("g")]).ok();
    let error = run([&"verify", &dir.path("g"), &"--deep"]).failed(Exit::Bad);
    assert!(
        error.contains("node[0].name: the string is not UTF-8"),
        "{error}"
    );
}

#[test]
fn a_message_that_was_not_split_can_be_parsed_and_compared() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    run([&"split", &file, &"-o", &dir.path("saved_model")]).ok();
    let report = run([
        &"verify",
        &dir.path("saved_model"),
        &"--deep",
        &"--against",
        &file,
        &"--json",
    ])
    .json();
    assert_eq!(report["split"], false);
    assert_eq!(report["against"]["result"], "byte-exact");
    assert!(report["deep"]["fields"].as_u64().unwrap() > 100);
}

#[test]
fn a_message_that_was_not_split_is_walked_over() {
    let dir = Dir::new();
    let whole = fs::read(fixture("keras_mlp/saved_model.pb")).unwrap();
    let sound = dir.file("sound.pb", &whole);
    let said = run([&"verify", &sound]).ok();
    assert!(
        said.contains("checksums") && said.ends_with("ok\n"),
        "{said}"
    );
    let report = run([&"verify", &sound, &"--json"]).json();
    assert_eq!(report["checksums"], false);
    let cut = dir.file("saved_model.pb", &whole[..whole.len() - 1]);
    for deep in [false, true] {
        let ran = if deep {
            run([&"verify", &cut, &"--deep"])
        } else {
            run([&"verify", &cut])
        };
        assert!(ran.out.ends_with("1 problem\n"), "{}", ran.out);
        ran.failed(Exit::Bad);
    }
}

#[test]
fn the_file_that_is_named_is_the_one_that_is_compared() {
    let dir = Dir::new();
    let named = dir.copy(&fixture("graphdef_dtypes/graph.pb"), "x.pb");
    let chunked = dir.path("x.pb.cpb");
    fs::rename(split(&dir, "keras_mlp"), &chunked).unwrap();
    // The original has an additional field, so the messages must be compared field by field.
    // `x.pb.cpb` contains a message of a different type, and must not be used.
    let bytes = fs::read(&named).unwrap();
    let original = dir.file("same.pb", [&bytes[..], &[0x18, 0x00]].concat());
    let ran = run([
        &"verify",
        &named,
        &"--message",
        &"tensorflow.GraphDef",
        &"--against",
        &original,
    ]);
    assert!(ran.ok().contains("equal to "));
}
