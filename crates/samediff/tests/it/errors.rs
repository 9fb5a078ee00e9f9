//! What is wrong with a model is said by name, entry and line.

use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, DType, Draft, Error, ErrorKind, Graph, Model, ModelOptions,
    TagContent, VarType, Variable,
};
use record_file::ReadAt;

use crate::support::{content, floats, graph, written};

/// The entries of an archive.
#[derive(Clone)]
pub(crate) struct Entries(pub(crate) Vec<(String, Vec<u8>)>);

impl Entries {
    /// Those of a good model: two tags, of which the second refers to the first.
    pub(crate) fn good() -> Entries {
        let mut draft = Draft::new();
        draft
            .add_tag("a".parse().unwrap(), content(1.0, 2.0))
            .unwrap();
        draft
            .add_tag("b".parse().unwrap(), content(3.0, 2.0))
            .unwrap();
        let (_folder, path, _) = written(&draft);
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut entries = Vec::new();
        for index in 0..archive.len() {
            let mut file = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            entries.push((file.name().unwrap().into_owned(), bytes));
        }
        Entries(entries)
    }

    pub(crate) fn put(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = bytes,
            None => self.0.push((name.to_owned(), bytes)),
        }
    }

    pub(crate) fn drop(&mut self, name: &str) {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != name);
        assert_eq!(self.0.len() + 1, before, "{name}");
    }

    fn get(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self
            .0
            .iter_mut()
            .find(|(known, _)| known == name)
            .unwrap()
            .1
    }

    pub(crate) fn archive(&self) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        for (name, bytes) in &self.0 {
            archive.start_file(name.as_str(), options).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }
}

/// What opening and checking an archive finds first.
pub(crate) fn first_error(archive: Vec<u8>) -> Error {
    match open(archive) {
        Err(error) => error,
        Ok(model) => {
            let report = model.check(&CheckOptions::new());
            report.and_then(|report| report.into_result()).unwrap_err()
        }
    }
}

pub(crate) fn open(archive: Vec<u8>) -> Result<Model, Error> {
    Model::from_source(Arc::new(archive), &ModelOptions::new())
}

/// The file of an array, as this crate writes it.
fn file_of(array: Array) -> Vec<u8> {
    let dims = array
        .info()
        .shape()
        .iter()
        .map(|&dim| dim as i64)
        .collect::<Vec<_>>();
    let mut graph = Graph::default();
    graph.variables.push(Variable::new(
        "x",
        VarType::Constant,
        array.info().dtype(),
        dims,
    ));
    let mut draft = Draft::new();
    draft
        .add_tag(
            "t".parse().unwrap(),
            TagContent::new(graph).parameter("x", array),
        )
        .unwrap();
    let (_folder, path, _) = written(&draft);
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    archive
        .by_name("t/params/0.fb")
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

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
            "tags in no utf-8",
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
            "no list",
            |e| e.drop("b/params.txt"),
            MissingEntry,
            "b/params.txt",
            None,
        ),
        (
            "a list in no utf-8",
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
            "values of no variable",
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
                let info = ArrayInfo::new(DType::Int32, [2, 3]).unwrap();
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
            |e| e.get("b/params/0.fb").truncate(150),
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
        // Rank, dimensions, strides, extras and order of a 2 by 3 array begin at byte 40.
        (
            "a negative rank",
            |e| e.get("b/params/0.fb")[47] = 0x80,
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
    for (what, change, kind, entry, line) in table {
        let mut entries = good.clone();
        change(&mut entries);
        let error = first_error(entries.archive());
        let found = (error.kind(), error.entry(), error.line());
        assert_eq!(found, (*kind, Some(*entry), *line), "{what}: {error}");
        let text = error.to_string();
        assert!(!text.contains('\n') && text.starts_with(entry), "{text}");
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
            "c: looks like a tag, and tags.txt has no such tag",
            "a/updater/1.fb: a state of \"layer/w\" has the shape [6], and the variable another",
            "a/updater/1.fb: a state of \"layer/w\" has the shape [6], and the variable another",
            "b/updater.txt: line 2: \"nobody\" is no variable of the graph",
            "a/params/9.fb: nothing refers to this file",
        ]
    );
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

/// Zeros without end, up to a size.
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
        let info = ArrayInfo::new(DType::UInt8, [len]).unwrap();
        let array = Array::from_source(info, Arc::new(Zeros(len)), 0, len).unwrap();
        let mut graph = Graph::default();
        let dims = [i64::try_from(len).unwrap()];
        graph
            .variables
            .push(Variable::new("x", VarType::Variable, DType::UInt8, dims));
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
