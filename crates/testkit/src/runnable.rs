//! A SavedModel of any size, which TensorFlow can run once it is externalized.

use prost::Message;
use proto_splitter_graph_def::proto::attr_value::{ListValue, Value};
use proto_splitter_graph_def::proto::op_def::ArgDef;
use proto_splitter_graph_def::proto::{
    AttrValue, DataType, FunctionDef, NameAttrList, NodeDef, OpDef, TensorProto, TensorShapeProto,
    VersionDef,
};
use proto_splitter_saved_model::proto::tensor_info::Encoding;
use proto_splitter_saved_model::proto::{SignatureDef, TensorInfo};

use crate::models::{Parts, constant};

/// The size and composition of a runnable model.
#[derive(Clone, Copy, Debug)]
pub struct RunnableSize {
    /// Number of constants in the main graph.
    pub constants: u64,
    /// Number of functions, each with one constant.
    pub functions: u64,
    /// Size of each constant, in bytes.
    pub constant_bytes: u64,
}

impl RunnableSize {
    /// A model of 2.5 GiB, which is too large for TensorFlow to read. It has ten constants of 256
    /// MiB, six of which are in functions.
    pub const OVER_THE_LIMIT: RunnableSize = RunnableSize {
        constants: 4,
        functions: 6,
        constant_bytes: 256 << 20,
    };
}

const FLOAT: i32 = DataType::DtFloat as i32;
const INT32: i32 = DataType::DtInt32 as i32;

fn node(name: &str, op: &str, inputs: &[&str], attrs: Vec<(&str, Value)>) -> NodeDef {
    let attr = attrs.into_iter().map(|(name, value)| {
        let value = AttrValue { value: Some(value) };
        (name.to_owned(), Box::new(value))
    });
    NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        attr: attr.collect(),
        ..NodeDef::default()
    }
}

/// Returns a constant node for the axis that [`max`] reduces: the scalar 0.
fn axis() -> NodeDef {
    let tensor = TensorProto {
        dtype: INT32,
        tensor_shape: Some(TensorShapeProto::default()),
        int_val: vec![0],
        ..TensorProto::default()
    };
    let value = Value::Tensor(Box::new(tensor));
    node(
        "axis",
        "Const",
        &[],
        vec![("dtype", Value::Type(INT32)), ("value", value)],
    )
}

/// Returns a node that computes the largest element of the tensor `of`.
fn max(name: &str, of: &str, axis: &str) -> NodeDef {
    let attrs = vec![
        ("T", Value::Type(FLOAT)),
        ("Tidx", Value::Type(INT32)),
        ("keep_dims", Value::B(false)),
    ];
    node(name, "Max", &[of, axis], attrs)
}

fn add(name: &str, a: &str, b: &str) -> NodeDef {
    node(name, "AddV2", &[a, b], vec![("T", Value::Type(FLOAT))])
}

fn argument(name: &str) -> ArgDef {
    ArgDef {
        name: name.to_owned(),
        r#type: FLOAT,
        ..ArgDef::default()
    }
}

/// Returns a function that adds the largest element of its constant to its argument.
fn function(name: &str, kernel: Parts) -> Parts {
    let signature = OpDef {
        name: name.to_owned(),
        input_arg: vec![argument("x")],
        output_arg: vec![argument("y")],
        ..OpDef::default()
    };
    let mut rest = FunctionDef {
        node_def: vec![
            axis(),
            max("max", "kernel:output:0", "axis:output:0"),
            add("sum", "x", "max:output:0"),
        ],
        ..FunctionDef::default()
    };
    rest.ret.insert("y".to_owned(), "sum:z:0".to_owned());
    let function = Parts::new().bytes(1, &signature.encode_to_vec());
    function.message(3, kernel).raw(&rest.encode_to_vec())
}

/// Returns a node that calls the function `function` with the argument `x`.
fn call(name: &str, function: &str, x: &str) -> NodeDef {
    let list = || {
        let list = ListValue {
            r#type: vec![FLOAT],
            ..ListValue::default()
        };
        Value::List(Box::new(list))
    };
    let function = NameAttrList {
        name: function.to_owned(),
        ..NameAttrList::default()
    };
    let function = Value::Func(Box::new(function));
    let attrs = vec![("Tin", list()), ("Tout", list()), ("f", function)];
    node(name, "PartitionedCall", &[x], attrs)
}

/// Returns a model that adds the largest element of each of its constants to `x`. The model is the
/// same every time.
pub fn runnable_model(size: &RunnableSize) -> Parts {
    let bytes = size.constant_bytes;
    let placeholder = vec![
        ("dtype", Value::Type(FLOAT)),
        ("shape", Value::Shape(Box::default())),
    ];
    let mut graph = Parts::new();
    for first in [node("x", "Placeholder", &[], placeholder), axis()] {
        graph = graph.bytes(1, &first.encode_to_vec());
    }
    let mut last = "x".to_owned();
    for index in 0..size.constants {
        let (name, max_name, sum) = (
            format!("weights_{index}"),
            format!("max_{index}"),
            format!("sum_{index}"),
        );
        graph = graph
            .message(1, constant(&name, index, bytes))
            .bytes(1, &max(&max_name, &name, "axis").encode_to_vec())
            .bytes(1, &add(&sum, &last, &max_name).encode_to_vec());
        last = sum;
    }
    let mut library = Parts::new();
    for index in 0..size.functions {
        let (name, node) = (
            format!("__inference_layer_{index}"),
            format!("layer_{index}"),
        );
        library = library.message(1, function(&name, constant("kernel", 1000 + index, bytes)));
        graph = graph.bytes(1, &call(&node, &name, &last).encode_to_vec());
        last = node;
    }
    let versions = VersionDef {
        producer: 1987,
        ..VersionDef::default()
    };
    let graph = graph
        .message(2, library)
        .bytes(4, &versions.encode_to_vec());
    let info = |name: &str| TensorInfo {
        dtype: FLOAT,
        tensor_shape: Some(TensorShapeProto::default()),
        encoding: Some(Encoding::Name(format!("{name}:0"))),
    };
    let signature = SignatureDef {
        inputs: [("x".to_owned(), info("x"))].into(),
        outputs: [("y".to_owned(), info(&last))].into(),
        method_name: "tensorflow/serving/predict".to_owned(),
        ..SignatureDef::default()
    };
    let signature = Parts::new()
        .text(1, "serving_default")
        .bytes(2, &signature.encode_to_vec());
    let meta_graph = Parts::new()
        .message(1, Parts::new().text(4, "serve").text(5, "2.21.0"))
        .message(2, graph)
        .message(5, signature);
    Parts::new().varint(1, 1).message(2, meta_graph)
}
