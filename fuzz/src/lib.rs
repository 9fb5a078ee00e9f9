//! Fuzz targets for libFuzzer, and their seeds. Many of the targets are those in
//! `crates/record-file/tests/it/targets.rs` and `crates/core/tests/it/targets`.
//!
//! Each parser of untrusted bytes has a target:
//!
//! | input | target |
//! | --- | --- |
//! | a Riegeli/records file, read from beginning to end, and recovered after damage | `sequence` |
//! | a Riegeli/records file, read at any position, with searching and seeking | `positioned` |
//! | a simple chunk, including its codecs | `simple_chunk` |
//! | a transposed chunk, and parts of its records | `transposed_chunk` |
//! | the metadata of a record file | `metadata` |
//! | positions and writer options as text | `text` |
//! | a written record file, which is read again | `round_trip` |
//! | the trailer of a `.cpb` file | `trailer` |
//! | chunks with or without placeholders, at any field path: plan, merge, check, and `get` compared with the merge | `chunks` |
//! | a set of several files, with false names, sizes, checksums and bytes | `several_files` |
//! | a trailer that is itself in chunks, on several levels | `trailer_levels` |
//! | schemas: descriptor sets, and the schemas in files | `schema` |
//! | paths and queries as text, paths as tags | `path` |
//! | any protobuf message, of known or unknown type: sizes, comparison, parts, splitting, Merkle roots | `message` |
//! | edits of a plain or chunked message: changes, replaced values, another compression, and salvaging a damaged file | `edits` |
//! | a SavedModel, as bytes and as text: its meta graphs, assets and fingerprint | `saved_model` |
//! | a checkpoint's index and data | `checkpoint` |
//! | a SameDiff model: zip, FlatBuffers, tags | `samediff` |
//! | Paddle's tensor streams, and programs | `paddle_stream`, `paddle_program` |
//! | a Paddle program and a file of parameters: the model as one message, and in other files | `paddle_model` |
//! | a model that is externalized and restored, and the record of the original | `externalized` |
//! | frames of transfers, from one connection or several | `receiver` |
//! | plans for splits in parts, and reports of parts | `parts` |
//! | sequences of messages, delimited or in records | `messages` |
//! | ONNX models, and their references to external data | `onnx_model`, `onnx_reference` |
//! | XLA's split protos, executables and profiles in records | `split_proto` |
//! | tensors in a GraphDef or an ONNX model, in one piece and in chunks | `tensors` |
//! | signatures, keys, and signed statements | `signature` |
//! | elements of a message as the rows of a table | `columns` |
//! | responses of an object store, and URLs with secrets | `stored_object` |
#![allow(dead_code, reason = "the tests of record-file and core use more of it")]

use std::path::{Path, PathBuf};

#[path = "../../crates/record-file/tests/it/support"]
mod support {
    pub(crate) mod frame;
}
#[path = "../../crates/record-file/tests/it/targets.rs"]
mod targets;

#[path = "../../crates/core/tests/it/targets/mod.rs"]
mod core_targets;
#[path = "../../crates/transfer/tests/it/targets.rs"]
mod transfer_targets;

#[path = "../../crates/core/tests/it/merge_support/mod.rs"]
mod merge_support;

/// Returns the fuzz target with this name.
///
/// # Panics
///
/// If no target has this name.
#[must_use]
pub fn target(name: &str) -> fn(&[u8]) {
    if name == "receiver" {
        return transfer_targets::receiver;
    }
    let mut all = targets::TARGETS.iter().chain(&core_targets::TARGETS);
    let found = all.find(|target| target.0 == name);
    found.expect("a target of this name").1
}

/// Returns a message type that has a field of every kind.
#[must_use]
pub fn every_kind() -> prost_reflect::MessageDescriptor {
    merge_support::schema::descriptor()
}

/// Returns a record file whose records are made from arbitrary bytes: each record is preceded by a
/// byte for its length.
///
/// # Panics
///
/// If there is not enough memory.
#[must_use]
pub fn records(mut data: &[u8]) -> Vec<u8> {
    let mut writer = record_file::RecordWriter::with_defaults(Vec::new());
    while let Some((&len, rest)) = data.split_first() {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(len)));
        writer.write_record(record).expect("memory takes it");
        data = rest;
    }
    writer.finish().expect("memory takes it")
}

/// Returns the folder of this package on the machine that built the target.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder for the seeds of the target `name`, and creates it if it doesn't exist. The
/// folder is inside the folder that the environment variable `FUZZ_CORPUS` names (default: `corpus`
/// in this package). Returns `None` on a machine without the sources, where a target runs with its
/// packaged seeds.
///
/// # Panics
///
/// If the folder can't be created.
#[must_use]
pub fn corpus(name: &str) -> Option<PathBuf> {
    let corpora = std::env::var_os("FUZZ_CORPUS").map_or_else(|| root().join("corpus"), Into::into);
    let corpus = root().is_dir().then(|| corpora.join(name))?;
    std::fs::create_dir_all(&corpus).expect("a folder for the corpus");
    Some(corpus)
}

/// Adds the seeds of the target `name` to its corpus.
///
/// # Panics
///
/// If the seeds can't be read or written.
pub fn plant(name: &str) {
    let Some(corpus) = corpus(name) else { return };
    let files = root().join("../tests/data/riegeli");
    let is_of_core = core_targets::TARGETS.iter().any(|target| target.0 == name);
    let seeds = if name == "receiver" {
        transfer_targets::seeds()
    } else if is_of_core {
        core_targets::seeds(name)
    } else {
        targets::seeds(name, &files)
    };
    for (index, seed) in seeds.iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{index:03}")), seed).expect("a seed");
    }
}

/// Adds test files to the corpus of the target `name`: those in a folder of `tests/data` that have
/// one of these extensions and aren't larger than libFuzzer's inputs.
///
/// # Panics
///
/// If the seeds can't be read or written.
pub fn plant_fixtures(name: &str, folder: &str, extensions: &[&str]) {
    const LONGEST: usize = 8192;
    let Some(corpus) = corpus(name) else { return };
    let data = root().join("../tests/data");
    let mut open = vec![data.join(folder)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("the fixtures") {
            let path = entry.expect("a fixture").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let extension = path.extension().and_then(|extension| extension.to_str());
            if !extension.is_some_and(|extension| extensions.contains(&extension)) {
                continue;
            }
            let bytes = std::fs::read(&path).expect("a fixture");
            if bytes.len() <= LONGEST {
                let place = path.strip_prefix(&data).expect("it is in the folder");
                let name = place.to_string_lossy().replace(['/', '\\'], "-");
                std::fs::write(corpus.join(name), bytes).expect("a seed");
            }
        }
    }
}

/// Adds seeds to the corpus of `samediff`: a small SameDiff model, the same model in the classic
/// file format, and test files in other formats.
///
/// # Panics
///
/// If the seeds can't be written.
pub fn plant_samediff() {
    use proto_splitter_samediff::{
        Array, ArrayInfo, Draft, Graph, Model, Nd4jType, SameDiffVariable, SameDiffWriteOptions,
        TagContent, VarType, write_classic,
    };

    let Some(corpus) = corpus("samediff") else {
        return;
    };
    let info = ArrayInfo::new(Nd4jType::Int16, [2]).expect("a shape");
    let array = Array::from_bytes(info, vec![1, 0, 2, 0]).expect("an array");
    let texts = Array::from_strings([2], &["a", ""]).expect("texts");
    let mut graph = Graph::default();
    graph.variables = vec![
        SameDiffVariable::new("x", VarType::Variable, Nd4jType::Int16, [2]),
        SameDiffVariable::new("t", VarType::Constant, Nd4jType::Utf8, [2]),
    ];
    let content = TagContent::new(graph)
        .parameter("x", array.clone())
        .parameter("t", texts)
        .updater_states("x", [array]);
    let mut draft = Draft::new();
    for tag in ["a", "b"] {
        let tag = tag.parse().expect("a tag");
        draft.add_tag(tag, content.clone()).expect("a good model");
    }
    let options = SameDiffWriteOptions::new().force(true);
    let model = corpus.join("seed-model");
    draft.write(&model, &options).expect("a seed");
    let model = Model::open(model).expect("a model");
    write_classic(&model.default_tag(), corpus.join("seed-classic"), &options).expect("a seed");
    plant_fixtures(
        "samediff",
        "samediff",
        &["fb", "safetensors", "sdnb", "sdz", "zip"],
    );
}
