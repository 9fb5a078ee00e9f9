//! Tests for SameDiff models: commands that support all formats, and `protosplit samediff`.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_samediff::{
    Array, ArrayInfo, Draft, Graph, Nd4jType, SameDiffVariable, SameDiffWriteOptions, TagContent,
    VarType,
};
use protosplit_cli::Exit;
use serde_json::{Value, json};

use crate::support::{Dir, Ran, run, run_all};

/// Returns the path of a SameDiff model in a file format of other programs.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/samediff")
        .join(name)
}

/// Values of the tensor `w` in all fixtures.
const W: [f32; 6] = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5];
/// Bytes of the tensor `b` in all fixtures.
const B: [u8; 6] = [0xff, 0xff, 0x2c, 0x01, 7, 0];

fn floats(values: [f32; 6]) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn array(dtype: Nd4jType, shape: &[u64], bytes: &[u8]) -> Array {
    let info = ArrayInfo::new(dtype, shape).unwrap();
    Array::from_bytes(info, bytes.to_vec()).unwrap()
}

/// Returns a tag that contains a variable, the variable's state, and a constant.
fn content(first: f32) -> TagContent {
    let mut graph = Graph::default();
    graph.variables = vec![
        SameDiffVariable::new("layer/w", VarType::Variable, Nd4jType::Float, [2, 3]),
        SameDiffVariable::new("b", VarType::Constant, Nd4jType::Int16, [3]),
    ];
    let w = array(
        Nd4jType::Float,
        &[2, 3],
        &floats(W.map(|value| value + first)),
    );
    let state = array(Nd4jType::Float, &[2, 3], &floats([0.25; 6]));
    TagContent::new(graph)
        .parameter("layer/w", w)
        .parameter("b", array(Nd4jType::Int16, &[3], &B))
        .updater_states("layer/w", [state])
}

/// Creates a model with three checkpoints, `one`, `two` and `Three`, which differ in one parameter.
pub(crate) fn model(dir: &Dir) -> PathBuf {
    let mut draft = Draft::new();
    for (tag, first) in [("one", 1.0), ("two", 2.0), ("Three", 3.0)] {
        draft.add_tag(tag.parse().unwrap(), content(first)).unwrap();
    }
    let path = dir.path("model.zip");
    draft.write(&path, &SameDiffWriteOptions::new()).unwrap();
    path
}

/// Returns the bytes of the tensor with the given name.
#[track_caller]
fn raw(dir: &Dir, file: &Path, name: &str) -> Vec<u8> {
    let out = dir.path("raw");
    run([&"get", &file, &name, &"-o", &out, &"--force"]).ok();
    fs::read(out).unwrap()
}

#[track_caller]
fn names(file: &Path) -> Vec<String> {
    let listed = run([&"tensors", &file, &"--json"]).json();
    let tensors = listed["tensors"].as_array().unwrap();
    let name = |tensor: &Value| tensor["name"].as_str().unwrap().to_owned();
    tensors.iter().map(name).collect()
}

/// Returns the names of a model's tags, the oldest first.
#[track_caller]
fn tags(file: &Path) -> Vec<String> {
    let listed = run([&"samediff", &"tags", &file, &"--json"]).json();
    let tags = listed["tags"].as_array().unwrap();
    let name = |tag: &Value| tag["tag"].as_str().unwrap().to_owned();
    tags.iter().map(name).collect()
}

/// Verifies a valid model, and returns the warnings.
#[track_caller]
fn verified(file: &Path) -> Vec<String> {
    let ran = run([&"verify", &file, &"--json"]);
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let format = if file.extension().is_some_and(|end| end == "safetensors") {
        "safetensors"
    } else {
        "samediff"
    };
    assert_eq!(
        (&report["ok"], &report["format"]),
        (&json!(true), &json!(format))
    );
    let warnings = report["warnings"].as_array();
    let warnings = warnings.map_or(&[][..], Vec::as_slice);
    assert_eq!(ran.err.lines().count(), warnings.len(), "{}", ran.err);
    let text = |warning: &Value| warning.as_str().unwrap().to_owned();
    warnings.iter().map(text).collect()
}

#[test]
fn tensors_are_listed_and_got_by_tag_and_name() {
    let dir = Dir::new();
    let file = model(&dir);
    let mut expected = Vec::new();
    for tag in ["one", "two", "Three"] {
        for name in ["layer/w", "b", "updater/layer/w#0"] {
            expected.push(format!("{tag}/{name}"));
        }
    }
    assert_eq!(names(&file), expected);
    let text = run([&"tensors", &file]).ok();
    assert!(
        text.contains("float32  [2, 3]") && text.contains("two/layer/w"),
        "{text}"
    );
    for (name, first) in [
        ("one/layer/w", 1.0),
        ("TWO/layer/w", 2.0),
        ("three/layer/w", 3.0),
        // Without the name of a tag, the newest tag is used.
        ("layer/w", 3.0),
    ] {
        let expected = floats(W.map(|value| value + first));
        assert_eq!(raw(&dir, &file, name), expected, "{name}");
        let out = dir.path("w.npy");
        run([
            &"get",
            &file,
            &name,
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
        ])
        .ok();
        let npy = fs::read(&out).unwrap();
        assert!(
            npy.starts_with(b"\x93NUMPY") && npy.ends_with(&expected),
            "{name}"
        );
        run([
            &"get",
            &file,
            &"--tensor",
            &name,
            &"--format",
            &"npy",
            &"-o",
            &out,
            &"--force",
        ])
        .ok();
        assert!(fs::read(&out).unwrap() == npy, "{name}");
    }
    assert_eq!(raw(&dir, &file, "one/updater/layer/w#0"), floats([0.25; 6]));
    let line = run([&"get", &file, &"one/layer/v"]).failed(Exit::Bad);
    assert!(line.contains("did you mean \"one/layer/w\"?"), "{line}");
    let line = run([&"get", &file, &"one/b", &"--format", &"json"]).failed(Exit::Usage);
    assert_eq!(line, "--format: a tensor is written as npy or binary");
}

#[test]
fn shared_files_are_counted_once_and_said() {
    let dir = Dir::new();
    let file = model(&dir);
    let listed = run([&"ls", &file, &"--json"]).json();
    let entries = listed["entries"].as_array().unwrap();
    let arrays: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["location"].as_str().unwrap().contains("params/"))
        .collect();
    // There are four arrays: three for `layer/w`, and one for `b`.
    assert_eq!(arrays.len(), 4, "{listed}");
    let shared = entries
        .iter()
        .find(|entry| entry["name"] == "one/b")
        .unwrap();
    let what = shared["what"].as_str().unwrap();
    assert!(what.ends_with("shared by two/b, Three/b"), "{what}");
    let total: u64 = entries
        .iter()
        .map(|entry| entry["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(listed["bytes"], total);

    let tree = run([
        &"tree",
        &file,
        &"--json",
        &"--min-size",
        &"0",
        &"--depth",
        &"9",
    ])
    .json();
    assert_eq!(tree["tree"]["size"], total);
    let text = run([&"tree", &file, &"--min-size", &"0", &"--depth", &"9"]).ok();
    for word in ["one", "two", "Three", "shared by two/b, Three/b"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let info = run([&"info", &file]).ok();
    assert!(info.contains("one, two, Three"), "{info}");
}

#[test]
fn a_good_model_verifies_and_a_damaged_one_is_named() {
    let dir = Dir::new();
    let file = model(&dir);
    assert_eq!(verified(&file), [""; 0]);
    let mut bytes = fs::read(&file).unwrap();
    let needle = floats(W.map(|value| value + 2.0));
    let at = bytes
        .windows(needle.len())
        .position(|there| there == needle)
        .unwrap();
    bytes[at] ^= 1;
    let damaged = dir.file("damaged.zip", bytes);
    let line = run([&"verify", &damaged]).failed(Exit::Bad);
    assert!(line.contains("two/params/0.fb: the crc-32 is"), "{line}");
    let cut = dir.file("cut.zip", &fs::read(&file).unwrap()[..500]);
    let line = run([&"verify", &cut]).failed(Exit::Bad);
    assert!(line.contains("not a zip archive"), "{line}");
}

#[test]
fn models_are_compared_by_their_tensors() {
    let dir = Dir::new();
    let file = model(&dir);
    let copy = dir.path("copy.zip");
    run([&"convert", &file, &"-o", &copy, &"--to", &"samediff"]).ok();
    let same = run([&"diff", &file, &copy]).ok();
    assert!(same.contains("the same 9 tensors"), "{same}");
    let other = dir.path("other.zip");
    run([&"samediff", &"drop", &file, &"two", &"-o", &other]).ok();
    let differ = run([&"diff", &file, &other]);
    assert_eq!(differ.exit, Exit::Bad);
    assert!(
        differ.out.contains("two/layer/w: only the first has it"),
        "{}",
        differ.out
    );
}

/// Converts a file to the form `to`, and returns the path of the output.
#[track_caller]
fn converted(dir: &Dir, file: &Path, to: &str, name: &str) -> PathBuf {
    let out = dir.path(name);
    run([&"convert", &file, &"-o", &out, &"--to", &to]).ok();
    out
}

#[test]
fn models_of_every_form_are_read_and_converted() {
    for name in [
        "classic.fb",
        "model.sdnb",
        "model.sdz",
        "other.zip",
        "tensors.safetensors",
    ] {
        let dir = Dir::new();
        let file = fixture(name);
        let listed = names(&file);
        assert_eq!(listed.len(), 2, "{name}: {listed:?}");
        // Only `other.zip`, which another program has written, has warnings.
        let odd = match name {
            "other.zip" => vec![
                "tags.txt is not the first entry",
                "one/params/9.fb: nothing refers to this file",
            ],
            _ => Vec::new(),
        };
        assert_eq!(verified(&file), odd, "{name}");
        let zip = converted(&dir, &file, "samediff", "model.zip");
        // The conversion corrects the order of entries, but copies the extra file.
        assert_eq!(verified(&zip), odd.get(1..).unwrap_or_default(), "{name}");
        assert_eq!(
            tags(&zip),
            [if name == "other.zip" { "one" } else { "model" }],
            "{name}"
        );
        let classic = converted(&dir, &zip, "fb", "back.fb");
        let tensors = converted(&dir, &zip, "safetensors", "back.safetensors");
        let again = converted(&dir, &classic, "samediff", "again.zip");
        let once_more = converted(&dir, &tensors, "fb", "tensors.fb");
        for form in [&file, &zip, &classic, &tensors, &again, &once_more] {
            let what = format!("{name}: {}", form.display());
            assert_eq!(raw(&dir, form, "w"), floats(W), "{what}");
            assert_eq!(raw(&dir, form, "b"), B, "{what}");
        }
    }
}

#[test]
fn a_conversion_takes_the_tag_that_is_set() {
    let dir = Dir::new();
    let file = model(&dir);
    let out = dir.path("two.safetensors");
    run([
        &"convert",
        &file,
        &"-o",
        &out,
        &"--to",
        &"safetensors",
        &"--set",
        &"tag=two",
    ])
    .ok();
    assert_eq!(
        raw(&dir, &out, "layer/w"),
        floats(W.map(|value| value + 2.0))
    );
    let zip = dir.path("first.zip");
    run([
        &"convert",
        &out,
        &"-o",
        &zip,
        &"--to",
        &"samediff",
        &"--set",
        &"tag=first",
    ])
    .ok();
    assert_eq!(tags(&zip), ["first"]);
    let wrong = dir.path("wrong");
    let to = |to: &str, setting: &str| {
        run([
            &"convert", &file, &"-o", &wrong, &"--to", &to, &"--set", &setting,
        ])
    };
    let line = to("fb", "tag=four").failed(Exit::Bad);
    assert!(
        line.contains("no tag is named \"four\"; there are one, two, Three"),
        "{line}"
    );
    let line = to("fb", "depth=1").failed(Exit::Usage);
    assert!(line.contains("no setting \"depth\""), "{line}");
    let line = to("onnx", "tag=one").failed(Exit::Usage);
    assert!(
        line.contains("safetensors (safetensors file of a tag's parameters)"),
        "{line}"
    );
    assert!(!wrong.exists());
}

#[test]
fn tensors_are_exported_by_tag_and_name() {
    let dir = Dir::new();
    let file = model(&dir);
    let out = dir.path("all.safetensors");
    run([&"export", &file, &"-o", &out]).ok();
    assert_eq!(names(&out).len(), 9);
    assert_eq!(
        raw(&dir, &out, "two/layer/w"),
        floats(W.map(|value| value + 2.0))
    );
}

/// Runs a `samediff` command that writes a file, and returns the path of the file.
#[track_caller]
fn edited(dir: &Dir, name: &str, args: &[&dyn AsRef<Path>]) -> PathBuf {
    let out = dir.path(name);
    let said = samediff(args, &[&"-o", &out]).ok();
    let size = fs::metadata(&out).unwrap().len();
    assert_eq!(said, format!("{}: {size} bytes\n", out.display()));
    out
}

fn samediff(args: &[&dyn AsRef<Path>], more: &[&dyn AsRef<Path>]) -> Ran {
    let verb: &dyn AsRef<Path> = &"samediff";
    run_all(
        std::iter::once(verb)
            .chain(args.iter().copied())
            .chain(more.iter().copied()),
    )
}

#[test]
fn tags_are_listed_with_what_they_share() {
    let dir = Dir::new();
    let file = model(&dir);
    let report = run([&"samediff", &"tags", &file, &"--json"]).json();
    assert_eq!(tags(&file), ["one", "two", "Three"]);
    let [first, second, _] = &report["tags"].as_array().unwrap()[..] else {
        panic!("{report}");
    };
    assert_eq!(
        (
            &first["parameters"],
            &first["updater_states"],
            &first["shared_bytes"]
        ),
        (&json!(2), &json!(1), &json!(0))
    );
    // The second tag shares the constant and the state with the first tag.
    assert_eq!(second["bytes"], first["bytes"]);
    let shared = second["shared_bytes"].as_u64().unwrap();
    assert!(
        shared > 0 && shared < second["bytes"].as_u64().unwrap(),
        "{report}"
    );
    let text = run([&"samediff", &"tags", &file]).ok();
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn tags_are_extracted_dropped_and_merged() {
    let dir = Dir::new();
    let file = model(&dir);
    let two = edited(&dir, "two.zip", &[&"extract", &file, &"TWO"]);
    let rest = edited(&dir, "rest.zip", &[&"drop", &file, &"one", &"three"]);
    for path in [&two, &rest] {
        verified(path);
        assert_eq!(tags(path), ["two"]);
        assert_eq!(raw(&dir, path, "b"), B);
        assert_eq!(
            raw(&dir, path, "layer/w"),
            floats(W.map(|value| value + 2.0))
        );
    }
    let newest = edited(&dir, "newest.zip", &[&"extract", &file]);
    assert_eq!(tags(&newest), ["Three"]);

    let line = samediff(&[&"merge", &two, &file], &[&"-o", &dir.path("x")]).failed(Exit::Bad);
    assert!(line.contains("the tag \"two\" is there already"), "{line}");
    let merge: [&dyn AsRef<Path>; 5] = [&"merge", &two, &file, &"--rename", &"two=zero"];
    let both = edited(&dir, "both.zip", &merge);
    verified(&both);
    assert_eq!(tags(&both), ["zero", "one", "two", "Three"]);
    let at_once: Vec<&dyn AsRef<Path>> = merge.into_iter().chain([&"--deduplicate" as _]).collect();
    let small = edited(&dir, "small.zip", &at_once);
    let deduplicated = edited(&dir, "deduplicated.zip", &[&"dedup", &both]);
    assert!(fs::read(small).unwrap() == fs::read(&deduplicated).unwrap());
    let len = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(len(&deduplicated) < len(&both));
    assert_eq!(
        raw(&dir, &deduplicated, "two/layer/w"),
        raw(&dir, &deduplicated, "zero/layer/w")
    );
}

#[test]
fn checkpoints_are_added() {
    let dir = Dir::new();
    let [classic, tensors] = ["classic.fb", "tensors.safetensors"].map(fixture);
    let file = edited(&dir, "model.zip", &[&"add", &classic, &"--tag", &"start"]);
    let onto = [
        &"--onto" as &dyn AsRef<Path>,
        &file,
        &"-o",
        &file,
        &"--force",
    ];
    samediff(
        &[&"add", &tensors, &"--tag", &"next", &"--like", &"START"],
        &onto,
    )
    .ok();
    verified(&file);
    assert_eq!(tags(&file), ["start", "next"]);
    assert_eq!(raw(&dir, &file, "next/w"), floats(W));
    // All arrays of the tags are equal, so all of them are shared.
    let report = run([&"samediff", &"tags", &file, &"--json"]).json();
    assert_eq!(
        report["tags"][1]["shared_bytes"],
        report["tags"][0]["bytes"]
    );

    let twice = samediff(&[&"add", &tensors, &"--tag", &"START"], &onto);
    assert!(
        twice
            .failed(Exit::Bad)
            .contains("the tag \"START\" is there already")
    );
    let bad = samediff(&[&"add", &tensors, &"--tag", &"no spaces"], &onto);
    assert!(bad.failed(Exit::Usage).contains("which no tag may have"));
    let there = samediff(&[&"add", &classic, &"--tag", &"start"], &[&"-o", &file]);
    assert!(there.failed(Exit::Usage).contains("(--force replaces it)"));
}

#[test]
fn tags_and_variables_are_renamed() {
    let dir = Dir::new();
    let file = model(&dir);
    let first = edited(&dir, "first.zip", &[&"rename", &file, &"ONE", &"start"]);
    assert_eq!(tags(&first), ["start", "two", "Three"]);
    let second = edited(
        &dir,
        "second.zip",
        &[&"rename", &first, &"start/layer/w", &"weights"],
    );
    verified(&second);
    assert_eq!(
        raw(&dir, &second, "start/weights"),
        floats(W.map(|value| value + 1.0))
    );
    assert_eq!(
        raw(&dir, &second, "start/updater/weights#0"),
        floats([0.25; 6])
    );
    assert_eq!(
        raw(&dir, &second, "two/layer/w"),
        floats(W.map(|value| value + 2.0))
    );
    let out = dir.path("none.zip");
    for (old, new, exit, message) in [
        ("four", "five", Exit::Bad, "there is no tag \"four\""),
        ("one", "Two", Exit::Bad, "the tag \"Two\" is there already"),
        ("one", "a/b", Exit::Usage, "has '/' in it"),
        ("one/v", "w", Exit::Bad, "the graph has no variable \"v\""),
        (
            "one/b",
            "layer/w",
            Exit::Bad,
            "the graph has a variable \"layer/w\" already",
        ),
        ("one/b", "x y", Exit::Usage, "has ' ' in it"),
    ] {
        let line = samediff(&[&"rename", &file, &old, &new], &[&"-o", &out]).failed(exit);
        assert!(line.contains(message), "{line}");
        assert!(!out.exists());
    }
}

#[test]
fn files_that_nothing_refers_to_are_collected() {
    let dir = Dir::new();
    let bytes = |path: &Path| {
        let listed = fs::read(path).unwrap();
        listed
            .windows(11)
            .filter(|there| there == b"params/9.fb")
            .count()
    };
    // The archive contains an entry's name twice: before the entry's data, and in the directory.
    let file = fixture("other.zip");
    assert_eq!(bytes(&file), 2);
    let copy = converted(&dir, &file, "samediff", "copy.zip");
    assert_eq!(bytes(&copy), 2);
    let clean = edited(&dir, "clean.zip", &[&"gc", &file]);
    assert_eq!(bytes(&clean), 0);
    verified(&clean);
    assert_eq!(raw(&dir, &clean, "one/w"), floats(W));
    let drop: [&dyn AsRef<Path>; 4] = [&"drop", &model(&dir), &"one", &"--collect-garbage"];
    verified(&edited(&dir, "dropped.zip", &drop));
}
