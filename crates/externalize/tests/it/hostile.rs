//! Tests with malicious and damaged models and files.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::wire::put_varint;
use proto_splitter_externalize::{ExternalizePlan, MAX_NODES, RECORD_FILE, Reason, internalize};
use proto_splitter_graph_def::proto::{DataType, NodeDef, TensorProto};
use proto_splitter_saved_model::proto::SavedModel;
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, BundlePlan, NewTensor};

use crate::models::{call, constant, constant_of, function, model, shape};
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
            "\"g\" calls itself",
            vec![function("f", to("g")), function("g", to("g"))],
        ),
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
    // The op can't pass more arguments, so the function reads a variable.
    let nodes = vec![call("c", "SymbolicGradient", &["f"])];
    refused(
        &model(nodes, vec![function("f", body)]),
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
fn constants_that_cannot_be_replaced_cannot_be_mapped_either() {
    let mut with_input = constant("x", 1);
    with_input.input.push("y".to_owned());
    let taken = || {
        vec![
            constant("x", 1),
            call("x/proto_splitter_mapped", "NoOp", &[]),
        ]
    };
    for (what, model) in [
        ("has an input", model(vec![with_input], Vec::new())),
        ("is called", model(taken(), Vec::new())),
        ("is called", model(Vec::new(), vec![function("f", taken())])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = write_model(folder.path(), &model);
        let plan = ExternalizePlan::new(&path, &options().mapped(true)).unwrap();
        let error = plan.write(folder.path().join("out")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}

#[test]
fn a_field_that_is_unknown_here_is_not_lost_but_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model(vec![constant("x", 1)], Vec::new()));
    let file = path.join("saved_model.pb");
    let mut bytes = fs::read(&file).unwrap();
    // Field 1000 of the model is a varint.
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

/// Returns an encoded field with these bytes as its value.
fn field(number: u32, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut field = Vec::new();
    put_varint(&mut field, u64::from(number << 3 | 2));
    put_varint(&mut field, bytes.len() as u64);
    field.append(&mut bytes);
    field
}

#[test]
fn a_constant_whose_shape_is_in_two_pieces_stays_in_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |dims: &[i64], fill: &[f32]| TensorProto {
        tensor_shape: shape(dims),
        float_val: fill.to_vec(),
        ..TensorProto::default()
    };
    let dtype = TensorProto {
        dtype: DataType::DtFloat.into(),
        ..TensorProto::default()
    };
    // Parsers read the shape [2, 512]. The last of the 512 numbers stands for the missing ones.
    let pieces = [dtype, tensor(&[2], &[]), tensor(&[512], &[1.0; 512])];
    let tensor = pieces.map(|piece| piece.encode_to_vec()).concat();
    let value = [field(1, b"value".to_vec()), field(2, field(8, tensor))].concat();
    let node = [
        field(1, b"x".to_vec()),
        field(2, b"Const".to_vec()),
        field(5, value),
    ];
    let path = folder.path().join("model");
    fs::create_dir(&path).unwrap();
    let model = field(2, field(2, field(1, node.concat())));
    fs::write(path.join("saved_model.pb"), model).unwrap();
    let plan = ExternalizePlan::new(&path, &options()).unwrap();
    assert_eq!(plan.constants().len(), 0);
    let reasons: Vec<Reason> = plan.left().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, [Reason::UnusualEncoding]);
}

/// Checks that a model whose graph consists of these bytes is refused.
fn refused_graph(graph: Vec<u8>, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    fs::create_dir(&path).unwrap();
    let model = field(2, field(2, graph));
    fs::write(path.join("saved_model.pb"), model).unwrap();
    let error = externalize(&path, &folder.path().join("out")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains(what), "{error}");
    assert_eq!(files(folder.path()), ["model/saved_model.pb"]);
}

#[test]
fn ten_million_nodes_are_refused_before_they_take_memory() {
    let node = NodeDef {
        name: "n".to_owned(),
        ..NodeDef::default()
    };
    let nodes = field(1, node.encode_to_vec()).repeat(10_000_000);
    refused_graph(nodes.clone(), "4000000 nodes");
    // The nodes are in the body of a function.
    let body = field(3, node.encode_to_vec()).repeat(10_000_000);
    refused_graph(field(2, field(1, body)), "4000000 nodes");
}

#[test]
fn functions_of_no_bytes_are_refused_before_they_take_memory() {
    // Each function takes two bytes in a file, and hundreds in memory.
    let functions = field(1, Vec::new()).repeat(50_000_000);
    refused_graph(field(2, functions), "bytes of memory");
}

#[test]
fn a_record_of_pieces_of_no_bytes_is_refused_before_they_take_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model(vec![constant("x", 1)], Vec::new()));
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    externalize(&path, &out).unwrap();
    let pieces = field(4, Vec::new()).repeat(usize::try_from(MAX_NODES).unwrap() + 2);
    fs::write(out.join(RECORD_FILE), pieces).unwrap();
    let error = internalize(&out, &back, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains(RECORD_FILE), "{error}");
}

#[test]
fn calls_that_would_need_a_million_inputs_are_refused_before_they_get_any() {
    let constants = (0..1024u32).map(|at| {
        let tensor = TensorProto {
            dtype: DataType::DtFloat.into(),
            tensor_shape: shape(&[256]),
            tensor_content: at.to_le_bytes().repeat(256).into(),
            ..TensorProto::default()
        };
        constant_of(&format!("x{at}"), tensor)
    });
    let body = function("f", constants.collect());
    let calls = (0..1025).map(|at| call(&format!("c{at}"), "PartitionedCall", &["f"]));
    let model = model(calls.collect(), vec![body]);
    refused(
        &model,
        ErrorKind::LimitExceeded,
        "calls would need more than 1048576 inputs",
    );
}

/// A sparse file: only its beginning is stored, and the remainder is a hole.
struct Sparse {
    head: Vec<u8>,
    size: u64,
}

impl Sparse {
    /// Writes a model with one node that has about `string` bytes, most of them in a string, and
    /// returns its path.
    fn write(folder: &Path, string: u64) -> std::path::PathBuf {
        let mut sparse = Sparse {
            head: Vec::new(),
            size: string,
        };
        // The string is the last field of a tensor in an attribute's value.
        sparse.wrap(8, &[0x08, 0x07]);
        sparse.wrap(8, &[]);
        let key = field(1, b"value".to_vec());
        sparse.wrap(2, &key);
        let node = [field(1, b"words".to_vec()), field(2, b"Const".to_vec())].concat();
        sparse.wrap(5, &node);
        let function = field(1, field(1, b"__inference_f_1".to_vec()));
        sparse.wrap(3, &function);
        for number in [1, 2, 2, 2] {
            sparse.wrap(number, &[]);
        }
        let path = folder.join("model");
        fs::create_dir(&path).unwrap();
        let file = path.join("saved_model.pb");
        fs::write(&file, &sparse.head).unwrap();
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.set_len(sparse.size).unwrap();
        path
    }

    /// Makes the content the last field of a new message, which begins with the bytes `before`.
    fn wrap(&mut self, number: u32, before: &[u8]) {
        let mut head = Vec::new();
        put_varint(&mut head, u64::from(number << 3 | 2));
        put_varint(&mut head, self.size);
        self.size += (before.len() + head.len()) as u64;
        head.append(&mut self.head);
        self.head = [before, &head].concat();
    }
}

#[test]
fn what_is_too_large_without_its_constants_is_an_error_that_names_the_largest_thing() {
    let folder = tempfile::tempdir().unwrap();
    let path = Sparse::write(folder.path(), 3 << 30);
    let error = ExternalizePlan::new(&path, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let text = error.to_string();
    let what = "the largest part is __inference_f_1/words, of 32212";
    assert!(text.contains(what), "{text}");
    assert!(text.contains("at most 2147483647"), "{text}");
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
    spoil(data, &|path, mut good| {
        good[100] ^= 1;
        fs::write(path, good).unwrap();
    });
    spoil(index, &|path, good| {
        fs::write(path, &good[..good.len() - 1]).unwrap()
    });
    spoil(record, &|path, good| {
        fs::write(path, &good[..good.len() / 2]).unwrap()
    });
    spoil(record, &|path, _| fs::write(path, b"\x08\x09").unwrap());
    // These bundles are undamaged, but differ from the record.
    let prefix = out.join("assets/proto_splitter_constants");
    let good = [data, index].map(|file| fs::read(out.join(file)).unwrap());
    let key = Bundle::open(&prefix).unwrap().tensors()[0]
        .name()
        .to_owned();
    for (what, key, dims, shards) in [
        ("has no tensor", "other", 1024, 1),
        ("the crc32c of the constant", key.as_str(), 1023, 1),
        ("the crc32c of the constant", key.as_str(), 1025, 2),
    ] {
        let bytes = vec![1; dims * 4];
        let tensor = NewTensor::new(key, DataType::DtFloat, [dims as u64], &bytes);
        let plan = BundlePlan::new(vec![tensor], shards).unwrap();
        plan.write(&prefix, &BundleOptions::new().force(true))
            .unwrap();
        let error = internalize(&out, &back, &options()).unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
        assert!(!back.exists(), "{what}");
    }
    for (file, bytes) in [data, index].iter().zip(good) {
        fs::write(out.join(file), bytes).unwrap();
    }
    internalize(&out, &back, &options()).unwrap();
}
