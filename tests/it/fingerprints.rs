//! Tests that compare fingerprints with those that TensorFlow's own code computes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proto_splitter::proto::saved_model::FingerprintDef;
use proto_splitter::{ErrorKind, SavedModelDir, fingerprint};

use crate::fixtures::data;

/// Parses `FINGERPRINTS.json`, whose objects contain only strings and numbers.
fn expected() -> BTreeMap<String, BTreeMap<String, u64>> {
    let text = fs::read_to_string(data("tensorflow_cpb/FINGERPRINTS.json")).unwrap();
    let mut models = BTreeMap::new();
    let mut model = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('"').collect();
        match words.as_slice() {
            [_, name, rest] if rest.contains('{') => model = (*name).to_owned(),
            [_, field, _, value, _] => {
                let fields: &mut BTreeMap<String, u64> = models.entry(model.clone()).or_default();
                fields.insert((*field).to_owned(), value.parse().unwrap());
            }
            [_, field, value] => {
                let value = value.trim_matches(|c: char| !c.is_ascii_digit());
                let fields: &mut BTreeMap<String, u64> = models.entry(model.clone()).or_default();
                fields.insert((*field).to_owned(), value.parse().unwrap());
            }
            _ => {}
        }
    }
    models
}

fn fields(of: &FingerprintDef) -> BTreeMap<String, u64> {
    let producer = of.version.as_ref().map_or(0, |version| version.producer);
    [
        ("saved_model_checksum", of.saved_model_checksum),
        ("graph_def_program_hash", of.graph_def_program_hash),
        ("signature_def_hash", of.signature_def_hash),
        ("saved_object_graph_hash", of.saved_object_graph_hash),
        ("checkpoint_hash", of.checkpoint_hash),
        ("producer", u64::try_from(producer).unwrap()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Creates a SavedModel folder with the variables' index of `model`, and with `file` as its model
/// file.
fn folder_with(model: &str, file: &Path, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(file, folder.path().join(name)).unwrap();
    let variables = data("tensorflow").join(model).join("variables");
    fs::create_dir(folder.path().join("variables")).unwrap();
    let index = "variables/variables.index";
    fs::copy(variables.join("variables.index"), folder.path().join(index)).unwrap();
    folder
}

#[test]
fn every_model_in_every_form_has_the_fingerprint_that_tensorflow_computes() {
    let expected = expected();
    assert_eq!(expected.len(), 28);
    for (name, expected) in expected {
        let folder = match name.split_once('.') {
            None => folder_with(
                &name,
                &data("tensorflow").join(&name).join("saved_model.pb"),
                "saved_model.pb",
            ),
            Some((model, _)) => folder_with(
                model,
                &data("tensorflow_cpb").join(&name),
                "saved_model.cpb",
            ),
        };
        let dir = SavedModelDir::open(folder.path()).unwrap();
        assert_eq!(fields(&dir.fingerprint().unwrap()), expected, "{name}");
    }
}

#[test]
fn stored_fingerprints_agree() {
    for model in ["functions_consts", "keras_mlp", "lookup_strings"] {
        let dir = SavedModelDir::open(data("tensorflow").join(model)).unwrap();
        let stored = dir.stored_fingerprint().unwrap().unwrap();
        assert_eq!(
            dir.fingerprint().unwrap(),
            stored,
            "{model}, its uuid and producer too"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_not_a_regular_file_has_no_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let device = |path: &Path| std::os::unix::fs::symlink("/dev/null", path).unwrap();
    device(&folder.path().join("fingerprint.pb"));
    let error = fingerprint::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    // TensorFlow uses 0 as the hash of an index that it can't read.
    let model = data("tensorflow/keras_mlp/saved_model.pb");
    fs::copy(model, folder.path().join("saved_model.pb")).unwrap();
    fs::create_dir(folder.path().join("variables")).unwrap();
    device(&folder.path().join("variables/variables.index"));
    let dir = SavedModelDir::open(folder.path()).unwrap();
    assert_eq!(dir.fingerprint().unwrap().checkpoint_hash, 0);
}

#[test]
fn a_file_that_is_far_too_large_is_not_read_as_a_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("fingerprint.pb")).unwrap();
    file.set_len(1 << 20).unwrap();
    let error = fingerprint::read(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}
