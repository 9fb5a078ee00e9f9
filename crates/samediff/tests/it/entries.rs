//! Models as lists of archive entries, which a test can change arbitrarily.

use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use proto_splitter_samediff::{
    Array, CheckOptions, Draft, Error, Graph, Model, ModelOptions, Nd4jType, Operation,
    SameDiffVariable, TagContent, VarType,
};

use crate::support::{content, written};

/// The names and contents of an archive's entries.
#[derive(Clone)]
pub(crate) struct Entries(pub(crate) Vec<(String, Vec<u8>)>);

impl Entries {
    /// Returns the entries of a valid model. It has two tags, and the second refers to files of the
    /// first.
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

    /// Replaces the second tag's graph with another valid graph. Then replaces up to `places`
    /// occurrences of the bytes `there` in the new graph with `instead`.
    pub(crate) fn put_graph(&mut self, there: &[u8], instead: &[u8], places: usize) {
        let mut bytes = graph_of_names();
        let found = bytes.windows(there.len()).enumerate();
        let found = found.filter(|(_, window)| *window == there);
        let found: Vec<usize> = found.map(|(at, _)| at).take(places).collect();
        assert!(!found.is_empty(), "{}", there.escape_ascii());
        for at in found {
            bytes[at..at + instead.len()].copy_from_slice(instead);
        }
        self.put("b/graph.fb", bytes);
    }

    pub(crate) fn get(&mut self, name: &str) -> &mut Vec<u8> {
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

/// Opens and checks an archive, and returns the first error. Panics if there is none.
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

/// Returns the content of an array's file, as this crate writes it.
pub(crate) fn file_of(array: Array) -> Vec<u8> {
    let dims = array
        .info()
        .shape()
        .iter()
        .map(|&dim| dim as i64)
        .collect::<Vec<_>>();
    let mut graph = Graph::default();
    graph.variables.push(SameDiffVariable::new(
        "x",
        VarType::Constant,
        array.info().dtype(),
        dims,
    ));
    entry_of(
        TagContent::new(graph).parameter("x", array),
        "t/params/0.fb",
    )
}

/// Returns the content of the entry `name` in a model that has only the tag "t", with this content.
fn entry_of(content: TagContent, name: &str) -> Vec<u8> {
    let mut draft = Draft::new();
    draft.add_tag("t".parse().unwrap(), content).unwrap();
    let (_folder, path, _) = written(&draft);
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    let mut entry = archive.by_name(name).unwrap();
    entry.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Argument of [`Entries::put_graph`] that replaces all occurrences.
pub(crate) const ALL: usize = usize::MAX;

/// Encoded beginning of the vector of integer arguments in [`graph_of_names`]: the number of
/// arguments, and the first argument.
pub(crate) const ARGUMENTS: &[u8] = &[2, 0, 0, 0, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

/// Returns the content of a `graph.fb` whose names a test can replace. Its variables have no
/// values.
fn graph_of_names() -> Vec<u8> {
    let mut graph = Graph::default();
    for name in ["var-1", "var-2", "in-1", "out-1", "loss-1"] {
        let variable = SameDiffVariable::new(name, VarType::Array, Nd4jType::Float, []);
        graph.variables.push(variable);
    }
    for name in ["op-1", "op-2"] {
        graph.operations.push(Operation::new(name, "op"));
    }
    let operation = &mut graph.operations[0];
    operation.inputs = vec!["in-1".to_owned()];
    operation.outputs = vec!["out-1".to_owned()];
    operation.i_args = vec![("key-1".to_owned(), -7), ("key-2".to_owned(), 7)];
    graph.loss_variables = vec!["loss-1".to_owned()];
    entry_of(TagContent::new(graph), "t/graph.fb")
}
