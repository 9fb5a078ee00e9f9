//! Models and helper functions for the tests.

use std::path::{Path, PathBuf};

use proto_splitter_samediff::{
    Array, ArrayInfo, Draft, Graph, Model, Nd4jType, Operation, SameDiffVariable,
    SameDiffWriteOptions, TagContent, VarType, WrittenSameDiff,
};

/// Returns an array of consecutive floats, of which the first is `first`.
pub(crate) fn floats(shape: &[u64], first: f32) -> Array {
    let info = ArrayInfo::new(Nd4jType::Float, shape).unwrap();
    let mut value = first;
    let mut bytes = Vec::new();
    for _ in 0..info.element_count() {
        bytes.extend(value.to_le_bytes());
        value += 1.0;
    }
    Array::from_bytes(info, bytes).unwrap()
}

/// Returns a graph with a variable, a constant, a placeholder, and an operation with its result.
pub(crate) fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.variables = vec![
        SameDiffVariable::new("in", VarType::Placeholder, Nd4jType::Float, [-1, 2]),
        SameDiffVariable::new("layer/w", VarType::Variable, Nd4jType::Float, [2, 3]),
        SameDiffVariable::new("layer/b:0", VarType::Constant, Nd4jType::Float, [3]),
        SameDiffVariable::new("out", VarType::Array, Nd4jType::Float, [-1, 3]),
    ];
    let mut op = Operation::new("linear", "xw_plus_b");
    op.op_type = 21;
    op.op_num = -8_123_456_789;
    op.inputs = ["in", "layer/w", "layer/b:0"].map(String::from).to_vec();
    op.outputs = vec!["out".to_owned()];
    op.i_args = vec![("transpose".to_owned(), -1), ("axis".to_owned(), i64::MAX)];
    op.t_args = vec![("scale".to_owned(), 0.5)];
    op.b_args = vec![("bias".to_owned(), true), ("fused".to_owned(), false)];
    op.d_args = vec![("out".to_owned(), Nd4jType::Float)];
    graph.operations = vec![op];
    graph.loss_variables = vec!["out".to_owned()];
    graph
}

/// Returns the content of a tag with [`graph`], and Adam's two states for its variable.
pub(crate) fn content(w: f32, b: f32) -> TagContent {
    TagContent::new(graph())
        .parameter("layer/w", floats(&[2, 3], w))
        .parameter("layer/b:0", floats(&[3], b))
        .updater_states("layer/w", [floats(&[2, 3], w + 0.5), floats(&[2, 3], 0.25)])
        .training_config(*b"{}")
}

pub(crate) fn write(draft: &Draft, path: &Path) -> WrittenSameDiff {
    draft.write(path, &SameDiffWriteOptions::new()).unwrap()
}

/// Writes a draft to a file in a temporary folder. Returns the folder, the file's path and the
/// opened model.
pub(crate) fn written(draft: &Draft) -> (tempfile::TempDir, PathBuf, Model) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    write(draft, &path);
    let model = Model::open(&path).unwrap();
    (folder, path, model)
}

/// Returns the data of an array in the form that other libraries expect.
pub(crate) fn values(array: &Array) -> Vec<u8> {
    array.values().unwrap().read_to_vec(1 << 30).unwrap()
}

/// Returns the names of an archive's entries, in archive order. Reads them with the crate `zip`.
pub(crate) fn entries(path: &Path) -> Vec<String> {
    let archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    archive
        .file_names()
        .map(|name| name.unwrap().into_owned())
        .collect()
}

/// Returns the text of an archive's entry. Reads it with the crate `zip`.
pub(crate) fn text(path: &Path, entry: &str) -> String {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let file = archive.by_name(entry).unwrap();
    std::io::read_to_string(file).unwrap()
}
