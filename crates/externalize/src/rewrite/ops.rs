//! Definitions of the added ops, for models with a list of all ops that they use.

use std::collections::BTreeSet;

use proto_splitter_graph_def::proto::attr_value::{ListValue, Value};
use proto_splitter_graph_def::proto::op_def::{ArgDef, AttrDef};
use proto_splitter_graph_def::proto::{AttrValue, DataType, NodeDef, OpDef};
use proto_splitter_saved_model::proto::MetaGraphDef;

use crate::call_graph::functions;

/// The type of an op's input or output.
#[derive(Clone, Copy)]
enum Arg {
    /// A fixed type.
    Is(DataType),
    /// The type in the attribute with this name.
    Of(&'static str),
    /// A list of tensors, whose types are in the attribute with this name.
    List(&'static str),
}

/// The default value of an op's attribute.
#[derive(Clone, Copy)]
enum Preset {
    Nothing,
    Text,
    Flag(bool),
    Number(i64),
    List,
}

/// An attribute of an op: its name, its type, and its default value.
type Attr = (&'static str, &'static str, Preset);

/// The definition of an op in TensorFlow.
struct Op {
    name: &'static str,
    is_stateful: bool,
    inputs: &'static [(&'static str, Arg)],
    outputs: &'static [(&'static str, Arg)],
    attrs: &'static [Attr],
}

const RESOURCE: (&str, Arg) = ("resource", Arg::Is(DataType::DtResource));
const DTYPE: Attr = ("dtype", "type", Preset::Nothing);
const TIN: Attr = ("Tin", "list(type)", Preset::Nothing);
const TOUT: Attr = ("Tout", "list(type)", Preset::Nothing);
const SHAPES: Attr = ("output_shapes", "list(shape)", Preset::List);
const INPUTS: (&str, Arg) = ("input", Arg::List("Tin"));
const OUTPUTS: (&str, Arg) = ("output", Arg::List("Tout"));

/// The ops that a rewritten model may use in addition to the ops of the original.
const OPS: [Op; 15] = [
    Op {
        name: "AssignVariableOp",
        is_stateful: true,
        inputs: &[RESOURCE, ("value", Arg::Of("dtype"))],
        outputs: &[],
        attrs: &[DTYPE, ("validate_shape", "bool", Preset::Flag(false))],
    },
    Op {
        name: "Case",
        is_stateful: true,
        inputs: &[("branch_index", Arg::Is(DataType::DtInt32)), INPUTS],
        outputs: &[OUTPUTS],
        attrs: &[
            TIN,
            TOUT,
            ("branches", "list(func)", Preset::Nothing),
            SHAPES,
        ],
    },
    Op {
        name: "Const",
        is_stateful: false,
        inputs: &[],
        outputs: &[("output", Arg::Of("dtype"))],
        attrs: &[("value", "tensor", Preset::Nothing), DTYPE],
    },
    Op {
        name: "DestroyResourceOp",
        is_stateful: true,
        inputs: &[RESOURCE],
        outputs: &[],
        attrs: &[("ignore_lookup_error", "bool", Preset::Flag(true))],
    },
    Op {
        name: "Identity",
        is_stateful: false,
        inputs: &[("input", Arg::Of("T"))],
        outputs: &[("output", Arg::Of("T"))],
        attrs: &[("T", "type", Preset::Nothing)],
    },
    Op {
        name: "If",
        is_stateful: true,
        inputs: &[("cond", Arg::Of("Tcond")), INPUTS],
        outputs: &[OUTPUTS],
        attrs: &[
            ("Tcond", "type", Preset::Nothing),
            TIN,
            TOUT,
            ("then_branch", "func", Preset::Nothing),
            ("else_branch", "func", Preset::Nothing),
            SHAPES,
        ],
    },
    Op {
        name: "ImmutableConst",
        is_stateful: false,
        inputs: &[],
        outputs: &[("tensor", Arg::Of("dtype"))],
        attrs: &[
            DTYPE,
            ("shape", "shape", Preset::Nothing),
            ("memory_region_name", "string", Preset::Nothing),
        ],
    },
    Op {
        name: "NoOp",
        is_stateful: false,
        inputs: &[],
        outputs: &[],
        attrs: &[],
    },
    Op {
        name: "ReadVariableOp",
        is_stateful: true,
        inputs: &[RESOURCE],
        outputs: &[("value", Arg::Of("dtype"))],
        attrs: &[DTYPE],
    },
    Op {
        name: "RestoreV2",
        is_stateful: true,
        inputs: &[
            ("prefix", Arg::Is(DataType::DtString)),
            ("tensor_names", Arg::Is(DataType::DtString)),
            ("shape_and_slices", Arg::Is(DataType::DtString)),
        ],
        outputs: &[("tensors", Arg::List("dtypes"))],
        attrs: &[("dtypes", "list(type)", Preset::Nothing)],
    },
    Op {
        name: "StatefulPartitionedCall",
        is_stateful: true,
        inputs: &[("args", Arg::List("Tin"))],
        outputs: &[OUTPUTS],
        attrs: &[
            TIN,
            TOUT,
            ("f", "func", Preset::Nothing),
            ("config", "string", Preset::Text),
            ("config_proto", "string", Preset::Text),
            ("executor_type", "string", Preset::Text),
        ],
    },
    Op {
        name: "StaticRegexReplace",
        is_stateful: false,
        inputs: &[("input", Arg::Is(DataType::DtString))],
        outputs: &[("output", Arg::Is(DataType::DtString))],
        attrs: &[
            ("pattern", "string", Preset::Nothing),
            ("rewrite", "string", Preset::Nothing),
            ("replace_global", "bool", Preset::Flag(true)),
        ],
    },
    Op {
        name: "StopGradient",
        is_stateful: false,
        inputs: &[("input", Arg::Of("T"))],
        outputs: &[("output", Arg::Of("T"))],
        attrs: &[("T", "type", Preset::Nothing)],
    },
    Op {
        name: "VarHandleOp",
        is_stateful: true,
        inputs: &[],
        outputs: &[RESOURCE],
        attrs: &[
            ("container", "string", Preset::Text),
            ("shared_name", "string", Preset::Text),
            ("debug_name", "string", Preset::Text),
            DTYPE,
            ("shape", "shape", Preset::Nothing),
            ("allowed_devices", "list(string)", Preset::List),
        ],
    },
    Op {
        name: "While",
        is_stateful: true,
        inputs: &[("input", Arg::List("T"))],
        outputs: &[("output", Arg::List("T"))],
        attrs: &[
            ("T", "list(type)", Preset::Nothing),
            ("cond", "func", Preset::Nothing),
            ("body", "func", Preset::Nothing),
            SHAPES,
            ("parallel_iterations", "int", Preset::Number(10)),
        ],
    },
];

/// Adds the definitions of newly used ops to a model's list of ops, if there is one.
pub(super) fn list_added(meta_graph: &mut MetaGraphDef) {
    let info = meta_graph.meta_info_def.as_mut();
    let Some(list) = info.and_then(|info| info.stripped_op_list.as_mut()) else {
        return;
    };
    let graph = meta_graph.graph_def.as_ref();
    let bodies = graph.into_iter().flat_map(functions);
    let nodes = bodies.flat_map(|function| &function.node_def);
    let nodes = nodes.chain(graph.into_iter().flat_map(|graph| &graph.node));
    let used: BTreeSet<&str> = nodes.map(|node: &NodeDef| node.op.as_str()).collect();
    let listed: BTreeSet<String> = list.op.iter().map(|op| op.name.clone()).collect();
    for op in OPS {
        if used.contains(op.name) && !listed.contains(op.name) {
            // The list is sorted by name.
            let at = list.op.partition_point(|other| *other.name < *op.name);
            list.op.insert(at, definition(&op));
        }
    }
}

fn definition(op: &Op) -> OpDef {
    let args = |args: &[(&str, Arg)]| args.iter().map(arg).collect();
    OpDef {
        name: op.name.to_owned(),
        input_arg: args(op.inputs),
        output_arg: args(op.outputs),
        attr: op.attrs.iter().map(attr).collect(),
        is_stateful: op.is_stateful,
        is_distributed_communication: op.name == "StatefulPartitionedCall",
        ..OpDef::default()
    }
}

fn arg((name, arg): &(&str, Arg)) -> ArgDef {
    let mut made = ArgDef {
        name: (*name).to_owned(),
        ..ArgDef::default()
    };
    match arg {
        Arg::Is(dtype) => made.r#type = (*dtype).into(),
        Arg::Of(attr) => (*attr).clone_into(&mut made.type_attr),
        Arg::List(attr) => (*attr).clone_into(&mut made.type_list_attr),
    }
    made
}

fn attr((name, kind, default): &Attr) -> AttrDef {
    let value = match default {
        Preset::Nothing => None,
        Preset::Text => Some(Value::S(prost::bytes::Bytes::new())),
        Preset::Flag(flag) => Some(Value::B(*flag)),
        Preset::Number(number) => Some(Value::I(*number)),
        Preset::List => Some(Value::List(Box::<ListValue>::default())),
    };
    // List attributes without a default value have a minimum length.
    let has_minimum = matches!(default, Preset::Nothing) && kind.starts_with("list(");
    let at_least_one = has_minimum && ["dtypes", "branches"].contains(name);
    AttrDef {
        name: (*name).to_owned(),
        r#type: (*kind).to_owned(),
        default_value: value.map(|value| AttrValue { value: Some(value) }),
        has_minimum,
        minimum: at_least_one.into(),
        ..AttrDef::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prost::Message;
    use proto_splitter_saved_model::proto::SavedModel;

    use super::*;

    #[test]
    fn the_definitions_are_those_that_tensorflow_writes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tensorflow");
        let mut compared = BTreeSet::new();
        for model in ["functions_consts", "keras_mlp", "lookup_strings"] {
            let bytes = std::fs::read(root.join(model).join("saved_model.pb")).unwrap();
            let model = SavedModel::decode(bytes.as_slice()).unwrap();
            let info = model.meta_graphs[0].meta_info_def.as_ref().unwrap();
            for listed in &info.stripped_op_list.as_ref().unwrap().op {
                if let Some(op) = OPS.iter().find(|op| op.name == listed.name) {
                    assert_eq!(&definition(op), listed);
                    compared.insert(op.name);
                }
            }
        }
        assert_eq!(compared.len(), 8, "{compared:?}");
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(OPS.is_sorted_by_key(|op| op.name));
    }
}
