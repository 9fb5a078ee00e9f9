//! Tests of models through the interface that all formats share.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Checks, ConvertOptions, OpenOptions, Opened, Registry};
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_samediff::{
    Array, Draft, Model, SafetensorsFormat, SameDiffFormat, SameDiffVariable, SameDiffWriteOptions,
    TagContent, VarType,
};

use crate::entries::Entries;
use crate::support::{content, floats, graph, values, write};

static FORMATS: Registry = Registry::new(&[&SameDiffFormat, &SafetensorsFormat]);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/samediff")
        .join(name)
}

fn open(path: &Path) -> Opened {
    FORMATS.open(path, &OpenOptions::new()).unwrap()
}

fn format_of(path: &Path) -> Option<&'static str> {
    open(path).format().map(|format| format.name())
}

/// Writes a model with two tags that share a constant and a state.
fn model(folder: &Path) -> PathBuf {
    let mut draft = Draft::new();
    for (tag, w) in [("Old", 1.0), ("new", 3.0)] {
        draft
            .add_tag(tag.parse().unwrap(), content(w, 2.0))
            .unwrap();
    }
    let path = folder.join("model.bin");
    write(&draft, &path);
    path
}

#[test]
fn files_are_recognized_by_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(format_of(&model(folder.path())), Some("samediff"));
    for (name, format) in [
        ("classic.fb", Some("samediff")),
        ("model.sdnb", Some("samediff")),
        ("model.sdz", Some("samediff")),
        ("other.zip", Some("samediff")),
        ("tensors.safetensors", Some("safetensors")),
    ] {
        assert_eq!(format_of(&fixture(name)), format, "{name}");
    }
    // If the file has an unusual name, it is only recognized if its content identifies the format.
    for (name, format) in [
        ("classic.fb", None),
        ("model.sdnb", Some("samediff")),
        ("model.sdz", None),
        ("other.zip", Some("samediff")),
        ("tensors.safetensors", None),
    ] {
        let copy = folder.path().join("copy.bin");
        fs::copy(fixture(name), &copy).unwrap();
        match format {
            Some(_) => assert_eq!(format_of(&copy), format, "{name}"),
            // The file isn't a protobuf message either, so opening it fails.
            None => assert!(FORMATS.open(&copy, &OpenOptions::new()).is_err(), "{name}"),
        }
    }
}

#[test]
fn tensors_are_called_by_tag_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&model(folder.path()));
    let tensors = opened.tensors().unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(
        names,
        [
            "Old/layer/w",
            "Old/layer/b:0",
            "Old/updater/layer/w#0",
            "Old/updater/layer/w#1",
            "new/layer/w",
            "new/layer/b:0",
            "new/updater/layer/w#0",
            "new/updater/layer/w#1",
        ]
    );
    for (name, expected) in [
        ("Old/layer/w", floats(&[2, 3], 1.0)),
        ("OLD/layer/w", floats(&[2, 3], 1.0)),
        ("layer/w", floats(&[2, 3], 3.0)),
        ("new/updater/layer/w#0", floats(&[2, 3], 3.5)),
        ("updater/layer/w#1", floats(&[2, 3], 0.25)),
    ] {
        let tensor = opened.tensor(name).unwrap();
        assert_eq!(tensor.info().shape, [2, 3], "{name}");
        assert_eq!(tensor.to_vec().unwrap(), values(&expected), "{name}");
    }
    for name in ["", "Old", "other/layer/w", "layer/v"] {
        let error = opened.tensor(name).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{name}");
    }
    let shared = opened.archive().unwrap().entries().unwrap();
    let shared = shared.iter().filter(|entry| {
        let detail = entry.detail.as_deref().unwrap_or_default();
        detail.contains("shared by")
    });
    let shared: Vec<&str> = shared.map(|entry| &*entry.name).collect();
    assert_eq!(shared, ["Old/layer/b:0", "Old/updater/layer/w#1"]);
    let verified = opened.verify().unwrap();
    assert_eq!((verified.tensors, verified.checks), (8, Checks::Checksums));
}

#[test]
fn a_parameter_and_a_state_of_one_tensor_name_are_each_read() {
    let folder = tempfile::tempdir().unwrap();
    let name = "updater/layer/w#0";
    let variable = SameDiffVariable::new(
        name,
        VarType::Constant,
        proto_splitter_samediff::Nd4jType::Float,
        [4],
    );
    let mut graph = graph();
    graph.variables.push(variable);
    let states = [floats(&[2, 3], 1.5)];
    let content = TagContent::new(graph)
        .parameter("layer/w", floats(&[2, 3], 1.0))
        .parameter("layer/b:0", floats(&[3], 2.0))
        .parameter(name, floats(&[4], 9.0))
        .updater_states("layer/w", states);
    let mut draft = Draft::new();
    draft.add_tag("only".parse().unwrap(), content).unwrap();
    let path = folder.path().join("model.zip");
    write(&draft, &path);
    let opened = open(&path);
    let archive = opened.archive().unwrap();
    let same = archive.tensors().unwrap().into_iter();
    let same = same.filter(|info| info.name == "only/updater/layer/w#0");
    let read: Vec<Vec<u8>> = same
        .map(|info| archive.read(&info).unwrap().to_vec().unwrap())
        .collect();
    let expected = [floats(&[4], 9.0), floats(&[2, 3], 1.5)];
    assert_eq!(read, expected.map(|array| values(&array)));
}

#[test]
fn what_is_damaged_does_not_verify() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let needle = values(&floats(&[2, 3], 3.5));
    let at = bytes.windows(24).position(|there| there == needle).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = open(&path).verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert!(error.to_string().contains("new/updater/0.fb: "), "{error}");
}

#[test]
fn every_form_becomes_every_other() {
    for name in [
        "classic.fb",
        "model.sdnb",
        "model.sdz",
        "other.zip",
        "tensors.safetensors",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(&fixture(name));
        let expected: Vec<Vec<u8>> = ["w", "b"]
            .map(|name| opened.tensor(name).unwrap().to_vec().unwrap())
            .to_vec();
        let format = opened.format().unwrap();
        for target in format.targets() {
            let path = folder.path().join(format!("out.{}", target.name));
            let options = ConvertOptions::new();
            let converted = format.convert(&opened, target, &path, &options).unwrap();
            assert_eq!(converted.files, std::slice::from_ref(&path));
            assert_eq!(converted.bytes, fs::metadata(&path).unwrap().len());
            let out = open(&path);
            for (tensor, expected) in ["w", "b"].iter().zip(&expected) {
                let found = out.tensor(tensor).unwrap().to_vec().unwrap();
                assert_eq!(found, *expected, "{name} as {}: {tensor}", target.name);
            }
            let again = format.convert(&opened, target, &path, &options);
            assert_eq!(
                again.unwrap_err().kind(),
                ErrorKind::AlreadyExists,
                "{name}"
            );
        }
    }
}

#[test]
fn the_model_between_two_other_forms_is_reported_and_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.fb");
    let opened = open(&fixture("model.sdnb"));
    let format = opened.format().unwrap();
    let to_classic = format.targets().iter().find(|form| form.name == "fb");
    let token = CancelToken::new();
    let cancelling = token.clone();
    // The first report is made while the model is written from which the output is made.
    let progress = Progress::new(move |_, _| cancelling.cancel()).cancelled_by(&token);
    let options = ConvertOptions::new().progress(progress);
    let converted = format.convert(&opened, to_classic.unwrap(), &path, &options);
    assert_eq!(converted.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!path.exists());
}

#[test]
fn a_model_in_shards_is_read_from_all_its_files_of_which_the_opened_one_is_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let shard = |index: u32| folder.path().join(format!("m.shard{index}-of-2.sdnb"));
    for index in [0, 1] {
        fs::copy(fixture("model.sdnb"), shard(index)).unwrap();
    }
    for (first, other) in [(0, 1), (1, 0)] {
        let opened = open(&shard(first));
        assert_eq!(opened.files(), [shard(first), shard(other)]);
    }
    assert_eq!(open(&fixture("model.sdnb")).files().len(), 1);
}

#[test]
fn a_conversion_never_replaces_a_file_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let shard = |index: u32| folder.path().join(format!("m.shard{index}-of-2.sdnb"));
    for index in [0, 1] {
        fs::copy(fixture("model.sdnb"), shard(index)).unwrap();
    }
    let opened = open(&shard(0));
    let format = opened.format().unwrap();
    let options = ConvertOptions::new().force(true);
    for index in [0, 1] {
        let before = fs::read(shard(index)).unwrap();
        let converted = format.convert(&opened, &format.targets()[0], &shard(index), &options);
        let error = converted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        let line = error.to_string();
        assert!(line.contains("refusing to overwrite the input"), "{line}");
        assert!(fs::read(shard(index)).unwrap() == before);
    }
}

#[test]
fn an_error_names_the_output_once_and_an_entry_with_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&fixture("other.zip"));
    let format = opened.format().unwrap();
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    for target in format.targets() {
        let options = ConvertOptions::new().force(true);
        let error = format.convert(&opened, target, &taken, &options);
        let line = error.unwrap_err().to_string();
        let name = taken.display().to_string();
        assert_eq!(line.matches(&name).count(), 1, "{}: {line}", target.name);
    }

    let mut entries = Entries::good();
    // A table without fields.
    entries.put("b/trainingConfig.fb", [8, 0, 0, 0, 4, 0, 4, 0, 4, 0, 0, 0]);
    let path = folder.path().join("no-text.zip");
    fs::write(&path, entries.archive()).unwrap();
    let opened = open(&path);
    let to_classic = &format.targets()[1];
    let options = ConvertOptions::new();
    let error = format.convert(&opened, to_classic, &folder.path().join("out"), &options);
    let line = error.unwrap_err().to_string();
    let expected = format!(
        "{}: b/trainingConfig.fb: it contains no text",
        path.display()
    );
    assert_eq!(line, expected);
}

#[test]
fn a_conversion_names_the_tag() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&model(folder.path()));
    let format = opened.format().unwrap();
    let [to_zip, to_classic, _] = format.targets() else {
        panic!("three forms");
    };
    let old = folder.path().join("old.zip");
    let tag = |name: &str| ConvertOptions::new().setting("tag", name);
    format.convert(&opened, to_zip, &old, &tag("OLD")).unwrap();
    let extracted = Model::open(&old).unwrap();
    let tags: Vec<&str> = extracted.tags().map(|tag| tag.name().as_str()).collect();
    assert_eq!(tags, ["Old"]);
    let none = folder.path().join("none");
    for (options, kind) in [
        (tag("other"), ErrorKind::InvalidPath),
        (
            ConvertOptions::new().setting("tags", "Old"),
            ErrorKind::InvalidConfig,
        ),
    ] {
        for target in [to_zip, to_classic] {
            let error = format
                .convert(&opened, target, &none, &options)
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
    assert!(!none.exists());
}

#[test]
fn texts_are_listed_and_have_no_place_in_safetensors() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = graph();
    graph.operations.clear();
    graph.variables = vec![SameDiffVariable::new(
        "t",
        VarType::Constant,
        proto_splitter_samediff::Nd4jType::Utf8,
        [2],
    )];
    graph.loss_variables.clear();
    let texts = Array::from_strings([2], &["a", "näher"]).unwrap();
    let mut draft = Draft::new();
    let content = TagContent::new(graph).parameter("t", texts);
    draft.add_tag("only".parse().unwrap(), content).unwrap();
    let path = folder.path().join("texts.zip");
    draft.write(&path, &SameDiffWriteOptions::new()).unwrap();
    let opened = open(&path);
    assert_eq!(opened.tensors().unwrap()[0].dtype.to_string(), "string");
    let format = opened.format().unwrap();
    let [_, _, to_safetensors] = format.targets() else {
        panic!("three forms");
    };
    let out = folder.path().join("texts.safetensors");
    let error = format.convert(&opened, to_safetensors, &out, &ConvertOptions::new());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(
        error
            .to_string()
            .contains("safetensors has no string tensors"),
        "{error}"
    );
    assert!(!out.exists());
}

#[test]
fn a_damaged_array_is_in_the_way_of_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.zip");
    let mut entries = Entries::good();
    for name in ["a/params/0.fb", "b/params/0.fb"] {
        entries.get(name)[..4].copy_from_slice(&[0xff; 4]);
    }
    fs::write(&path, entries.archive()).unwrap();
    let opened = open(&path);
    let archive = opened.archive().unwrap();

    let constant = archive.find("a/layer/b:0").unwrap().unwrap();
    let mut bytes = Vec::new();
    let reader = archive.read(&constant).unwrap();
    reader.write_to(&mut bytes).unwrap();
    assert_eq!(bytes, values(&floats(&[3], 2.0)));

    assert!(archive.find("a/layer/w").is_err());
    assert!(archive.tensors().is_err());
    let damaged = archive.entries().unwrap().into_iter().filter(|entry| {
        let detail = entry.detail.as_deref();
        detail.is_some_and(|detail| detail.starts_with("damaged: "))
    });
    let damaged: Vec<String> = damaged.map(|entry| entry.name).collect();
    assert_eq!(damaged, ["a/layer/w", "b/layer/w"]);

    // Verifying continues after the first damaged array, and reports both.
    let error = opened.verify().unwrap_err().to_string();
    for name in ["a/params/0.fb", "b/params/0.fb"] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn the_names_of_the_tensors_of_all_tags_together_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.zip");
    let name = "n".repeat(512 << 10);
    // The name of each state contains the name of its variable. In total, 512 names of this size
    // are too large.
    for (first, second, fits) in [(10, 10, true), (600, 0, false), (10, 510, false)] {
        let mut entries = Entries::good();
        for (tag, states) in [("a", first), ("b", second)] {
            let line = format!("{name}{}\n", " a/0".repeat(states));
            let text = if states == 0 { String::new() } else { line };
            entries.put(&format!("{tag}/updater.txt"), text);
        }
        fs::write(&path, entries.archive()).unwrap();
        match FORMATS.open(&path, &OpenOptions::new()) {
            Ok(_) => assert!(fits, "{first} and {second}"),
            Err(error) => {
                assert!(!fits, "{first} and {second}: {error}");
                assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
                let text = error.to_string();
                assert!(
                    text.contains("the names of the tensors have more than"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn a_check_warns_of_what_is_odd() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.zip");
    let mut entries = Entries::good();
    entries.put("a/notes.txt", *b"whatever");
    fs::write(&path, entries.archive()).unwrap();
    let verified = open(&path).verify().unwrap();
    assert_eq!(verified.checks, Checks::Checksums);
    assert_eq!(
        verified.warnings,
        ["a/notes.txt: the format does not know this entry"]
    );
}
