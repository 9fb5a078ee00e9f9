//! Models for the tests.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_onnx::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto,
    StringStringEntryProto, TensorProto, TrainingInfoProto,
};
use proto_splitter_onnx::{OnnxOptions, OnnxSource};
use record_file::ReadAt;

pub(crate) const FLOAT: i32 = 1;
pub(crate) const UINT8: i32 = 2;
pub(crate) const INT64: i32 = 7;
pub(crate) const STRING: i32 = 8;

pub(crate) fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value.into()),
    }
}

/// Returns a tensor that contains these bytes as raw data.
pub(crate) fn raw(name: &str, bytes: impl Into<Vec<u8>>) -> TensorProto {
    let bytes = bytes.into();
    TensorProto {
        dims: vec![i64::try_from(bytes.len()).unwrap()],
        data_type: Some(UINT8),
        name: Some(name.into()),
        raw_data: Some(bytes.into()),
        ..Default::default()
    }
}

/// Returns a tensor of `len` bytes that are external data.
pub(crate) fn external(name: &str, len: i64, entries: &[(&str, &str)]) -> TensorProto {
    TensorProto {
        dims: vec![len],
        data_type: Some(UINT8),
        name: Some(name.into()),
        external_data: entries
            .iter()
            .map(|(key, value)| entry(key, value))
            .collect(),
        data_location: Some(1),
        ..Default::default()
    }
}

pub(crate) fn constant(output: &str, value: TensorProto) -> NodeProto {
    NodeProto {
        output: vec![output.into()],
        op_type: Some("Constant".into()),
        attribute: vec![AttributeProto {
            name: Some("value".into()),
            t: Some(value),
            r#type: Some(4),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns a node with a graph in an attribute.
pub(crate) fn branch(name: &str, graph: GraphProto) -> NodeProto {
    NodeProto {
        name: Some(name.into()),
        op_type: Some("If".into()),
        attribute: vec![AttributeProto {
            name: Some("then_branch".into()),
            g: Some(graph),
            r#type: Some(5),
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn sparse(name: &str, values: Vec<u8>) -> SparseTensorProto {
    let len = i64::try_from(values.len()).unwrap();
    SparseTensorProto {
        indices: Some(TensorProto {
            dims: vec![len],
            data_type: Some(INT64),
            int64_data: (0..len).collect(),
            ..Default::default()
        }),
        values: Some(raw(name, values)),
        dims: vec![len],
    }
}

pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        producer_name: Some("tests".into()),
        graph: Some(graph),
        ..Default::default()
    }
}

pub(crate) fn of_initializers(initializer: Vec<TensorProto>) -> ModelProto {
    model(GraphProto {
        name: Some("g".into()),
        initializer,
        ..Default::default()
    })
}

/// Returns `len` bytes that are not all equal.
pub(crate) fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(step).collect()
}

/// Returns a model with a tensor in every possible place. `tensor` makes each from its number.
pub(crate) fn everywhere(tensor: impl Fn(u32) -> TensorProto) -> ModelProto {
    let bytes = |number| tensor(number).raw_data.unwrap().to_vec();
    let inner = |number| GraphProto {
        initializer: vec![tensor(number)],
        node: vec![constant("c", tensor(number + 1))],
        ..Default::default()
    };
    ModelProto {
        training_info: vec![TrainingInfoProto {
            initialization: Some(GraphProto {
                initializer: vec![tensor(10)],
                ..Default::default()
            }),
            algorithm: Some(GraphProto {
                node: vec![constant("t", tensor(11))],
                ..Default::default()
            }),
            ..Default::default()
        }],
        functions: vec![FunctionProto {
            name: Some("F".into()),
            domain: Some("d".into()),
            node: vec![constant("f", tensor(12)), branch("b", inner(13))],
            attribute_proto: vec![AttributeProto {
                name: Some("default".into()),
                t: Some(tensor(15)),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..model(GraphProto {
            node: vec![
                constant("x", tensor(1)),
                branch("if", inner(2)),
                NodeProto {
                    name: Some("many".into()),
                    op_type: Some("Custom".into()),
                    attribute: vec![
                        AttributeProto {
                            name: Some("list".into()),
                            tensors: vec![tensor(4), tensor(5)],
                            ..Default::default()
                        },
                        AttributeProto {
                            name: Some("graphs".into()),
                            graphs: vec![inner(6)],
                            ..Default::default()
                        },
                        AttributeProto {
                            name: Some("sparse".into()),
                            sparse_tensor: Some(sparse("s", bytes(8))),
                            ..Default::default()
                        },
                    ],
                    ..Default::default()
                },
            ],
            initializer: vec![tensor(0)],
            sparse_initializer: vec![sparse("sparse", bytes(9))],
            ..Default::default()
        })
    }
}

pub(crate) fn write(folder: &Path, model: &ModelProto) -> std::path::PathBuf {
    let path = folder.join("model.onnx");
    fs::write(&path, model.encode_to_vec()).unwrap();
    path
}

pub(crate) fn open(path: &Path) -> proto_splitter_core::Result<OnnxSource> {
    OnnxSource::open(path, &OnnxOptions::new())
}

pub(crate) fn bytes_of(source: &OnnxSource) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(source.size()).unwrap()];
    source.reader().read_exact_at(0, &mut bytes).unwrap();
    bytes
}

pub(crate) fn whole(path: &Path) -> ModelProto {
    ModelProto::decode(&bytes_of(&open(path).unwrap())[..]).unwrap()
}
