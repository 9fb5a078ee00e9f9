//! Tests for converting SavedModels, and for their fingerprints.

use std::fs;
use std::path::Path;

use protosplit_cli::Exit;
use serde_json::{Value, json};

use crate::support::{Dir, SAVED_MODELS, files, fixture, foreign, run};

fn same(a: &Path, b: &Path) {
    assert_eq!(files(a), files(b));
    for file in files(a) {
        let [a, b] = [a, b].map(|folder| fs::read(folder.join(&file)).unwrap());
        assert!(a == b, "{file}");
    }
}

#[test]
fn a_model_is_converted_to_a_new_folder_and_in_place() {
    for name in SAVED_MODELS {
        let dir = Dir::new();
        let (small, whole) = (dir.path("small"), dir.path("whole"));
        let size = &"--max-chunk-size";
        let report = run([
            &"convert",
            &fixture(name),
            &small,
            &"--to",
            &"cpb",
            size,
            &"10KiB",
            &"--json",
        ]);
        let report = report.json();
        let bytes = fs::metadata(fixture(name).join("saved_model.pb"))
            .unwrap()
            .len();
        assert_eq!(
            (&report["split"], &report["message_bytes"]),
            (&json!(true), &json!(bytes))
        );
        run([&"convert", &small, &whole]).ok();
        same(&whole, &fixture(name));
        let in_place = run([
            &"convert",
            &whole,
            &"--in-place",
            &"--to",
            &"cpb",
            size,
            &"10KiB",
            &"--json",
        ]);
        assert_eq!(in_place.json()["changed"], true);
        same(&whole, &small);
        run([&"convert", &whole, &"--in-place", &"--to", &"pb"]).ok();
        same(&whole, &fixture(name));
    }
}

#[test]
fn splits_and_merges_of_folders_carry_their_fingerprint_along() {
    let dir = Dir::new();
    let model = fixture("keras_mlp");
    let size = &"--max-chunk-size";
    let (small, kept) = (dir.path("small"), dir.path("kept"));
    run([&"split", &model, &"-o", &small, size, &"10KiB"]).ok();
    let report = run([&"fingerprint", &small, &"--json"]).json();
    assert_eq!(
        (&report["agrees"], &report["computed"]["producer"]),
        (&json!(true), &json!(2))
    );
    let original = run([&"fingerprint", &model, &"--json"]).json();
    assert_eq!(original["agrees"], true);
    assert_eq!(original["computed"]["uuid"], report["computed"]["uuid"]);

    run([
        &"split",
        &model,
        &"-o",
        &kept,
        size,
        &"10KiB",
        &"--keep-fingerprint",
    ])
    .ok();
    let ran = run([&"fingerprint", &kept, &"--json"]);
    assert_eq!(ran.exit, Exit::Bad);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["stored"], original["computed"]);
    assert_eq!(report["differs_in"].as_array().unwrap().len(), 5);
    // The original fingerprint was kept, so it is valid again once the model is in one piece.
    run([
        &"merge",
        &kept,
        &"-o",
        &dir.path("back"),
        &"--keep-fingerprint",
    ])
    .ok();
    run([&"fingerprint", &dir.path("back")]).ok();
}

#[test]
fn fingerprints_are_those_that_tensorflow_computes() {
    let expected = fs::read(foreign("FINGERPRINTS.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for name in SAVED_MODELS {
        let mut computed =
            run([&"fingerprint", &fixture(name), &"--json"]).json()["computed"].take();
        computed.as_object_mut().unwrap().remove("uuid");
        assert_eq!(computed, expected[name], "{name}");
    }
}

#[test]
fn what_can_not_be_converted_is_said() {
    let dir = Dir::new();
    fs::create_dir(dir.path("empty")).unwrap();
    let error = run([&"convert", &dir.path("empty"), &dir.path("to")]).failed(Exit::Usage);
    assert!(error.contains("no saved_model.pb"), "{error}");
    let error = run([&"fingerprint", &dir.path("empty")]).failed(Exit::Usage);
    assert!(error.contains("no saved_model.pb"), "{error}");
    assert_eq!(run([&"convert", &fixture("keras_mlp")]).exit, Exit::Usage);
    let both = run([
        &"convert",
        &fixture("keras_mlp"),
        &dir.path("to"),
        &"--in-place",
    ]);
    assert_eq!(both.exit, Exit::Usage);
    let error = run([&"convert", &fixture("keras_mlp"), &dir.path("")]).failed(Exit::Usage);
    assert!(error.contains("not empty (--force"), "{error}");
}

#[test]
fn the_form_that_is_asked_for_is_written_though_nothing_has_to_be_cut() {
    let dir = Dir::new();
    let (small, whole) = (dir.path("small"), dir.path("whole"));
    let report = run([
        &"convert",
        &fixture("keras_mlp"),
        &"-o",
        &small,
        &"--to",
        &"cpb",
        &"--json",
    ])
    .json();
    assert_eq!(report["split"], true);
    assert!(small.join("saved_model.cpb").is_file() && !small.join("saved_model.pb").exists());
    let info = run([&"info", &small, &"--json"]).json();
    assert_eq!(info["chunks"].as_array().unwrap().len(), 1);
    run([&"verify", &small]).ok();
    run([&"convert", &small, &whole, &"--to", &"pb"]).ok();
    same(&whole, &fixture("keras_mlp"));
    let again = run([
        &"convert",
        &whole,
        &"--in-place",
        &"--to",
        &"cpb",
        &"--json",
    ])
    .json();
    assert_eq!(
        (&again["split"], &again["changed"]),
        (&json!(true), &json!(true))
    );
    same(&whole, &small);
}

#[test]
fn a_model_of_any_format_becomes_a_file_in_chunks_and_the_same_files_again() {
    let dir = Dir::new();
    let model = fixture("../paddle/infer_fc/model.pdmodel");
    for (index, to) in ["cpb", "auto"].into_iter().enumerate() {
        let chunked = dir.path(&format!("model{index}.cpb"));
        let report = run([&"convert", &model, &"-o", &chunked, &"--to", &to, &"--json"]);
        let report = report.json();
        assert_eq!(
            (&report["format"], &report["to"]),
            (&json!("paddle"), &json!("cpb"))
        );
        run([&"verify", &chunked]).ok();
        let back = dir.path(&format!("back{index}"));
        run([&"convert", &chunked, &"-o", &back, &"--to", &"combined"]).ok();
        for file in ["model.pdmodel", "model.pdiparams"] {
            let original = fs::read(model.with_file_name(file)).unwrap();
            assert!(fs::read(back.join(file)).unwrap() == original, "{file}");
        }
    }
    let target = dir.path("wrong.cpb");
    let wrong = run([&"convert", &model, &"-o", &target, &"--to", &"combined"]);
    assert_eq!(wrong.exit, Exit::Usage);
    assert!(!target.exists());
}

#[test]
fn a_message_beside_the_file_in_chunks_that_was_asked_for_stays_as_it_is() {
    let dir = Dir::new();
    let model = fixture("../paddle/infer_fc/model.pdmodel");
    let (beside, chunked) = (dir.path("m.pb"), dir.path("m.cpb"));
    fs::write(&beside, "of somebody else").unwrap();
    run([&"convert", &model, &"-o", &chunked]).ok();
    run([&"convert", &model, &"-o", &chunked]).failed(Exit::Usage);
    run([&"convert", &model, &"-o", &chunked, &"--force"]).ok();
    run([&"verify", &chunked]).ok();
    assert_eq!(fs::read(&beside).unwrap(), b"of somebody else");
    assert_eq!(dir.files().len(), 2);
}
