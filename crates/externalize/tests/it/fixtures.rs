//! Tests with models written by TensorFlow 2.21.

use std::fs;

use proto_splitter_core::ErrorKind;
use proto_splitter_externalize::{ExternalizePlan, internalize, original};
use proto_splitter_saved_model::directory::FolderLock;
use proto_splitter_saved_model::{SaveOptions, SavedModelDir};
use proto_splitter_tensor_bundle::{Bundle, BundleOptions};
use record_file::ReadAt;

use crate::{externalize, files, fixture, options};

const MODELS: [&str; 4] = [
    "functions_consts",
    "keras_mlp",
    "lookup_strings",
    "tf1_two_metagraphs",
];

#[test]
fn every_model_comes_back_byte_for_byte_with_all_its_files() {
    let mut moved = 0;
    for model in MODELS {
        let folder = tempfile::tempdir().unwrap();
        let (out, back) = (folder.path().join("out"), folder.path().join("back"));
        let source = fixture(model);
        let plan = ExternalizePlan::new(&source, &options().min_size(256)).unwrap();
        plan.write(&out).unwrap();
        if plan.constants().len() == 0 {
            assert_eq!(files(&out), files(&source), "{model}");
            continue;
        }
        moved += plan.constants().len();
        let bundle = Bundle::open(out.join("assets/proto_splitter_constants")).unwrap();
        let verified = bundle.verify(&BundleOptions::new()).unwrap();
        assert_eq!(verified.bytes, plan.stored(), "{model}");

        let bytes = fs::read(source.join("saved_model.pb")).unwrap();
        let spans = original(&out).unwrap().unwrap();
        let mut read = vec![0; bytes.len()];
        spans.read_exact_at(0, &mut read).unwrap();
        assert_eq!(spans.total_size(), bytes.len() as u64);
        assert!(read == bytes, "{model}");

        internalize(&out, &back, &options()).unwrap();
        assert_eq!(files(&back), files(&source), "{model}");
        for file in files(&source) {
            let same = fs::read(source.join(&file)).unwrap() == fs::read(back.join(&file)).unwrap();
            assert!(same, "{model}: {file}");
        }
    }
    assert!(moved >= 3, "{moved}");
}

#[test]
fn the_fingerprint_is_that_of_the_new_model_and_keeps_its_uuid() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    externalize(&fixture("functions_consts"), &out).unwrap();
    let before = SavedModelDir::open(fixture("functions_consts")).unwrap();
    let after = SavedModelDir::open(&out).unwrap();
    let stored = after.stored_fingerprint().unwrap().unwrap();
    assert_eq!(stored, after.fingerprint().unwrap());
    let old = before.stored_fingerprint().unwrap().unwrap();
    assert_eq!(stored.uuid, old.uuid);
    assert_ne!(stored.saved_model_checksum, old.saved_model_checksum);
}

#[test]
fn a_model_in_chunks_becomes_the_same_as_the_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    let chunked = folder.path().join("chunked");
    let split = proto_splitter_core::split::SplitOptions::new().max_chunk_size(20 << 10);
    let save = SaveOptions::new().split(split);
    let dir = SavedModelDir::open(fixture("functions_consts")).unwrap();
    dir.save_as_chunked(&chunked, &save).unwrap();
    assert!(chunked.join("saved_model.cpb").is_file());
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    externalize(&chunked, &a).unwrap();
    externalize(&fixture("functions_consts"), &b).unwrap();
    assert_eq!(files(&a), files(&b));
    for file in files(&a).iter().filter(|file| *file != "fingerprint.pb") {
        let same = fs::read(a.join(file)).unwrap() == fs::read(b.join(file)).unwrap();
        assert!(same, "{file}");
    }
}

#[test]
fn in_place_the_same_is_written_and_the_old_file_goes() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let split = proto_splitter_core::split::SplitOptions::new().max_chunk_size(20 << 10);
    let dir = SavedModelDir::open(fixture("functions_consts")).unwrap();
    dir.save_as_chunked(&place, &SaveOptions::new().split(split))
        .unwrap();
    let plan = ExternalizePlan::new(&place, &options()).unwrap();
    plan.write_in_place().unwrap();
    let out = folder.path().join("out");
    externalize(&fixture("functions_consts"), &out).unwrap();
    assert_eq!(files(&place), files(&out));
    let model = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(model(&place) == model(&out));
}

#[test]
fn in_place_a_different_model_in_the_other_form_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let source = fixture("functions_consts");
    let dir = SavedModelDir::open(&source).unwrap();
    dir.save_as_chunked(&place, &SaveOptions::new()).unwrap();
    let [plain, chunked] = ["pb", "cpb"].map(|form| place.join(format!("saved_model.{form}")));
    fs::copy(fixture("keras_mlp").join("saved_model.pb"), &plain).unwrap();
    let (before, other) = (files(&place), fs::read(&plain).unwrap());
    let in_place = || {
        let plan = ExternalizePlan::new(&place, &options()).unwrap();
        plan.write_in_place()
    };
    let error = in_place().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(files(&place), before);
    assert!(fs::read(&plain).unwrap() == other);
    // An interrupted conversion leaves the same model in both forms.
    fs::copy(source.join("saved_model.pb"), &plain).unwrap();
    let original = fs::read(&chunked).unwrap();
    // A run that fails leaves both.
    fs::write(place.join("assets"), b"").unwrap();
    in_place().unwrap_err();
    assert!(plain.is_file() && chunked.is_file());
    fs::remove_file(place.join("assets")).unwrap();
    in_place().unwrap();
    let (after, new) = (files(&place), fs::read(&plain).unwrap());
    assert!(!chunked.exists());
    // An interrupted run leaves the original next to its externalized form.
    fs::write(&chunked, original).unwrap();
    in_place().unwrap();
    assert_eq!(files(&place), after);
    assert!(fs::read(&plain).unwrap() == new);
}

#[test]
fn of_two_in_place_at_once_one_is_told_and_nothing_is_spoilt() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let dir = SavedModelDir::open(fixture("functions_consts")).unwrap();
    dir.save_as_chunked(&place, &SaveOptions::new()).unwrap();
    let first = ExternalizePlan::new(&place, &options()).unwrap();
    let second = ExternalizePlan::new(&place, &options()).unwrap();
    if cfg!(unix) {
        let lock = FolderLock::take(&place).unwrap();
        let before = files(&place);
        let error = first.write_in_place().unwrap_err();
        assert!(error.to_string().contains("another conversion"), "{error}");
        assert_eq!(files(&place), before);
        drop(lock);
    }
    first.write_in_place().unwrap();
    let bytes = fs::read(place.join("saved_model.pb")).unwrap();
    // The model from which this plan was made no longer exists.
    let error = second.write_in_place().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    assert!(fs::read(place.join("saved_model.pb")).unwrap() == bytes);
    let back = folder.path().join("back");
    internalize(&place, &back, &options()).unwrap();
    let plain = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(plain(&back) == plain(&fixture("functions_consts")));
}

#[test]
fn a_model_is_externalized_once_and_no_changed_one_is_internalized() {
    let folder = tempfile::tempdir().unwrap();
    let (out, again) = (folder.path().join("out"), folder.path().join("again"));
    externalize(&fixture("functions_consts"), &out).unwrap();
    let error = externalize(&out, &again).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(!again.exists());

    let error = internalize(fixture("keras_mlp"), &again, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(original(fixture("keras_mlp")).unwrap().is_none());

    let path = out.join("saved_model.pb");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = internalize(&out, &again, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert!(!again.exists());
}

#[test]
fn mapped_constants_are_in_files_of_their_own_and_come_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    let source = fixture("functions_consts");
    let plan = ExternalizePlan::new(&source, &options().mapped(true)).unwrap();
    plan.write(&out).unwrap();
    let written = files(&out);
    let mapped = written
        .iter()
        .filter(|file| file.contains("proto_splitter_mapped/"));
    assert!(mapped.count() > 0, "{written:?}");
    internalize(&out, &back, &options()).unwrap();
    assert_eq!(files(&back), files(&source));
    let model = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(model(&back) == model(&source));
}
