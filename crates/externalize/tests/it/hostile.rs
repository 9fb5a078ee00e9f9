//! Models that lie, and files that do.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::wire::put_varint;
use proto_splitter_externalize::{ExternalizePlan, internalize};
use proto_splitter_graph_def::proto::NodeDef;
use proto_splitter_saved_model::proto::SavedModel;

use crate::models::{call, constant, function, model};
use crate::{externalize, files, options, write_model};

fn refused(model: &SavedModel, kind: ErrorKind, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), model);
    let error = externalize(&path, &folder.path().join("out")).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(what), "{what}: {error}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(
        files(folder.path()),
        ["model/saved_model.pb"],
        "nothing is left"
    );
}

#[test]
fn functions_that_do_not_fit_together_are_an_error_that_names_one() {
    let x = || vec![constant("x", 1)];
    let to = |name: &str| vec![constant("x", 1), call("c", "PartitionedCall", &[name])];
    let invalid = ErrorKind::InvalidMessage;
    for (what, functions) in [
        (
            "two functions are called \"f\"",
            vec![function("f", x()), function("f", x())],
        ),
        ("\"g\", which isn't there", vec![function("f", to("g"))]),
        ("calls itself", vec![function("f", to("f"))]),
        (
            "calls itself",
            vec![
                function("f", to("g")),
                function("g", to("h")),
                function("h", to("f")),
            ],
        ),
    ] {
        refused(&model(Vec::new(), functions), invalid, what);
    }
    let nodes = vec![constant("x", 1), call("c", "While", &["gone"])];
    refused(
        &model(nodes, Vec::new()),
        invalid,
        "\"gone\", which isn't there",
    );
}

#[test]
fn names_that_are_ours_are_an_error() {
    let exists = ErrorKind::InvalidMessage;
    for name in [
        "proto_splitter_initialize",
        "proto_splitter_index_path",
        "x/proto_splitter_read",
    ] {
        let nodes = vec![constant("x", 1), call(name, "NoOp", &[])];
        refused(&model(nodes, Vec::new()), exists, name);
    }
    let body = vec![
        constant("x", 1),
        call("x/proto_splitter_handle", "NoOp", &[]),
    ];
    refused(
        &model(Vec::new(), vec![function("f", body)]),
        exists,
        "x/proto_splitter_handle",
    );
    let last = format!("__inference_f_{}", u64::MAX);
    let functions = vec![function(&last, vec![constant("x", 1)])];
    refused(
        &model(Vec::new(), functions),
        ErrorKind::LimitExceeded,
        "ends with the number",
    );
}

#[test]
fn an_init_op_that_is_not_there_and_a_constant_with_an_input_are_errors() {
    let mut lies = model(vec![constant("x", 1)], Vec::new());
    let signature = lies.meta_graphs[0]
        .signature_def
        .entry("__saved_model_init_op".to_owned())
        .or_default();
    let info = signature
        .outputs
        .entry("__saved_model_init_op".to_owned())
        .or_default();
    info.encoding =
        Some(proto_splitter_saved_model::proto::tensor_info::Encoding::Name("gone".to_owned()));
    refused(
        &lies,
        ErrorKind::InvalidMessage,
        "\"gone\" initializes the model",
    );
    let mut x = constant("x", 1);
    x.input.push("y".to_owned());
    refused(
        &model(vec![x], Vec::new()),
        ErrorKind::InvalidMessage,
        "has an input",
    );
}

#[test]
fn a_field_that_is_unknown_here_is_not_lost_but_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model(vec![constant("x", 1)], Vec::new()));
    let file = path.join("saved_model.pb");
    let mut bytes = fs::read(&file).unwrap();
    // Field 1000 of the model, a varint.
    put_varint(&mut bytes, 1000 << 3);
    bytes.push(1);
    fs::write(&file, bytes).unwrap();
    let error = externalize(&path, &folder.path().join("out")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
}

#[test]
fn a_model_cut_anywhere_is_an_error_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = vec![constant("x", 1), constant("y", 2)];
    let path = write_model(folder.path(), &model(nodes, Vec::new()));
    let file = path.join("saved_model.pb");
    let good = fs::read(&file).unwrap();
    for len in (1..good.len()).step_by(97).chain([good.len() - 1]) {
        fs::write(&file, &good[..len]).unwrap();
        let out = folder.path().join("out");
        let result = externalize(&path, &out);
        assert!(result.is_err(), "cut to {len}");
        assert!(!out.exists());
    }
}

#[test]
fn millions_of_nodes_are_refused_before_they_take_memory() {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeDef {
        name: "n".to_owned(),
        ..NodeDef::default()
    };
    let mut one = vec![0x0a];
    put_varint(&mut one, node.encoded_len() as u64);
    one.extend(node.encode_to_vec());
    let nodes = one.repeat(4_000_001);
    let mut bytes = nodes;
    for tag in [0x12, 0x12] {
        let mut outer = vec![tag];
        put_varint(&mut outer, bytes.len() as u64);
        outer.append(&mut bytes);
        bytes = outer;
    }
    let path = folder.path().join("model");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("saved_model.pb"), bytes).unwrap();
    let error = ExternalizePlan::new(&path, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("4000000 nodes"), "{error}");
}

#[test]
fn too_small_a_minimum_size_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model(Vec::new(), Vec::new()));
    let error = ExternalizePlan::new(&path, &options().min_size(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn a_bundle_or_a_record_that_lies_is_an_error_of_internalize() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model(vec![constant("x", 1)], Vec::new()));
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    externalize(&path, &out).unwrap();
    let data = "assets/proto_splitter_constants.data-00000-of-00001";
    let index = "assets/proto_splitter_constants.index";
    let record = "assets.extra/proto_splitter_original.pb";
    let spoil = |file: &str, spoil: &dyn Fn(&Path, Vec<u8>)| {
        let path = out.join(file);
        let good = fs::read(&path).unwrap();
        spoil(&path, good.clone());
        let error = internalize(&out, &back, &options());
        fs::write(&path, good).unwrap();
        assert!(error.is_err(), "{file}");
        assert!(!back.exists(), "{file}");
    };
    spoil(data, &|path, good| fs::write(path, &good[1..]).unwrap());
    spoil(data, &|path, _| fs::remove_file(path).unwrap());
    spoil(index, &|path, good| {
        fs::write(path, &good[..good.len() - 1]).unwrap()
    });
    spoil(record, &|path, good| {
        fs::write(path, &good[..good.len() / 2]).unwrap()
    });
    spoil(record, &|path, _| fs::write(path, b"\x08\x09").unwrap());
    internalize(&out, &back, &options()).unwrap();
}
