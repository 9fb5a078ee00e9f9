//! Synthetic models and their parts.

use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::tensor_shape_proto::Dim;
use proto_splitter_graph_def::proto::{
    AttrValue, DataType, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef,
    TensorProto, TensorShapeProto,
};
use proto_splitter_saved_model::proto::{MetaGraphDef, SavedModel};

pub(crate) fn shape(dims: &[i64]) -> Option<TensorShapeProto> {
    let dim = |size: &i64| Dim {
        size: *size,
        ..Dim::default()
    };
    Some(TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
        ..TensorShapeProto::default()
    })
}

/// Returns a constant node with this tensor.
pub(crate) fn constant_of(name: &str, tensor: TensorProto) -> NodeDef {
    let mut node = NodeDef {
        name: name.to_owned(),
        op: "Const".to_owned(),
        ..NodeDef::default()
    };
    let dtype = Value::Type(tensor.dtype);
    for (name, value) in [("dtype", dtype), ("value", Value::Tensor(Box::new(tensor)))] {
        let value = AttrValue { value: Some(value) };
        node.attr.insert(name.to_owned(), Box::new(value));
    }
    node
}

/// Returns a 4 KiB constant node in which every byte is `fill`.
pub(crate) fn constant(name: &str, fill: u8) -> NodeDef {
    let tensor = TensorProto {
        dtype: DataType::DtFloat.into(),
        tensor_shape: shape(&[32, 32]),
        tensor_content: vec![fill; 4096].into(),
        ..TensorProto::default()
    };
    constant_of(name, tensor)
}

/// Returns a node with an attribute for each of these functions.
pub(crate) fn call(name: &str, op: &str, functions: &[&str]) -> NodeDef {
    let mut node = NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        ..NodeDef::default()
    };
    for (at, function) in functions.iter().enumerate() {
        let function = NameAttrList {
            name: (*function).to_owned(),
            ..NameAttrList::default()
        };
        let value = AttrValue {
            value: Some(Value::Func(Box::new(function))),
        };
        let name = if at == 0 {
            "f".to_owned()
        } else {
            format!("f{at}")
        };
        node.attr.insert(name, Box::new(value));
    }
    node
}

pub(crate) fn function(name: &str, nodes: Vec<NodeDef>) -> FunctionDef {
    FunctionDef {
        signature: Some(OpDef {
            name: name.to_owned(),
            ..OpDef::default()
        }),
        node_def: nodes,
        ..FunctionDef::default()
    }
}

/// Returns a [`function`] with a mark that makes XLA compile it as a whole.
pub(crate) fn compiled(name: &str, nodes: Vec<NodeDef>) -> FunctionDef {
    let mut function = function(name, nodes);
    let value = AttrValue {
        value: Some(Value::B(true)),
    };
    function
        .attr
        .insert("_XlaMustCompile".to_owned(), Box::new(value));
    function
}

pub(crate) fn model(nodes: Vec<NodeDef>, functions: Vec<FunctionDef>) -> SavedModel {
    let library = FunctionDefLibrary {
        function: functions,
        ..FunctionDefLibrary::default()
    };
    let graph = GraphDef {
        node: nodes,
        library: Some(library),
        ..GraphDef::default()
    };
    SavedModel {
        saved_model_schema_version: 1,
        meta_graphs: vec![MetaGraphDef {
            graph_def: Some(graph),
            ..MetaGraphDef::default()
        }],
    }
}
