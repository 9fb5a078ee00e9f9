//! Tests with models written by TensorFlow, synthetic models, and malicious models.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod again;
mod arguments;
mod damage;
mod fixtures;
mod hostile;
mod models;
mod rewriting;

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_externalize::{ExternalizeOptions, ExternalizePlan, Externalized};
use proto_splitter_graph_def::proto::{GraphDef, NodeDef};
use proto_splitter_saved_model::proto::SavedModel;

/// Returns the path of a SavedModel folder written by TensorFlow.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tensorflow");
    root.join(name)
}

/// Returns options that move constants of at least 1 KiB.
pub(crate) fn options() -> ExternalizeOptions {
    ExternalizeOptions::new().min_size(1 << 10)
}

/// Writes a model to a new folder, and returns the folder's path.
pub(crate) fn write_model(folder: &Path, model: &SavedModel) -> PathBuf {
    let path = folder.join("model");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("saved_model.pb"), model.encode_to_vec()).unwrap();
    path
}

pub(crate) fn externalize(from: &Path, to: &Path) -> Result<Externalized> {
    ExternalizePlan::new(from, &options())?.write(to)
}

pub(crate) fn read_model(folder: &Path) -> SavedModel {
    let bytes = fs::read(folder.join("saved_model.pb")).unwrap();
    SavedModel::decode(bytes.as_slice()).unwrap()
}

/// Externalizes a model, and returns the externalized model.
pub(crate) fn externalized(model: &SavedModel) -> SavedModel {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), model);
    let out = folder.path().join("out");
    externalize(&path, &out).unwrap();
    read_model(&out)
}

pub(crate) fn graph(model: &SavedModel) -> &GraphDef {
    model.meta_graphs[0].graph_def.as_ref().unwrap()
}

pub(crate) fn node<'n>(nodes: &'n [NodeDef], name: &str) -> &'n NodeDef {
    let found = nodes.iter().find(|node| node.name == name);
    found.unwrap_or_else(|| panic!("no node {name}"))
}

/// Returns the relative paths of all files in a folder.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut to_do = vec![folder.to_owned()];
    while let Some(at) = to_do.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                to_do.push(path);
            } else {
                let path = path.strip_prefix(folder).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
