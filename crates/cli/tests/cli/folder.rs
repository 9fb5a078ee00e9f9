//! Tests for splitting and merging SavedModel folders.

use std::fs;
use std::path::Path;

use protosplit_cli::Exit;

use crate::support::{Dir, SAVED_MODELS, files, fixture, run};

fn same(a: &Path, b: &Path) {
    assert_eq!(files(a), files(b));
    for file in files(a) {
        assert!(
            fs::read(a.join(&file)).unwrap() == fs::read(b.join(&file)).unwrap(),
            "{file}"
        );
    }
}

#[test]
fn a_folder_comes_back_with_every_file() {
    for name in SAVED_MODELS {
        let dir = Dir::new();
        let (small, whole) = (dir.path("small"), dir.path("whole"));
        let report = run([
            &"split",
            &fixture(name),
            &"-o",
            &small,
            &"--max-chunk-size",
            &"10KiB",
            &"--json",
        ])
        .json();
        assert_eq!(
            report["output"],
            small.join("saved_model.cpb").to_str().unwrap()
        );
        let names = files(&small);
        assert!(
            names.contains(&"saved_model.cpb".into()) && !names.contains(&"saved_model.pb".into())
        );
        assert_eq!(names.len(), files(&fixture(name)).len());
        run([
            &"verify",
            &small,
            &"--deep",
            &"--against",
            &fixture(name).join("saved_model.pb"),
        ])
        .ok();
        let report = run([&"merge", &small, &"-o", &whole, &"--json"]).json();
        assert_eq!(
            report["output"],
            whole.join("saved_model.pb").to_str().unwrap()
        );
        same(&whole, &fixture(name));
    }
}

#[test]
fn a_folder_that_needs_no_cut_is_copied() {
    let dir = Dir::new();
    let out = dir.path("out");
    let said = run([&"split", &fixture("lookup_strings"), &"-o", &out]).ok();
    assert!(said.contains("within the maximum chunk size"), "{said}");
    same(&out, &fixture("lookup_strings"));
    run([&"merge", &out, &"-o", &dir.path("back")]).ok();
    same(&dir.path("back"), &fixture("lookup_strings"));
}

#[test]
fn merging_a_folder_to_a_name_in_pb_gives_the_message_alone() {
    let dir = Dir::new();
    let small = dir.path("small");
    run([
        &"split",
        &fixture("keras_mlp"),
        &"-o",
        &small,
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    run([&"merge", &small, &"-o", &dir.path("whole.pb")]).ok();
    assert!(
        fs::read(dir.path("whole.pb")).unwrap()
            == fs::read(fixture("keras_mlp/saved_model.pb")).unwrap()
    );
}

#[test]
fn a_failure_leaves_no_folder_and_no_trace() {
    let dir = Dir::new();
    let (model, out) = (dir.path("model"), dir.path("out"));
    fs::create_dir(&model).unwrap();
    let whole = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    dir.file("model/saved_model.pb", &whole[..whole.len() - 1]);
    run([&"split", &model, &"-o", &out, &"--max-chunk-size", &"10KiB"]).failed(Exit::Bad);
    assert_eq!(dir.files(), ["model/saved_model.pb"]);

    dir.file("model/saved_model.pb", &whole);
    run([&"split", &model, &"-o", &out, &"--max-chunk-size", &"10KiB"]).ok();
    let cpb = dir.path("out/saved_model.cpb");
    let mut bytes = fs::read(&cpb).unwrap();
    bytes[20_000] ^= 1;
    fs::write(&cpb, bytes).unwrap();
    run([&"merge", &out, &"-o", &dir.path("back")]).failed(Exit::Bad);
    assert!(!dir.path("back").exists());
    assert_eq!(
        fs::read_dir(dir.path("")).unwrap().count(),
        2,
        "the model and what became of it"
    );
}

#[test]
fn a_folder_that_is_no_saved_model_or_no_place_for_one_is_wrong_usage() {
    let dir = Dir::new();
    let (empty, full) = (dir.path("empty"), dir.path("full"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&full).unwrap();
    dir.file("full/a", "");
    let model = fixture("keras_mlp");
    let error = run([&"split", &empty, &"-o", &dir.path("out")]).failed(Exit::Usage);
    assert!(error.contains("no SavedModel"), "{error}");
    let error = run([&"split", &model]).failed(Exit::Usage);
    assert!(error.contains("-o OUTPUT"), "{error}");
    let error = run([&"split", &model, &"-o", &full]).failed(Exit::Usage);
    assert!(error.contains("not empty (--force"), "{error}");
    let error = run([&"split", &model, &"-o", &full, &"--force"]).failed(Exit::Usage);
    assert!(
        error.contains("not a SavedModel: not even force"),
        "{error}"
    );
    run([&"split", &model, &"-o", &empty]).ok();
    run([&"split", &model, &"-o", &empty, &"--force"]).ok();
    same(&empty, &model);
}

#[test]
fn a_folder_with_both_forms_is_refused() {
    let dir = Dir::new();
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    dir.file("model/saved_model.pb", "");
    dir.file("model/saved_model.cpb", "");
    let error = run([&"split", &model, &"-o", &dir.path("out")]).failed(Exit::Usage);
    assert!(error.contains("both"), "{error}");
}

#[test]
fn a_model_in_several_files_leaves_none_of_them_in_what_is_made_of_its_folder() {
    let dir = Dir::new();
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    let plain = fixture("functions_consts/saved_model.pb");
    let prefix = model.join("saved_model");
    let (profile, size) = ("extended", "16KiB");
    run([
        &"split",
        &plain,
        &"-o",
        &prefix,
        &"--profile",
        &profile,
        &"--max-file-size",
        &size,
    ])
    .ok();
    fs::write(model.join("beside"), "").unwrap();
    assert!(files(&model).len() > 4, "{:?}", files(&model));
    let [merged, converted, recompressed] = ["m", "c", "r"].map(|name| dir.path(name));
    run([&"merge", &model, &"-o", &merged]).ok();
    run([&"convert", &model, &converted, &"--to", &"pb"]).ok();
    let how = ["--compression", "zstd"];
    run([
        &"recompress",
        &model,
        &"-o",
        &recompressed,
        &how[0],
        &how[1],
    ])
    .ok();
    run([&"verify", &recompressed, &"--against", &plain]).ok();
    run([&"convert", &model, &"--in-place", &"--to", &"pb"]).ok();
    assert_eq!(files(&recompressed), ["beside", "saved_model.cpb"]);
    for folder in [merged, converted, model] {
        assert_eq!(files(&folder), ["beside", "saved_model.pb"]);
        assert!(fs::read(folder.join("saved_model.pb")).unwrap() == fs::read(&plain).unwrap());
    }
}
