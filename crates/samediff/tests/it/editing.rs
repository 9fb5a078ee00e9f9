//! Tests of the effects of edits on models.

use std::fs;
use std::io::Read;
use std::path::Path;

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, Draft, ErrorKind, Graph, Model, ModelOptions, Nd4jType,
    SameDiffLimits, SameDiffVariable, SameDiffWriteOptions, TagContent, VarType, ZipCompression,
};

use crate::entries::{Entries, open};
use crate::support::{content, entries, floats, graph, text, values, write, written};

fn tags(names: &[(&str, TagContent)]) -> Draft {
    let mut draft = Draft::new();
    for (name, content) in names {
        draft
            .add_tag(name.parse().unwrap(), content.clone())
            .unwrap();
    }
    draft
}

#[test]
fn a_model_reads_back_as_it_was_written() {
    let (_folder, path, model) = written(&tags(&[("first", content(1.0, 2.0))]));
    let tag = model.default_tag();
    assert_eq!(tag.graph().unwrap(), graph());
    let w = tag.parameter("layer/w").unwrap();
    assert_eq!(w.info().shape(), [2, 3]);
    assert!(w.equals(&floats(&[2, 3], 1.0)).unwrap());
    assert!(!w.equals(&floats(&[2, 3], 1.5)).unwrap());
    let states = tag.updater_states().unwrap();
    let [_, v] = states.get("layer/w").unwrap() else {
        panic!("two states");
    };
    assert_eq!(
        values(&states.open(v).unwrap()),
        values(&floats(&[2, 3], 0.25))
    );
    assert_eq!(tag.training_config().unwrap().unwrap(), b"{}");
    let report = model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!((report.tags, report.arrays), (1, 4));
    assert_eq!(report.warnings, Vec::<String>::new());
    assert_eq!(text(&path, "first/params.txt"), "layer/w 0\nlayer/b:0 1\n");
    assert_eq!(text(&path, "first/updater.txt"), "layer/w 0 1\n");
    assert_eq!(entries(&path)[0], "tags.txt");
}

#[test]
fn the_same_model_has_the_same_bytes() {
    let bytes = || {
        let (_folder, path, _) =
            written(&tags(&[("a", content(1.0, 2.0)), ("b", content(3.0, 2.0))]));
        fs::read(path).unwrap()
    };
    assert!(bytes() == bytes());
}

#[test]
fn data_is_aligned_also_after_a_copy() {
    let (folder, path, model) = written(&tags(&[("first", content(1.0, 2.0))]));
    let copy = folder.path().join("copy.zip");
    let mut draft = Draft::open(&model).unwrap();
    draft
        .rename_tag("first", "a-longer-name".parse().unwrap())
        .unwrap();
    write(&draft, &copy);
    for path in [path, copy] {
        let file = fs::File::open(&path).unwrap();
        let mut archive = zip::ZipArchive::new(file).unwrap();
        let bytes = fs::read(&path).unwrap();
        let needle: Vec<u8> = values(&floats(&[2, 3], 1.0));
        let at = bytes
            .windows(needle.len())
            .position(|window| window == needle)
            .unwrap();
        assert_eq!(at % 64, 0, "{path:?}");
        for index in 0..archive.len() {
            let start = archive.by_index_raw(index).unwrap().data_start().unwrap();
            assert_eq!(start % 64, 0, "{path:?}");
        }
    }
}

#[test]
fn a_copy_has_the_same_bytes() {
    let (folder, path, model) =
        written(&tags(&[("a", content(1.0, 2.0)), ("b", content(3.0, 2.0))]));
    let copy = folder.path().join("copy.zip");
    write(&Draft::open(&model).unwrap(), &copy);
    assert!(fs::read(path).unwrap() == fs::read(copy).unwrap());
}

#[test]
fn a_checkpoint_shares_what_did_not_change() {
    let draft = tags(&[
        ("a", content(1.0, 2.0)),
        ("b", content(3.0, 2.0)),
        ("c", content(3.0, 2.0)),
    ]);
    let (_folder, path, model) = written(&draft);
    assert_eq!(text(&path, "b/params.txt"), "layer/w 0\nlayer/b:0 a/1\n");
    assert_eq!(text(&path, "c/params.txt"), "layer/w b/0\nlayer/b:0 a/1\n");
    assert_eq!(text(&path, "c/updater.txt"), "layer/w b/0 a/1\n");
    for (name, w) in [("a", 1.0), ("B", 3.0), ("c", 3.0)] {
        let tag = model.tag(name).unwrap();
        assert!(
            tag.parameter("layer/w")
                .unwrap()
                .equals(&floats(&[2, 3], w))
                .unwrap()
        );
        assert!(
            tag.parameter("layer/b:0")
                .unwrap()
                .equals(&floats(&[3], 2.0))
                .unwrap()
        );
    }
}

#[test]
fn a_checkpoint_shares_with_one_of_another_file() {
    let (folder, _, model) = written(&tags(&[("a", content(1.0, 2.0))]));
    for compression in [
        ZipCompression::Keep,
        ZipCompression::Deflated,
        ZipCompression::Stored,
    ] {
        let mut draft = Draft::open(&model).unwrap();
        draft
            .add_tag("b".parse().unwrap(), content(1.0, 7.0))
            .unwrap();
        let path = folder.path().join("both.zip");
        let options = SameDiffWriteOptions::new()
            .force(true)
            .compression(compression);
        let written = draft.write(&path, &options).unwrap();
        assert_eq!((written.arrays, written.shared), (5, 3));
        assert_eq!(text(&path, "b/params.txt"), "layer/w a/0\nlayer/b:0 1\n");
        // Also reads the deflated entries of both tags.
        let both = Model::open(&path).unwrap();
        both.check(&CheckOptions::new())
            .unwrap()
            .into_result()
            .unwrap();
        let mut draft = Draft::open(&both).unwrap();
        draft
            .add_tag("c".parse().unwrap(), content(1.0, 7.0))
            .unwrap();
        let three = folder.path().join("three.zip");
        let written = draft
            .write(&three, &SameDiffWriteOptions::new().force(true))
            .unwrap();
        assert_eq!(written.shared, 4);
        assert_eq!(text(&three, "c/params.txt"), "layer/w a/0\nlayer/b:0 b/1\n");
        let copied = Model::open(&three).unwrap();
        copied
            .check(&CheckOptions::new())
            .unwrap()
            .into_result()
            .unwrap();
    }
}

#[test]
fn an_extracted_tag_brings_what_it_shares() {
    let draft = tags(&[
        ("a", content(1.0, 2.0)),
        ("b", content(3.0, 2.0)),
        ("c", content(3.0, 4.0)),
    ]);
    let (folder, _, model) = written(&draft);
    let mut draft = Draft::open(&model).unwrap();
    draft.extract_tag("B").unwrap();
    let path = folder.path().join("b.zip");
    write(&draft, &path);
    assert_eq!(text(&path, "tags.txt"), "b\n");
    assert_eq!(text(&path, "b/params.txt"), "layer/w 0\nlayer/b:0 1\n");
    let model = Model::open(&path).unwrap();
    let tag = model.default_tag();
    assert!(
        tag.parameter("layer/b:0")
            .unwrap()
            .equals(&floats(&[3], 2.0))
            .unwrap()
    );
    let report = model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(report.arrays, 4);
}

#[test]
fn what_a_dropped_tag_owned_goes_to_the_oldest_that_uses_it() {
    let draft = tags(&[
        ("a", content(1.0, 2.0)),
        ("b", content(3.0, 2.0)),
        ("c", content(3.0, 2.0)),
    ]);
    let (folder, _, model) = written(&draft);
    let mut draft = Draft::open(&model).unwrap();
    draft.drop_tag("a").unwrap();
    let path = folder.path().join("rest.zip");
    write(&draft, &path);
    assert_eq!(text(&path, "b/params.txt"), "layer/w 0\nlayer/b:0 1\n");
    assert_eq!(text(&path, "c/params.txt"), "layer/w b/0\nlayer/b:0 b/1\n");
    draft.drop_tag("c").unwrap();
    let error = draft.drop_tag("b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(
        draft.drop_tag("a").unwrap_err().kind(),
        ErrorKind::UnknownTag
    );
}

#[test]
fn models_are_merged_in_order_of_age() {
    let (folder, _, first) = written(&tags(&[("a", content(1.0, 2.0))]));
    let (_folder, _, second) = written(&tags(&[("A", content(1.0, 5.0))]));
    let mut draft = Draft::open(&first).unwrap();
    let mut other = Draft::open(&second).unwrap();
    assert_eq!(
        draft.merge(other.clone()).unwrap_err().kind(),
        ErrorKind::DuplicateTag
    );
    other.rename_tag("a", "z".parse().unwrap()).unwrap();
    draft.merge(other).unwrap();
    let path = folder.path().join("both.zip");
    assert_eq!(write(&draft, &path).arrays, 8);
    draft.deduplicate().unwrap();
    let path = folder.path().join("deduplicated.zip");
    // Each tag has four arrays, and only `layer/b:0` differs between the tags.
    assert_eq!(write(&draft, &path).arrays, 5);
    assert_eq!(text(&path, "tags.txt"), "a\nz\n");
    assert_eq!(text(&path, "z/params.txt"), "layer/w a/0\nlayer/b:0 1\n");
    let model = Model::open(&path).unwrap();
    model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
}

#[test]
fn a_tag_gets_another_name_and_its_files_go_along() {
    let draft = tags(&[("a", content(1.0, 2.0)), ("b", content(3.0, 2.0))]);
    let (folder, _, model) = written(&draft);
    let mut draft = Draft::open(&model).unwrap();
    let taken = draft.rename_tag("a", "B".parse().unwrap()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::DuplicateTag);
    let unknown = draft.rename_tag("c", "d".parse().unwrap()).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownTag);
    draft.rename_tag("a", "start".parse().unwrap()).unwrap();
    // A tag may be renamed to its own name in a different case.
    draft.rename_tag("b", "B".parse().unwrap()).unwrap();
    let path = folder.path().join("renamed.zip");
    write(&draft, &path);
    assert_eq!(text(&path, "tags.txt"), "start\nB\n");
    assert_eq!(
        text(&path, "B/params.txt"),
        "layer/w 0\nlayer/b:0 start/1\n"
    );
    let model = Model::open(&path).unwrap();
    let report = model.check(&CheckOptions::new()).unwrap();
    report.into_result().unwrap();
}

#[test]
fn a_variable_of_a_tag_gets_another_name_and_its_files_stay_shared() {
    let draft = tags(&[("a", content(1.0, 2.0)), ("b", content(3.0, 2.0))]);
    let (folder, _, model) = written(&draft);
    let mut draft = Draft::open(&model).unwrap();
    for (from, to, kind) in [
        ("none", "x", ErrorKind::UnknownVariable),
        ("layer/w", "out", ErrorKind::DuplicateName),
        ("layer/w", "two words", ErrorKind::NameNotRepresentable),
        ("layer/w", "", ErrorKind::NameNotRepresentable),
    ] {
        let error = draft.rename_variable("b", from, to).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let unknown = draft.rename_variable("c", "layer/w", "w").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownTag);
    draft.rename_variable("B", "layer/w", "weights").unwrap();
    draft.rename_variable("b", "layer/b:0", "bias").unwrap();
    // A variable without values isn't in any list, so its new name may contain spaces.
    draft.rename_variable("b", "out", "the output").unwrap();
    let path = folder.path().join("renamed.zip");
    assert_eq!(write(&draft, &path).arrays, 6);
    assert_eq!(text(&path, "a/params.txt"), "layer/w 0\nlayer/b:0 1\n");
    assert_eq!(text(&path, "b/params.txt"), "weights 0\nbias a/1\n");
    assert_eq!(text(&path, "b/updater.txt"), "weights 0 a/1\n");
    let model = Model::open(&path).unwrap();
    let tag = model.default_tag();
    let operation = tag.graph().unwrap().operations.remove(0);
    assert_eq!(operation.inputs, ["in", "weights", "bias"]);
    assert_eq!(operation.outputs, ["the output"]);
    let w = tag.parameter("weights").unwrap();
    assert!(w.equals(&floats(&[2, 3], 3.0)).unwrap());
    let report = model.check(&CheckOptions::new()).unwrap();
    report.into_result().unwrap();
}

#[test]
fn a_graph_is_read_within_the_limits_of_its_model_to_rename_a_variable() {
    let (_folder, path, _) = written(&tags(&[("a", content(1.0, 2.0))]));
    let limits = SameDiffLimits::new().max_graph_size(100);
    let model = Model::open_with(&path, &ModelOptions::new().limits(limits)).unwrap();
    let limited = Draft::open(&model).unwrap();
    let mut draft = tags(&[("b", content(1.0, 2.0))]);
    draft.merge(limited).unwrap();
    draft.rename_variable("b", "out", "other").unwrap();
    let error = draft.rename_variable("a", "out", "other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn a_file_is_edited_in_its_own_place() {
    let (folder, path, model) =
        written(&tags(&[("a", content(1.0, 2.0)), ("b", content(3.0, 2.0))]));
    let mut draft = Draft::open(&model).unwrap();
    draft.drop_tag("a").unwrap();
    let error = draft
        .write(&path, &SameDiffWriteOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    draft
        .write(&path, &SameDiffWriteOptions::new().force(true))
        .unwrap();
    assert_eq!(Model::open(&path).unwrap().tags().len(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn values_and_the_graph_must_fit() {
    for (content, kind) in [
        (TagContent::new(graph()), ErrorKind::MissingParameter),
        (
            content(1.0, 2.0).parameter("in", floats(&[], 0.0)),
            ErrorKind::UnexpectedParameter,
        ),
        (
            content(1.0, 2.0).parameter("none", floats(&[], 0.0)),
            ErrorKind::UnexpectedParameter,
        ),
        (
            content(1.0, 2.0).parameter("layer/w", floats(&[], 0.0)),
            ErrorKind::DuplicateLine,
        ),
        (
            content(1.0, 2.0).updater_states("layer/w", []),
            ErrorKind::DuplicateLine,
        ),
        (
            content(1.0, 2.0).updater_states("x", []),
            ErrorKind::InvalidConfig,
        ),
    ] {
        let error = Draft::new()
            .add_tag("a".parse().unwrap(), content)
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let mut spaced = graph();
    spaced.variables[1].name = "layer w".to_owned();
    spaced.operations.clear();
    let content = TagContent::new(spaced)
        .parameter("layer w", floats(&[2, 3], 1.0))
        .parameter("layer/b:0", floats(&[3], 1.0));
    let error = Draft::new()
        .add_tag("a".parse().unwrap(), content)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameNotRepresentable);
    let error = Draft::new()
        .write("none.zip", &SameDiffWriteOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn entries_that_the_format_does_not_know_are_kept() {
    let (folder, path, _) = written(&tags(&[("a", content(1.0, 2.0))]));
    let mut bytes = Vec::new();
    fs::File::open(&path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    let mut archive = zip::ZipWriter::new_append(std::io::Cursor::new(bytes)).unwrap();
    let options = zip::write::SimpleFileOptions::default();
    for name in ["README", "a/params_maps.txt", "a/params/99.fb"] {
        archive.start_file(name, options).unwrap();
        std::io::Write::write_all(&mut archive, b"kept").unwrap();
    }
    let path = folder.path().join("strange.zip");
    fs::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    let model = Model::open(&path).unwrap();
    let report = model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(
        report.warnings,
        [
            "README: the format does not know this entry",
            "a/params_maps.txt: the format does not know this entry",
            "a/params/99.fb: nothing refers to this file",
        ]
    );
    let mut draft = Draft::open(&model).unwrap();
    draft.rename_tag("a", "b".parse().unwrap()).unwrap();
    let copy = folder.path().join("copy.zip");
    write(&draft, &copy);
    assert_eq!(text(&copy, "b/params_maps.txt"), "kept");
    assert_eq!(text(&copy, "b/params/99.fb"), "kept");
    assert_eq!(text(&copy, "README"), "kept");
    draft.collect_garbage();
    let clean = folder.path().join("clean.zip");
    write(&draft, &clean);
    assert!(!entries(&clean).contains(&"b/params/99.fb".to_owned()));
}

#[test]
fn arrays_that_the_graph_does_not_allow_are_refused_before_they_are_written() {
    let graph = || TagContent::new(graph());
    let good = || graph().parameter("layer/b:0", floats(&[3], 1.0));
    let whole = || good().parameter("layer/w", floats(&[2, 3], 1.0));
    let doubles = {
        let info = ArrayInfo::new(Nd4jType::Double, [2, 3]).unwrap();
        Array::from_bytes(info, vec![0; 48]).unwrap()
    };
    let table = [
        (
            good().parameter("layer/w", floats(&[3, 2], 1.0)),
            ErrorKind::ArrayMismatch,
        ),
        (
            good().parameter("layer/w", doubles),
            ErrorKind::ArrayMismatch,
        ),
        (
            whole().updater_states("layer/b:0", [floats(&[3], 0.0)]),
            ErrorKind::UnexpectedParameter,
        ),
        (
            whole().updater_states("in", [floats(&[1, 2], 0.0)]),
            ErrorKind::UnexpectedParameter,
        ),
    ];
    for (content, kind) in table {
        let error = Draft::new()
            .add_tag("t".parse().unwrap(), content)
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(Draft::new().add_tag("t".parse().unwrap(), whole()).is_ok());
}

#[test]
fn no_tag_gets_the_name_of_a_folder_that_is_of_none() {
    let mut stray = Entries::good();
    stray.put("C/graph.fb", *b"not a tag's");
    let stray = || Draft::open(&open(stray.archive()).unwrap()).unwrap();
    let add =
        |draft: &mut Draft, name: &str| draft.add_tag(name.parse().unwrap(), content(1.0, 2.0));
    let error = add(&mut stray(), "c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTag, "{error}");
    let error = stray().rename_tag("a", "c".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTag, "{error}");
    let other = || tags(&[("c", content(1.0, 2.0))]);
    let error = stray().merge(other()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTag, "{error}");
    let mut lone = stray();
    lone.extract_tag("a").unwrap();
    let error = other().merge(lone).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTag, "{error}");
    assert!(add(&mut stray(), "d").is_ok());
}

#[test]
fn texts_of_one_shape_and_other_lengths_are_not_the_same() {
    let mut graph = Graph::default();
    let variable = SameDiffVariable::new("words", VarType::Constant, Nd4jType::Utf8, [2]);
    graph.variables.push(variable);
    let of = |texts: &[&str]| {
        let array = Array::from_strings([2], texts).unwrap();
        TagContent::new(graph.clone()).parameter("words", array)
    };
    let tags = [
        ("long", of(&["a long text", "another"])),
        ("short", of(&["a", "b"])),
        ("longer", of(&["a long text", "another one"])),
        ("same", of(&["a long text", "another one"])),
    ];
    let (_folder, path, model) = written(&self::tags(&tags));
    assert_eq!(text(&path, "same/params.txt"), "words longer/0\n");
    let texts = |tag| model.tag(tag).unwrap().parameter("words").unwrap();
    assert_eq!(texts("short").strings().unwrap(), ["a", "b"]);
    assert_eq!(texts("same").strings().unwrap()[1], "another one");
}

#[test]
fn an_array_in_another_order_of_bytes_is_shared_too() {
    // The arrays are deflated, big-endian and in column order.
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/samediff/other.zip");
    let model = Model::open(&other).unwrap();
    let tag = model.default_tag();
    let mut content = TagContent::new(tag.graph().unwrap());
    for name in ["w", "b"] {
        content = content.parameter(name, tag.parameter(name).unwrap());
    }
    for compression in [ZipCompression::Keep, ZipCompression::Stored] {
        let mut draft = Draft::open(&model).unwrap();
        draft
            .add_tag("two".parse().unwrap(), content.clone())
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.zip");
        let options = SameDiffWriteOptions::new().compression(compression);
        assert_eq!(draft.write(&path, &options).unwrap().shared, 2);
        let both = Model::open(&path).unwrap();
        let read = both.tag("two").unwrap().parameter("w").unwrap();
        assert!(read.equals(&tag.parameter("w").unwrap()).unwrap());
    }
}

#[test]
fn arrays_that_are_not_written_yet_are_deduplicated_too() {
    let (folder, _, model) = written(&tags(&[("old", content(1.0, 2.0))]));
    let mut draft = Draft::open(&model).unwrap();
    // Merging doesn't deduplicate equal arrays.
    for (tag, w) in [("new", 1.0), ("other", 5.0), ("newest", 5.0)] {
        draft.merge(tags(&[(tag, content(w, 2.0))])).unwrap();
    }
    let path = folder.path().join("apart.zip");
    assert_eq!(write(&draft, &path).arrays, 16);
    draft.deduplicate().unwrap();
    let path = folder.path().join("small.zip");
    // In each tag, `layer/w` and its first state depend on one number; everything else is equal.
    assert_eq!(write(&draft, &path).arrays, 6);
    for (tag, owner) in [("new", "old"), ("newest", "other")] {
        let params = format!("layer/w {owner}/0\nlayer/b:0 old/1\n");
        assert_eq!(text(&path, &format!("{tag}/params.txt")), params);
        let updater = format!("layer/w {owner}/0 old/1\n");
        assert_eq!(text(&path, &format!("{tag}/updater.txt")), updater);
    }
    let model = Model::open(&path).unwrap();
    let report = model.check(&CheckOptions::new()).unwrap();
    report.into_result().unwrap();
}
