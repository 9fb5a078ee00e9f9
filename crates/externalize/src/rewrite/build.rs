//! Building the nodes and functions that are added to a model.

use std::collections::BTreeMap;

use proto_splitter_graph_def::proto::attr_value::{ListValue, Value};
use proto_splitter_graph_def::proto::op_def::ArgDef;
use proto_splitter_graph_def::proto::tensor_shape_proto::Dim;
use proto_splitter_graph_def::proto::{
    AttrValue, DataType, FunctionDef, NameAttrList, NodeDef, OpDef, TensorProto, TensorShapeProto,
};

use crate::content::Content;

/// The scope of nodes, which determines how other nodes name their outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The main graph: other nodes refer to the first output of a node `x` as `x`.
    Main,
    /// The body of a function: other nodes refer to an output of a node `x` as `x:OUTPUT:0`, where
    /// `OUTPUT` is the name of the output in the definition of the op.
    Function,
}

impl Scope {
    /// Returns the name with which other nodes refer to an output of a node.
    pub(super) fn output(self, node: &str, output: &str) -> String {
        match self {
            Scope::Main => node.to_owned(),
            Scope::Function => format!("{node}:{output}:0"),
        }
    }
}

/// A node that is being built.
pub(super) struct Node(NodeDef);

impl Node {
    pub(super) fn new(name: impl Into<String>, op: &str) -> Self {
        Node(NodeDef {
            name: name.into(),
            op: op.to_owned(),
            ..NodeDef::default()
        })
    }

    pub(super) fn device(mut self, device: &str) -> Self {
        device.clone_into(&mut self.0.device);
        self
    }

    pub(super) fn input(mut self, input: impl Into<String>) -> Self {
        self.0.input.push(input.into());
        self
    }

    pub(super) fn inputs(mut self, inputs: impl IntoIterator<Item = String>) -> Self {
        self.0.input.extend(inputs);
        self
    }

    pub(super) fn attr(mut self, name: &str, value: Value) -> Self {
        self.0.attr.insert(name.to_owned(), boxed(value));
        self
    }

    pub(super) fn dtype(self, name: &str, dtype: DataType) -> Self {
        self.attr(name, Value::Type(dtype.into()))
    }

    pub(super) fn dtypes(self, name: &str, dtypes: &[DataType]) -> Self {
        let list = ListValue {
            r#type: dtypes.iter().map(|dtype| i32::from(*dtype)).collect(),
            ..ListValue::default()
        };
        self.attr(name, Value::List(Box::new(list)))
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        self.attr(name, Value::S(text.as_bytes().to_vec().into()))
    }

    pub(super) fn flag(self, name: &str, flag: bool) -> Self {
        self.attr(name, Value::B(flag))
    }

    pub(super) fn shape(self, name: &str, shape: &[u64]) -> Self {
        self.attr(name, Value::Shape(Box::new(shape_proto(shape))))
    }

    pub(super) fn build(self) -> NodeDef {
        self.0
    }
}

pub(super) fn boxed(value: Value) -> Box<AttrValue> {
    Box::new(AttrValue { value: Some(value) })
}

pub(super) fn shape_proto(shape: &[u64]) -> TensorShapeProto {
    let dims = shape.iter().map(|dim| Dim {
        // The dimension fits, since it was a signed number in the model.
        size: i64::try_from(*dim).unwrap_or(i64::MAX),
        ..Dim::default()
    });
    TensorShapeProto {
        dim: dims.collect(),
        ..TensorShapeProto::default()
    }
}

/// Returns a constant node with string elements. An empty shape makes a scalar.
pub(crate) fn strings(name: &str, strings: &[&str], shape: &[u64]) -> NodeDef {
    let tensor = TensorProto {
        dtype: DataType::DtString.into(),
        tensor_shape: Some(shape_proto(shape)),
        string_val: strings
            .iter()
            .map(|text| text.as_bytes().to_vec().into())
            .collect(),
        ..TensorProto::default()
    };
    Node::new(name, "Const")
        .dtype("dtype", DataType::DtString)
        .attr("value", Value::Tensor(Box::new(tensor)))
        .build()
}

/// Returns a constant node with the `int32` scalar 1. If `after` is given, the constant node waits
/// for the node with this name.
pub(super) fn one(name: &str, after: Option<&str>) -> NodeDef {
    let tensor = TensorProto {
        dtype: DataType::DtInt32.into(),
        tensor_shape: Some(TensorShapeProto::default()),
        int_val: vec![1],
        ..TensorProto::default()
    };
    Node::new(name, "Const")
        .inputs(after.map(|node| format!("^{node}")))
        .dtype("dtype", DataType::DtInt32)
        .attr("value", Value::Tensor(Box::new(tensor)))
        .build()
}

/// Returns a node for the variable that holds `content`.
pub(super) fn handle(name: &str, content: &Content) -> Node {
    Node::new(name, "VarHandleOp")
        .text("container", "")
        .dtype("dtype", content.dtype)
        .shape("shape", &content.shape)
        .text("shared_name", &super::shared_name(content))
}

/// Returns a node that reads the variable to which the output `handle` refers.
pub(super) fn read(name: &str, handle: String, content: &Content) -> Node {
    Node::new(name, "ReadVariableOp")
        .input(handle)
        .dtype("dtype", content.dtype)
}

/// Returns the three nodes that read `content` from a bundle. `prefix` names the node output that
/// provides the path prefix of the bundle's files. The last of the three nodes returns the content.
pub(super) fn restore(scope: Scope, base: &str, prefix: &str, content: &Content) -> Vec<NodeDef> {
    let (names, slices) = (format!("{base}_name"), format!("{base}_slice"));
    let restore = Node::new(base, "RestoreV2")
        .input(prefix)
        .input(scope.output(&names, "output"))
        .input(scope.output(&slices, "output"))
        .dtypes("dtypes", &[content.dtype])
        .build();
    vec![
        strings(&names, &[&content.key], &[1]),
        strings(&slices, &[""], &[1]),
        restore,
    ]
}

/// Returns a node that computes the path prefix of the bundle's files. `index` names the node
/// output that provides the path of the bundle's index.
pub(super) fn prefix(name: &str, index: &str) -> NodeDef {
    Node::new(name, "StaticRegexReplace")
        .input(index)
        .text("pattern", "\\.index$")
        .text("rewrite", "")
        .flag("replace_global", false)
        .build()
}

/// Returns an empty function with string arguments of these names.
pub(super) fn function(name: &str, arguments: &[&str], is_stateful: bool) -> FunctionDef {
    let argument = |name: &&str| ArgDef {
        name: (*name).to_owned(),
        r#type: DataType::DtString.into(),
        ..ArgDef::default()
    };
    let shapes = ListValue {
        shape: vec![TensorShapeProto::default(); arguments.len()],
        ..ListValue::default()
    };
    let mut attr = BTreeMap::new();
    if !arguments.is_empty() {
        attr.insert(
            "_input_shapes".to_owned(),
            boxed(Value::List(Box::new(shapes))),
        );
    }
    FunctionDef {
        signature: Some(OpDef {
            name: name.to_owned(),
            input_arg: arguments.iter().map(argument).collect(),
            is_stateful,
            ..OpDef::default()
        }),
        attr,
        ..FunctionDef::default()
    }
}

/// Makes a function return `output`, the output of one of the function's nodes.
pub(super) fn returns(function: &mut FunctionDef, dtype: DataType, output: String) {
    let name = "identity";
    if let Some(signature) = &mut function.signature {
        signature.output_arg.push(ArgDef {
            name: name.to_owned(),
            r#type: dtype.into(),
            ..ArgDef::default()
        });
    }
    function.ret.insert(name.to_owned(), output);
}

/// Makes a function run one of its nodes even if the node's result isn't used.
pub(super) fn does(function: &mut FunctionDef, name: &str, node: &str) {
    if let Some(signature) = &mut function.signature {
        signature.control_output.push(name.to_owned());
    }
    function
        .control_ret
        .insert(name.to_owned(), node.to_owned());
}

/// Returns a node that calls a function with two paths as arguments and an `int32` as result.
pub(super) fn call(name: &str, function: &str, inputs: [&str; 2]) -> NodeDef {
    let function = NameAttrList {
        name: function.to_owned(),
        ..NameAttrList::default()
    };
    let mut node = Node::new(name, "StatefulPartitionedCall")
        .inputs(inputs.map(str::to_owned))
        .dtypes("Tin", &[DataType::DtString; 2])
        .dtypes("Tout", &[DataType::DtInt32])
        .attr("f", Value::Func(Box::new(function)));
    for name in ["config", "config_proto", "executor_type"] {
        node = node.text(name, "");
    }
    node.build()
}
