//! Fuzz targets for libFuzzer, which include the targets in
//! `crates/record-file/tests/it/targets.rs` and `crates/core/tests/it/targets`, and their seeds.
//!
//! Each parser of untrusted bytes has a target:
//!
//! | input | target |
//! | --- | --- |
//! | a Riegeli/records file, from its beginning to its end and after damage | `sequence` |
//! | the same at any position, with searching and seeking | `positioned` |
//! | a simple chunk, its codecs included | `simple_chunk` |
//! | a transposed chunk, and parts of its records | `transposed_chunk` |
//! | a file's metadata | `metadata` |
//! | positions and options of writers as text | `text` |
//! | a written file, read again | `round_trip` |
//! | the trailer of a `.cpb` file | `trailer` |
//! | chunks with placeholders or without, at any place: plan, merge, check, and `get` compared with
//! the merge | `chunks` |
//! | a set of several files, with false names, sizes, checksums and bytes | `several_files` |
//! | a trailer that is itself in chunks, repeatedly | `trailer_levels` |
//! | schemas: descriptor sets, and those inside a file | `schema` |
//! | paths and queries as text, paths as tags | `path` |
//! | any protobuf message, with a type or without: sizes, comparison, parts, splitting, Merkle
//! roots | `message` |
//! | edits of a message, in one piece and in chunks: changes, a value replaced, other compression, and
//! what is left of a damaged file | `edits` |
//! | a SavedModel: its meta graphs, assets and fingerprint, as bytes and as text | `saved_model` |
//! | a checkpoint's index and data | `checkpoint` |
//! | a SameDiff model: zip, FlatBuffers, tags | `samediff` |
//! | Paddle's tensor streams, and programs | `paddle_stream`, `paddle_program` |
//! | a program with a file of parameters: the model as one message, and in other files |
//! `paddle_model` |
//! | a model that is externalized and restored, and the record of the original | `externalized`
//! |
//! | frames of transfers, from one connection or several | `receiver` |
//! | plans of work in parts, and reports | `parts` |
//! | sequences of messages, delimited or in records | `messages` |
//! | ONNX models, and the references in them | `onnx_model`, `onnx_reference` |
//! | tensors in a GraphDef or an ONNX model, in one piece and in chunks | `tensors` |
//! | signatures, keys, and signed statements | `signature` |
//! | elements of a message as rows of columns | `columns` |
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

/// Returns the target with this name.
///
/// # Panics
///
/// If there is no such target.
#[must_use]
pub fn target(name: &str) -> fn(&[u8]) {
    if name == "receiver" {
        return transfer_targets::receiver;
    }
    let mut all = targets::TARGETS.iter().chain(&core_targets::TARGETS);
    let found = all.find(|target| target.0 == name);
    found.expect("a target of this name").1
}

/// Returns a type with a field of every kind.
#[must_use]
pub fn every_kind() -> prost_reflect::MessageDescriptor {
    merge_support::schema::descriptor()
}

/// Returns a record file made from arbitrary bytes, in which each record is preceded by its length.
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

/// Returns this package's folder on the machine that built the target.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder for the seeds of a target, and creates it if it doesn't exist. The folder is
/// inside the folder that the environment variable `FUZZ_CORPUS` names, or inside `corpus` by
/// default. Returns `None` on a machine without the sources, where a target runs with its packaged
/// seeds.
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

/// Adds a target's seeds to its corpus in cargo-fuzz's folder.
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

/// Adds fixtures to the corpus of a target: the files in a folder of `tests/data` that have one of
/// these extensions and aren't longer than an input.
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

/// Adds a small SameDiff model, the same model in the classic file format, and fixtures in other
/// forms to the corpus of `samediff`.
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
