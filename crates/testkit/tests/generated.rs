//! Tests that the checked-in Rust code and descriptor sets equal those that are generated from
//! `proto/`. The generated files are checked in so that a build needs no protobuf compiler.
//!
//! `UPDATE_GENERATED=1 cargo test -p proto-splitter-testkit --test generated` rewrites the files.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_build::{Config, Module};
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The generated code of one crate: the packages of `files` and of the files that they import.
/// Files that belong to an earlier schema in the list aren't generated again; code refers to their
/// types by the path of that schema's crate.
struct Schema {
    folder: &'static str,
    module: &'static str,
    files: &'static [&'static str],
}

const SCHEMAS: &[Schema] = &[
    Schema {
        folder: "crates/core/src/proto",
        module: "::proto_splitter_core::proto",
        files: &["tensorflow/proto_splitter/chunk.proto"],
    },
    Schema {
        folder: "crates/parts/src/proto",
        module: "::proto_splitter_parts::proto",
        files: &["proto_splitter/parts/parts.proto"],
    },
    Schema {
        folder: "crates/graph-def/src/proto",
        module: "::proto_splitter_graph_def::proto",
        files: &["tensorflow/core/framework/graph.proto"],
    },
    Schema {
        folder: "crates/saved-model/src/proto",
        module: "::proto_splitter_saved_model::proto",
        files: &[
            "tensorflow/core/protobuf/saved_model.proto",
            "tensorflow/core/protobuf/fingerprint.proto",
            // TensorFlow stores serialized messages of these types in collections and variants.
            "tensorflow/core/framework/variable.proto",
            "tensorflow/core/protobuf/composite_tensor_variant.proto",
            "tensorflow/core/protobuf/control_flow.proto",
            "tensorflow/core/protobuf/queue_runner.proto",
        ],
    },
    Schema {
        folder: "crates/tensor-bundle/src/proto",
        module: "::proto_splitter_tensor_bundle::proto",
        files: &["tensorflow/core/protobuf/tensor_bundle.proto"],
    },
    Schema {
        folder: "crates/paddle/src/proto",
        module: "::proto_splitter_paddle::proto",
        files: &["proto_splitter/paddle/model.proto"],
    },
    Schema {
        folder: "crates/transfer/src/proto",
        module: "::proto_splitter_transfer::proto",
        files: &["proto_splitter/transfer/transfer.proto"],
    },
    Schema {
        folder: "crates/onnx/src/proto",
        module: "::proto_splitter_onnx::proto",
        files: &["onnx/onnx-ml.proto"],
    },
];

/// Large fields that few nodes have. They are boxed: otherwise, an empty node would take kilobytes,
/// since a node of a B-tree map has room for eleven entries.
const BOXED: [&str; 6] = [
    ".tensorflow.AttrValue.value.tensor",
    ".tensorflow.AttrValue.value.shape",
    ".tensorflow.AttrValue.value.list",
    ".tensorflow.AttrValue.value.func",
    ".tensorflow.NodeDef.experimental_debug_info",
    ".tensorflow.NodeDef.experimental_type",
];

/// Type of the map values that are boxed. Most maps have only one or two entries, but a node of a
/// B-tree map has room for eleven.
const BOXED_IN_MAPS: &str = "AttrValue";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Generates the content of all files in the folders of generated code. The keys are paths relative
/// to the workspace's root.
fn generate() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut result = BTreeMap::new();
    let mut done: BTreeMap<String, &str> = BTreeMap::new();
    for schema in SCHEMAS {
        let all = protox::compile(schema.files, [root().join("proto")])
            .unwrap_or_else(|e| panic!("{e:?}"));
        let own = FileDescriptorSet {
            file: all
                .file
                .iter()
                .filter(|f| !done.contains_key(f.name()))
                .map(|f| FileDescriptorProto {
                    source_code_info: None,
                    ..f.clone()
                })
                .collect(),
        };
        result.insert(
            Path::new(schema.folder).join("descriptors.binpb"),
            own.encode_to_vec(),
        );

        let mut config = Config::new();
        config
            .prost_types_path("::prost_reflect::prost_types")
            .bytes(["."])
            .btree_map(["."]);
        for field in BOXED {
            config.boxed(field);
        }
        for file in &all.file {
            let package = file.package();
            if let Some(module) = done.get(file.name()) {
                let messages = file.message_type.iter().map(|m| m.name());
                for name in messages.chain(file.enum_type.iter().map(|e| e.name())) {
                    config.extern_path(format!(".{package}.{name}"), format!("{module}::{name}"));
                }
            }
        }
        config.message_attribute(".", "#[derive(::prost_reflect::ReflectMessage)]");
        for file in &own.file {
            for message in &file.message_type {
                let prefix = file.package().to_owned();
                reflect(&mut config, prefix, message);
            }
        }
        let requests = all
            .file
            .into_iter()
            .map(|f| (Module::from_protobuf_package_name(f.package()), f))
            .collect();
        for (module, code) in config.generate(requests).unwrap() {
            let path = Path::new(schema.folder).join(module.to_file_name_or("_"));
            result.insert(path, boxed_in_maps(&code).into_bytes());
        }

        for file in &own.file {
            done.insert(file.name().to_owned(), schema.module);
        }
    }
    result
}

/// Boxes the values of certain maps in generated code, for which prost-build has no option.
fn boxed_in_maps(code: &str) -> String {
    let mut in_map = false;
    let lines = code.lines().map(|line| {
        let of_map = in_map;
        in_map = line.ends_with("::BTreeMap<") || in_map && !line.trim_start().starts_with('>');
        match line.trim().strip_suffix(',') {
            Some(value) if of_map && value.split("::").last() == Some(BOXED_IN_MAPS) => {
                line.replace(value, &format!("::prost::alloc::boxed::Box<{value}>"))
            }
            _ => line.to_owned(),
        }
    });
    lines.map(|line| line + "\n").collect()
}

/// Adds attributes that specify the full names of a message and its nested messages to the derive
/// macro.
fn reflect(config: &mut Config, prefix: String, message: &DescriptorProto) {
    let name = format!("{prefix}.{}", message.name());
    // Without a leading dot, prost-build matches the path as a suffix. With a leading dot, it would
    // match the path as a prefix, which nested messages also have.
    config.message_attribute(
        &name,
        format!("#[prost_reflect(message_name = \"{name}\", descriptor_pool = \"crate::proto::descriptor_pool()\")]"),
    );
    for nested in &message.nested_type {
        if !nested.options.as_ref().is_some_and(|o| o.map_entry()) {
            reflect(config, name.clone(), nested);
        }
    }
}

/// Returns the paths of all checked-in files in the folders of generated code.
fn checked_in() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for schema in SCHEMAS {
        for entry in fs::read_dir(root().join(schema.folder)).unwrap() {
            found.insert(Path::new(schema.folder).join(entry.unwrap().file_name()));
        }
    }
    found
}

#[test]
fn generated_files_are_fresh() {
    let wanted = generate();
    if std::env::var_os("UPDATE_GENERATED").is_some_and(|v| v != "0") {
        for path in checked_in() {
            if !wanted.contains_key(&path) {
                fs::remove_file(root().join(path)).unwrap();
            }
        }
        for (path, content) in &wanted {
            fs::write(root().join(path), content).unwrap();
        }
    }
    let names: BTreeSet<PathBuf> = wanted.keys().cloned().collect();
    assert_eq!(names, checked_in(), "run with UPDATE_GENERATED=1");
    for (path, content) in wanted {
        let same = fs::read(root().join(&path)).unwrap() == content;
        assert!(
            same,
            "{} is stale: run with UPDATE_GENERATED=1",
            path.display()
        );
    }
}

/// Checks all folders for .proto files, since a file that is listed nowhere would go unnoticed.
#[test]
fn every_proto_file_is_in_a_descriptor_set() {
    fn walk(folder: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "proto") {
                found.insert(path);
            }
        }
    }
    let proto = root().join("proto");
    let mut files = BTreeSet::new();
    walk(&proto, &mut files);
    let mut described = BTreeSet::new();
    for (path, content) in generate() {
        if path.ends_with("descriptors.binpb") {
            let set = FileDescriptorSet::decode(content.as_slice()).unwrap();
            described.extend(set.file.iter().map(|f| proto.join(f.name())));
        }
    }
    described.retain(|p| !p.starts_with(proto.join("google")));
    assert_eq!(files, described);
}
