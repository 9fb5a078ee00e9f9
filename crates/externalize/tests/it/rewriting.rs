//! Tests of rewritten nodes and functions.

use std::fs;

use proto_splitter_externalize::{ExternalizePlan, Reason, internalize};
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::{DataType, OpDef, OpList, TensorProto};
use proto_splitter_saved_model::proto::meta_graph_def::MetaInfoDef;
use proto_splitter_tensor_bundle::Bundle;

use crate::models::{call, compiled, constant, constant_of, function, model, shape};
use crate::{externalized, graph, node, options, read_model, write_model};

#[test]
fn a_constant_becomes_a_variable_that_is_read_and_keeps_its_name() {
    let mut x = constant("x", 1);
    x.input.push("^before".to_owned());
    x.device = "/device:CPU:0".to_owned();
    let class = Value::S(b"mark"[..].into());
    let class = proto_splitter_graph_def::proto::AttrValue { value: Some(class) };
    x.attr.insert("_mark".to_owned(), Box::new(class.clone()));
    let before = call("before", "NoOp", &[]);
    let after = externalized(&model(vec![before, x], Vec::new()));
    let nodes = &graph(&after).node;
    let x = node(nodes, "x");
    assert_eq!(
        (x.op.as_str(), x.input.as_slice()),
        ("Identity", &["x/proto_splitter_read".to_owned()][..])
    );
    assert_eq!(x.device, "/device:CPU:0");
    assert_eq!(x.attr["_mark"].as_ref(), &class);
    assert_eq!(
        x.attr["T"].value,
        Some(Value::Type(DataType::DtFloat.into()))
    );
    let read = node(nodes, "x/proto_splitter_read");
    assert_eq!(
        (read.op.as_str(), read.input[0].as_str()),
        ("ReadVariableOp", "x/proto_splitter_handle")
    );
    let handle = node(nodes, "x/proto_splitter_handle");
    assert_eq!(
        (handle.op.as_str(), handle.input[0].as_str()),
        ("VarHandleOp", "^before")
    );
    assert_eq!(handle.device, "/device:CPU:0");
    // The model had no initializer before.
    let init = node(nodes, "proto_splitter_init");
    assert!(
        init.input
            .contains(&"^proto_splitter_initialize".to_owned())
    );
    let signature = &after.meta_graphs[0].signature_def["__saved_model_init_op"];
    assert!(signature.outputs.contains_key("__saved_model_init_op"));
    assert_eq!(after.meta_graphs[0].asset_file_def.len(), 2);
}

#[test]
fn equal_constants_are_stored_once_and_different_ones_not() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = vec![constant("a", 1), constant("b", 1), constant("c", 2)];
    let mut other = constant("d", 1);
    if let Some(Value::Tensor(tensor)) = &mut other.attr.get_mut("value").unwrap().value {
        tensor.tensor_shape = shape(&[1024]);
    }
    let nodes = nodes.into_iter().chain([other]).collect();
    let path = write_model(
        folder.path(),
        &model(nodes, vec![function("f", vec![constant("a", 2)])]),
    );
    let out = folder.path().join("out");
    let plan = ExternalizePlan::new(&path, &options()).unwrap();
    assert_eq!(plan.constants().len(), 5);
    assert_eq!(plan.stored(), 3 * 4096);
    plan.write(&out).unwrap();
    let bundle = Bundle::open(out.join("assets/proto_splitter_constants")).unwrap();
    assert_eq!(bundle.tensors().len(), 3);
}

#[test]
fn callers_of_a_function_that_reads_become_stateful_and_others_do_not() {
    let functions = vec![
        function("__inference_leaf_1", vec![constant("x", 1)]),
        function(
            "__inference_middle_2",
            vec![call(
                "c",
                "StatelessIf",
                &["__inference_leaf_1", "__inference_other_4"],
            )],
        ),
        function(
            "__inference_top_3",
            vec![call("c", "PartitionedCall", &["__inference_middle_2"])],
        ),
        function("__inference_other_4", Vec::new()),
        function(
            "__inference_pure_5",
            vec![call("c", "PartitionedCall", &["__inference_other_4"])],
        ),
    ];
    let nodes = vec![call("main", "PartitionedCall", &["__inference_top_3"])];
    let after = externalized(&model(nodes, functions));
    let library = &graph(&after).library.as_ref().unwrap().function;
    let stateful: Vec<bool> = library[..5]
        .iter()
        .map(|function| function.signature.as_ref().unwrap().is_stateful)
        .collect();
    assert_eq!(stateful, [true, true, true, false, false]);
    assert_eq!(library[1].node_def[0].op, "If");
    assert_eq!(library[2].node_def[0].op, "StatefulPartitionedCall");
    assert_eq!(library[4].node_def[0].op, "PartitionedCall");
    assert_eq!(
        node(&graph(&after).node, "main").op,
        "StatefulPartitionedCall"
    );
    for added in &library[5..] {
        let name = &added.signature.as_ref().unwrap().name;
        let number: u64 = name.rsplit_once('_').unwrap().1.parse().unwrap();
        assert!(number > 5, "{name}");
    }
}

#[test]
fn what_cannot_move_stays_with_a_reason() {
    let strings = TensorProto {
        dtype: DataType::DtString.into(),
        tensor_shape: shape(&[1]),
        string_val: vec![vec![b'x'; 5000].into()],
        ..TensorProto::default()
    };
    let functions = vec![
        compiled(
            "jit",
            vec![
                constant("x", 1),
                call("c", "PartitionedCall", &["passed"]),
                call("g", "SymbolicGradient", &["inner"]),
            ],
        ),
        function("passed", vec![constant("w", 4)]),
        function("inner", vec![constant("y", 2)]),
        compiled("mapped", vec![constant("z", 3)]),
        function(
            "user",
            vec![
                call("m", "SymbolicGradient", &["mapped"]),
                call("c", "PartitionedCall", &["jit"]),
            ],
        ),
    ];
    let model = model(vec![constant_of("s", strings)], functions);
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model);
    let plan = ExternalizePlan::new(&path, &options()).unwrap();
    let moved: Vec<String> = plan.constants().map(|constant| constant.node).collect();
    assert_eq!(moved, ["x", "w"]);
    let left: Vec<(String, Reason)> = plan
        .left()
        .map(|(constant, why)| (constant.node, why))
        .collect();
    assert_eq!(
        left,
        [
            ("s".to_owned(), Reason::Strings),
            ("y".to_owned(), Reason::InsideCompiled),
            ("z".to_owned(), Reason::CompiledWithoutCall)
        ]
    );
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    plan.write(&out).unwrap();
    internalize(&out, &back, &options()).unwrap();
    assert_eq!(read_model(&back), model);
}

#[test]
fn numbers_in_lists_move_as_the_bytes_of_the_tensor() {
    let half: Vec<i32> = (0..1000).map(|at| at * 37 % 65_536).collect();
    let int: Vec<i32> = (0..1000).map(|at| (at - 500) * 4_000_000).collect();
    let float: Vec<f32> = (0u16..1000).map(|at| f32::from(at) / 3.0).collect();
    let bytes: Vec<Vec<u8>> = vec![
        half.iter()
            .flat_map(|value| value.to_le_bytes()[..2].to_vec())
            .collect(),
        int.iter().flat_map(|value| value.to_le_bytes()).collect(),
        float.iter().flat_map(|value| value.to_le_bytes()).collect(),
        vec![0xff; 800],
    ];
    let tensor = |dtype: DataType| TensorProto {
        dtype: dtype.into(),
        tensor_shape: shape(&[1000]),
        ..TensorProto::default()
    };
    let nodes = vec![
        constant_of(
            "half",
            TensorProto {
                half_val: half,
                ..tensor(DataType::DtHalf)
            },
        ),
        constant_of(
            "int",
            TensorProto {
                int_val: int,
                ..tensor(DataType::DtInt32)
            },
        ),
        constant_of(
            "float",
            TensorProto {
                float_val: float,
                ..tensor(DataType::DtFloat)
            },
        ),
        // The numbers are smaller than the minimum size, but their varints are larger.
        constant_of(
            "minus",
            TensorProto {
                int_val: vec![-1; 200],
                tensor_shape: shape(&[200]),
                ..tensor(DataType::DtInt32)
            },
        ),
        // The last value is repeated for all later elements.
        constant_of(
            "short",
            TensorProto {
                int_val: vec![300; 900],
                ..tensor(DataType::DtInt32)
            },
        ),
    ];
    let model = model(nodes, Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &model);
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    let plan = ExternalizePlan::new(&path, &options()).unwrap();
    let moved: Vec<String> = plan.constants().map(|constant| constant.node).collect();
    assert_eq!(moved, ["half", "int", "float", "minus"]);
    let left: Vec<(String, Reason)> = plan
        .left()
        .map(|(constant, why)| (constant.node, why))
        .collect();
    assert_eq!(left, [("short".to_owned(), Reason::UnusualEncoding)]);
    plan.write(&out).unwrap();
    let bundle = Bundle::open(out.join("assets/proto_splitter_constants")).unwrap();
    let mut stored: Vec<Vec<u8>> = bundle
        .tensors()
        .iter()
        .map(|tensor| bundle.read(tensor).unwrap())
        .collect();
    let mut expected = bytes;
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected);
    internalize(&out, &back, &options()).unwrap();
    let read = |folder: &std::path::Path| fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(read(&back) == read(&path));
}

#[test]
fn a_list_of_ops_gains_those_that_are_added_and_stays_sorted() {
    let loops = function(
        "__inference_loop_1",
        vec![call("w", "StatelessWhile", &["__inference_body_2"])],
    );
    let body = function("__inference_body_2", vec![constant("x", 1)]);
    let mut with = model(Vec::new(), vec![loops, body]);
    let without = externalized(&with);
    assert!(without.meta_graphs[0].meta_info_def.is_none());
    let listed = |name: &str| OpDef {
        name: name.to_owned(),
        description: "as it was".to_owned(),
        ..OpDef::default()
    };
    with.meta_graphs[0].meta_info_def = Some(MetaInfoDef {
        stripped_op_list: Some(OpList {
            op: ["Const", "MatMul", "StatelessWhile"].map(listed).to_vec(),
        }),
        ..MetaInfoDef::default()
    });
    let after = externalized(&with);
    let info = after.meta_graphs[0].meta_info_def.as_ref().unwrap();
    let list = &info.stripped_op_list.as_ref().unwrap().op;
    let names: Vec<&str> = list.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "AssignVariableOp",
            "Const",
            "DestroyResourceOp",
            "Identity",
            "MatMul",
            "NoOp",
            "ReadVariableOp",
            "RestoreV2",
            "StatefulPartitionedCall",
            "StatelessWhile",
            "StaticRegexReplace",
            "VarHandleOp",
            "While"
        ]
    );
    assert_eq!(list[1].description, "as it was");
}
