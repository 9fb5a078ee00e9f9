//! Tests that problems in a model are reported with the right kind, entry and line.

use std::collections::HashMap;
use std::sync::Arc;

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, Draft, Error, ErrorKind, Graph, Nd4jType, SameDiffVariable,
    TagContent, VarType,
};
use record_file::ReadAt;

use crate::entries::{ALL, ARGUMENTS, Entries, file_of, first_error, open};
use crate::support::{floats, graph};

type Change = fn(&mut Entries);

#[test]
fn every_fault_of_a_model_has_an_error_of_its_own() {
    use ErrorKind::*;

    let table: &[(&str, Change, ErrorKind, &str, Option<u64>)] = &[
        (
            "no tags.txt",
            |e| e.drop("tags.txt"),
            MissingEntry,
            "tags.txt",
            None,
        ),
        (
            "no tags",
            |e| e.put("tags.txt", ""),
            InvalidText,
            "tags.txt",
            None,
        ),
        (
            "a tag twice",
            |e| e.put("tags.txt", "a\nb\na\n"),
            DuplicateTag,
            "tags.txt",
            Some(3),
        ),
        (
            "a tag by case",
            |e| e.put("tags.txt", "a\nb\nB\n"),
            DuplicateTag,
            "tags.txt",
            Some(3),
        ),
        (
            "an invalid tag",
            |e| e.put("tags.txt", "a\n../b\n"),
            InvalidTag,
            "tags.txt",
            Some(2),
        ),
        (
            "tags that are not utf-8",
            |e| e.put("tags.txt", b"a\n\xffb\n".to_vec()),
            InvalidText,
            "tags.txt",
            None,
        ),
        (
            "a tag without folder",
            |e| e.put("tags.txt", "a\nb\nc\n"),
            MissingEntry,
            "tags.txt",
            Some(3),
        ),
        (
            "two folders of a tag",
            |e| e.put("B/graph.fb", "x"),
            DuplicateTag,
            "B",
            None,
        ),
        (
            "no graph",
            |e| e.drop("b/graph.fb"),
            MissingEntry,
            "b/graph.fb",
            None,
        ),
        (
            "a damaged graph",
            |e| e.put("b/graph.fb", vec![255; 40]),
            InvalidGraph,
            "b/graph.fb",
            None,
        ),
        (
            "an empty graph",
            |e| e.put("b/graph.fb", ""),
            InvalidGraph,
            "b/graph.fb",
            None,
        ),
        (
            "two variables of one name",
            |e| e.put_graph(b"var-2", b"var-1", ALL),
            DuplicateName,
            "b/graph.fb",
            None,
        ),
        (
            "two operations of one name",
            |e| e.put_graph(b"op-2", b"op-1", ALL),
            DuplicateName,
            "b/graph.fb",
            None,
        ),
        (
            "an input that is not a variable",
            |e| e.put_graph(b"in-1", b"none", 1),
            UnknownVariable,
            "b/graph.fb",
            None,
        ),
        (
            "an output that is not a variable",
            |e| e.put_graph(b"out-1", b"none1", 1),
            UnknownVariable,
            "b/graph.fb",
            None,
        ),
        (
            "a loss that is not a variable",
            |e| e.put_graph(b"loss-1", b"none-1", 1),
            UnknownVariable,
            "b/graph.fb",
            None,
        ),
        (
            "two arguments of one name",
            |e| e.put_graph(b"key-2", b"key-1", ALL),
            ArgumentMismatch,
            "b/graph.fb",
            None,
        ),
        (
            "more names than arguments",
            |e| e.put_graph(ARGUMENTS, &[1], ALL),
            ArgumentMismatch,
            "b/graph.fb",
            None,
        ),
        (
            "no list",
            |e| e.drop("b/params.txt"),
            MissingEntry,
            "b/params.txt",
            None,
        ),
        (
            "a list that is not utf-8",
            |e| e.put("b/params.txt", vec![255]),
            InvalidText,
            "b/params.txt",
            None,
        ),
        (
            "a name twice",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0 a/1\nlayer/w 0\n"),
            DuplicateLine,
            "b/params.txt",
            Some(3),
        ),
        (
            "a state's name twice",
            |e| e.put("b/updater.txt", "layer/w 0\nlayer/w 0\n"),
            DuplicateLine,
            "b/updater.txt",
            Some(2),
        ),
        (
            "a line without a file",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0\n"),
            InvalidLine,
            "b/params.txt",
            Some(2),
        ),
        (
            "a line of a future type",
            |e| e.put("b/params.txt", "layer/w 0 MAP\n"),
            UnsupportedLineType,
            "b/params.txt",
            Some(1),
        ),
        (
            "a malformed reference",
            |e| e.put("b/params.txt", "layer/w a/b/0\n"),
            InvalidReference,
            "b/params.txt",
            Some(1),
        ),
        (
            "an unknown tag",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0 c/1\n"),
            UnknownTag,
            "b/params.txt",
            Some(2),
        ),
        (
            "a dangling reference",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0 a/77\n"),
            DanglingReference,
            "b/params.txt",
            Some(2),
        ),
        (
            "a dangling state",
            |e| e.put("b/updater.txt", "layer/w 77\n"),
            DanglingReference,
            "b/updater.txt",
            Some(1),
        ),
        (
            "a variable without values",
            |e| e.put("b/params.txt", "layer/b:0 a/1\n"),
            MissingParameter,
            "b/params.txt",
            None,
        ),
        (
            "a constant without values",
            |e| e.put("b/params.txt", "layer/w 0\n"),
            MissingParameter,
            "b/params.txt",
            None,
        ),
        (
            "values of an unknown name",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0 a/1\nx 0\n"),
            UnexpectedParameter,
            "b/params.txt",
            Some(3),
        ),
        (
            "values of a placeholder",
            |e| e.put("b/params.txt", "in 0\nlayer/w 0\nlayer/b:0 a/1\n"),
            UnexpectedParameter,
            "b/params.txt",
            Some(1),
        ),
        (
            "values of a result",
            |e| e.put("b/params.txt", "layer/w 0\nlayer/b:0 a/1\nout 0\n"),
            UnexpectedParameter,
            "b/params.txt",
            Some(3),
        ),
        (
            "states of a constant",
            |e| e.put("b/updater.txt", "layer/b:0 0\n"),
            UnexpectedParameter,
            "b/updater.txt",
            Some(1),
        ),
        (
            "another shape",
            |e| e.put("b/params/0.fb", file_of(floats(&[3, 2], 1.0))),
            ArrayMismatch,
            "b/params/0.fb",
            None,
        ),
        (
            "another rank",
            |e| e.put("b/params/0.fb", file_of(floats(&[6], 1.0))),
            ArrayMismatch,
            "b/params/0.fb",
            None,
        ),
        (
            "another type",
            |e| {
                let info = ArrayInfo::new(Nd4jType::Int32, [2, 3]).unwrap();
                e.put(
                    "b/params/0.fb",
                    file_of(Array::from_bytes(info, vec![0; 24]).unwrap()),
                );
            },
            ArrayMismatch,
            "b/params/0.fb",
            None,
        ),
        (
            "a cut array",
            |e| e.get("b/params/0.fb").truncate(60),
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "an empty file",
            |e| e.put("b/params/0.fb", ""),
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        // The rank, dimensions, strides, extras and order of a 2 by 3 array, from byte 40 of its
        // file.
        (
            "a negative rank",
            |e| e.get("b/params/0.fb")[47] = 0x80,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "a rank of 33",
            |e| e.get("b/params/0.fb")[40] = 33,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "a negative dimension",
            |e| e.get("b/params/0.fb")[55] = 0x80,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "too many elements",
            |e| e.get("b/params/0.fb")[54] = 0x7f,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "other strides",
            |e| e.get("b/params/0.fb")[64] = 4,
            UnsupportedArray,
            "b/params/0.fb",
            None,
        ),
        (
            "other extras",
            |e| e.get("b/params/0.fb")[81] = 0x40,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "a sparse array",
            |e| e.get("b/params/0.fb")[80] = 2,
            UnsupportedArray,
            "b/params/0.fb",
            None,
        ),
        (
            "an unknown order",
            |e| e.get("b/params/0.fb")[96] = 100,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "an unsupported type",
            |e| e.get("b/params/0.fb")[32] = 2,
            UnsupportedArray,
            "b/params/0.fb",
            None,
        ),
        (
            "an unknown type",
            |e| e.get("b/params/0.fb")[32] = 99,
            UnsupportedArray,
            "b/params/0.fb",
            None,
        ),
        (
            "an unknown byte order",
            |e| e.get("b/params/0.fb")[33] = 2,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "fewer bytes",
            |e| e.get("b/params/0.fb")[124] = 23,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
        (
            "more bytes than there are",
            |e| e.get("b/params/0.fb")[127] = 0x7f,
            InvalidArray,
            "b/params/0.fb",
            None,
        ),
    ];
    let good = Entries::good();
    let model = open(good.archive()).unwrap();
    model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    let mut messages = HashMap::new();
    for (what, change, kind, entry, line) in table {
        let mut entries = good.clone();
        change(&mut entries);
        let error = first_error(entries.archive());
        let found = (error.kind(), error.entry(), error.line());
        assert_eq!(found, (*kind, Some(*entry), *line), "{what}: {error}");
        let text = error.to_string();
        assert!(!text.contains('\n') && text.starts_with(entry), "{text}");
        if let Some(other) = messages.insert(text.clone(), what) {
            panic!("{what} and {other} have the same message: {text}");
        }
    }
}

#[test]
fn what_is_odd_but_harmless_is_a_warning() {
    let mut entries = Entries::good();
    entries.put("c/graph.fb", "x");
    entries.put("C/params.txt", "x");
    entries.put("a/params/9.fb", file_of(floats(&[6], 1.0)));
    entries.put("b/updater.txt", "layer/w 0 a/1\nnobody 0\n");
    entries.put("a/updater/1.fb", file_of(floats(&[6], 1.0)));
    let tags = entries.0.remove(0);
    entries.0.push(tags);
    let model = open(entries.archive()).unwrap();
    let report = model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(
        report.warnings,
        [
            "tags.txt is not the first entry",
            "c: looks like a tag, but tags.txt has no such tag",
            "a/updater/1.fb: a state of \"layer/w\" has the shape [6], but the variable has another",
            "a/updater/1.fb: a state of \"layer/w\" has the shape [6], but the variable has another",
            "b/updater.txt: line 2: \"nobody\" is not a variable of the graph",
            "a/params/9.fb: nothing refers to this file",
        ]
    );
}

#[test]
fn a_file_to_which_a_faulty_list_refers_or_may_refer_is_not_said_to_be_unused() {
    for (list, lines, kind) in [
        (
            "a/updater.txt",
            "layer/w 0 9\n",
            ErrorKind::DanglingReference,
        ),
        ("a/updater.txt", "in 0 1\n", ErrorKind::UnexpectedParameter),
        (
            "a/params.txt",
            "layer/w 0\nlayer/b:0 1\nin 9\n",
            ErrorKind::UnexpectedParameter,
        ),
    ] {
        let mut entries = Entries::good();
        if lines.contains("in 9") {
            entries.put("a/params/9.fb", file_of(floats(&[6], 1.0)));
        }
        entries.put(list, lines);
        let model = open(entries.archive()).unwrap();
        let report = model.check(&CheckOptions::new()).unwrap();
        let kinds: Vec<_> = report.errors.iter().map(Error::kind).collect();
        assert_eq!(kinds, [kind], "{list}: {lines}");
        let mut warnings = report.warnings.iter();
        let unused = warnings.find(|warning| warning.contains("nothing refers"));
        assert_eq!(unused, None, "{list}: {lines}");
    }
}

#[test]
fn all_faults_are_reported_not_only_the_first() {
    let mut entries = Entries::good();
    entries.put("a/params/0.fb", "");
    entries.drop("b/graph.fb");
    let report = open(entries.archive())
        .unwrap()
        .check(&CheckOptions::new())
        .unwrap();
    let kinds: Vec<_> = report.errors.iter().map(Error::kind).collect();
    assert_eq!(kinds, [ErrorKind::InvalidArray, ErrorKind::MissingEntry]);
}

#[test]
fn tags_are_found_in_any_case() {
    let mut entries = Entries::good();
    entries.put("tags.txt", "A\nb\n");
    entries.put("b/params.txt", "layer/w 0\nlayer/b:0 A/1\n");
    let model = open(entries.archive()).unwrap();
    model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    assert_eq!(model.tag("a").unwrap().name().as_str(), "A");
    let error = model.tag("c").unwrap_err();
    assert_eq!(error.to_string(), "no tag is named \"c\"; there are A, b");
}

/// A source that consists of the given number of zeros.
struct Zeros(u64);

impl ReadAt for Zeros {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = usize::try_from(self.0.saturating_sub(offset))
            .unwrap()
            .min(buf.len());
        buf[..len].fill(0);
        Ok(len)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0)
    }
}

#[test]
fn an_array_over_2_gib_is_refused_with_what_to_do() {
    for (len, fits) in [
        ((1_u64 << 31) - 129, true),
        (1 << 31, false),
        (3 << 30, false),
    ] {
        let info = ArrayInfo::new(Nd4jType::UInt8, [len]).unwrap();
        let array = Array::from_source(info, Arc::new(Zeros(len)), 0, len).unwrap();
        let mut graph = Graph::default();
        let dims = [i64::try_from(len).unwrap()];
        graph.variables.push(SameDiffVariable::new(
            "x",
            VarType::Variable,
            Nd4jType::UInt8,
            dims,
        ));
        let content = TagContent::new(graph).parameter("x", array);
        let added = Draft::new().add_tag("t".parse().unwrap(), content);
        match added {
            Ok(()) => assert!(fits, "{len}"),
            Err(error) => {
                assert!(!fits, "{len}: {error}");
                assert_eq!(error.kind(), ErrorKind::ArrayTooLarge);
                assert!(
                    error.to_string().contains("cut it into several variables"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_graph_must_agree_with_itself() {
    type Change = fn(&mut Graph);

    let table: &[(Change, ErrorKind)] = &[
        (
            |g| g.variables[1].name = "in".into(),
            ErrorKind::DuplicateName,
        ),
        (
            |g| g.operations.push(g.operations[0].clone()),
            ErrorKind::DuplicateName,
        ),
        (
            |g| g.operations[0].inputs[0] = "x".into(),
            ErrorKind::UnknownVariable,
        ),
        (
            |g| g.operations[0].outputs[0] = "x".into(),
            ErrorKind::UnknownVariable,
        ),
        (
            |g| g.loss_variables[0] = "x".into(),
            ErrorKind::UnknownVariable,
        ),
        (
            |g| g.operations[0].i_args[0].0 = "axis".into(),
            ErrorKind::ArgumentMismatch,
        ),
        (
            |g| g.operations[0].b_args[0].0 = "fused".into(),
            ErrorKind::ArgumentMismatch,
        ),
    ];
    for (change, kind) in table {
        let mut changed = graph();
        change(&mut changed);
        let content = TagContent::new(changed);
        let error = Draft::new()
            .add_tag("t".parse().unwrap(), content)
            .unwrap_err();
        assert_eq!(error.kind(), *kind, "{error}");
    }
}
