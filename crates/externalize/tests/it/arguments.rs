//! Tests with functions that get contents as arguments, and with objects that they capture.

use proto_splitter_graph_def::proto::attr_value::{ListValue, Value};
use proto_splitter_graph_def::proto::{
    AttrValue, DataType, FunctionDef, NameAttrList, NodeDef, OpDef, op_def::ArgDef,
};
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::{
    SavedConcreteFunction, SavedModel, SavedObject, SavedObjectGraph,
};

use crate::models::{call, compiled, constant, function, model};
use crate::{externalized, graph, node};

/// Returns a node with attributes that name functions, and an attribute `types` that lists the
/// types of its inputs.
fn calling(op: &str, functions: &[(&str, &str)], types: &str, inputs: &[&str]) -> NodeDef {
    let attr = |value| Box::new(AttrValue { value: Some(value) });
    let function = |name: &str| {
        Value::Func(Box::new(NameAttrList {
            name: name.to_owned(),
            ..NameAttrList::default()
        }))
    };
    let mut node = NodeDef {
        name: "c".to_owned(),
        op: op.to_owned(),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        ..NodeDef::default()
    };
    for (name, of) in functions {
        node.attr.insert((*name).to_owned(), attr(function(of)));
    }
    let list = ListValue {
        r#type: vec![DataType::DtFloat.into()],
        ..ListValue::default()
    };
    node.attr
        .insert(types.to_owned(), attr(Value::List(Box::new(list))));
    node
}

fn signature(function: &FunctionDef) -> &OpDef {
    function.signature.as_ref().unwrap()
}

fn names(arguments: &[ArgDef]) -> Vec<&str> {
    arguments.iter().map(|arg| arg.name.as_str()).collect()
}

fn types(node: &NodeDef, name: &str) -> usize {
    match &node.attr[name].value {
        Some(Value::List(list)) => list.r#type.len(),
        other => panic!("{name} is {other:?}"),
    }
}

fn library(model: &SavedModel) -> &[FunctionDef] {
    &graph(model).library.as_ref().unwrap().function
}

#[test]
fn every_op_that_calls_a_function_hands_its_constants_on_at_the_right_place() {
    // The op, the attributes that name its functions, its list of types, its inputs, and the index
    // of the new input.
    type Case = (
        &'static str,
        &'static [&'static str],
        &'static str,
        &'static [&'static str],
        usize,
    );
    let cases: [Case; 9] = [
        ("PartitionedCall", &["f"], "Tin", &["a:output:0", "^b"], 1),
        ("StatefulPartitionedCall", &["f"], "Tin", &["a:output:0"], 1),
        (
            "StatelessIf",
            &["then_branch", "else_branch"],
            "Tin",
            &["is:y:0", "a:output:0", "^b"],
            2,
        ),
        ("Case", &["branches"], "Tin", &["is:y:0", "a:output:0"], 2),
        (
            "MapDataset",
            &["f"],
            "Targuments",
            &["data:handle:0", "a:output:0"],
            2,
        ),
        (
            "ParallelMapDatasetV2",
            &["f"],
            "Targuments",
            &["data:handle:0", "a:output:0", "n:output:0"],
            2,
        ),
        (
            "ParallelInterleaveDatasetV4",
            &["f"],
            "Targuments",
            &["d", "a", "1", "2", "3", "4", "5", "^b"],
            2,
        ),
        (
            "FilterDataset",
            &["predicate"],
            "Targuments",
            &["data:handle:0", "a:output:0"],
            2,
        ),
        (
            "MapDefun",
            &["f"],
            "Tcaptured",
            &["x:output:0", "a:output:0"],
            2,
        ),
    ];
    for (op, attrs, list, inputs, place) in cases {
        let functions: Vec<(&str, &str)> = attrs.iter().copied().zip(["inner", "other"]).collect();
        let call = calling(op, &functions, list, inputs);
        let after = externalized(&model(
            Vec::new(),
            vec![
                function("inner", vec![constant("x", 1), constant("y", 1)]),
                function("other", Vec::new()),
                function("caller", vec![call]),
            ],
        ));
        let library = library(&after);
        let [argument] = names(&signature(&library[0]).input_arg)[..] else {
            panic!("{op}: x and y are one");
        };
        for name in ["x", "y"] {
            let x = node(&library[0].node_def, name);
            assert_eq!(
                (x.op.as_str(), &x.input[..]),
                ("StopGradient", &[argument.to_owned()][..])
            );
        }
        // The other branch of the same call gets an argument that it doesn't read.
        let expected = if attrs.len() == 2 {
            vec![argument]
        } else {
            Vec::new()
        };
        assert_eq!(names(&signature(&library[1]).input_arg), expected, "{op}");
        assert_eq!(names(&signature(&library[2]).input_arg), [argument], "{op}");
        let call = node(&library[2].node_def, "c");
        let mut wanted: Vec<&str> = inputs.to_vec();
        wanted.insert(place, argument);
        assert_eq!(call.input, wanted, "{op}");
        assert_eq!(types(call, list), 2, "{op}");
        assert_eq!(call.op, op, "nothing becomes stateful");
        assert!(
            library[..3]
                .iter()
                .all(|function| !signature(function).is_stateful)
        );
    }
}

#[test]
fn the_body_of_a_loop_returns_what_it_gets() {
    let functions = [("cond", "cond"), ("body", "body")];
    let mut call = calling("StatelessWhile", &functions, "T", &["a:output:0"]);
    call.attr.insert(
        "output_shapes".to_owned(),
        Box::new(AttrValue {
            value: Some(Value::List(Box::new(ListValue {
                shape: vec![crate::models::shape(&[]).unwrap()],
                ..ListValue::default()
            }))),
        }),
    );
    let after = externalized(&model(
        Vec::new(),
        vec![
            function("cond", Vec::new()),
            function("body", vec![constant("x", 1)]),
            function("caller", vec![call]),
        ],
    ));
    let library = library(&after);
    let arguments = names(&signature(&library[1]).input_arg);
    assert_eq!(names(&signature(&library[0]).input_arg), arguments);
    assert!(signature(&library[0]).output_arg.is_empty());
    let outputs = names(&signature(&library[1]).output_arg);
    assert_eq!(outputs.len(), 1);
    assert_eq!(library[1].ret[outputs[0]], arguments[0]);
    let call = node(&library[2].node_def, "c");
    assert_eq!((types(call, "T"), call.input.len()), (2, 2));
    let Some(Value::List(shapes)) = &call.attr["output_shapes"].value else {
        panic!("no shapes");
    };
    assert_eq!(shapes.shape[1], crate::models::shape(&[32, 32]).unwrap());
}

#[test]
fn functions_capture_what_they_read_and_what_others_read_for_them() {
    let inner = || {
        function(
            "__inference_inner_1",
            vec![constant("x", 1), constant("y", 2)],
        )
    };
    let call = || {
        calling(
            "PartitionedCall",
            &[("f", "__inference_inner_1")],
            "Tin",
            &["a:output:0"],
        )
    };
    let mut before = model(
        vec![call()],
        vec![
            inner(),
            function("__inference_outer_2", vec![constant("z", 1), call()]),
        ],
    );
    let entry = SavedConcreteFunction {
        bound_inputs: vec![7],
        ..SavedConcreteFunction::default()
    };
    let mut objects = SavedObjectGraph::default();
    objects.nodes.push(SavedObject::default());
    objects
        .concrete_functions
        .insert("__inference_outer_2".to_owned(), entry);
    before.meta_graphs[0].object_graph_def = Some(objects);
    let after = externalized(&before);
    let arguments = &signature(&library(&after)[1]).input_arg;
    assert_eq!(arguments.len(), 2, "x and z are one");
    let objects = after.meta_graphs[0].object_graph_def.as_ref().unwrap();
    let at = |id: i32| &objects.nodes[usize::try_from(id).unwrap()];
    let bound = &objects.concrete_functions["__inference_outer_2"].bound_inputs;
    assert_eq!(
        (bound.len(), bound[0]),
        (3, 7),
        "after its earlier captures"
    );
    for object in &bound[1..] {
        // The resource's handle is the value that `_create_resource` returns.
        assert!(matches!(at(*object).kind, Some(Kind::Resource(_))));
        let [create] = &at(*object).children[..] else {
            panic!("an object with {} children", at(*object).children.len());
        };
        assert_eq!(create.local_name, "_create_resource");
        let Some(Kind::BareConcreteFunction(create)) = &at(create.node_id).kind else {
            panic!("no function");
        };
        assert_eq!(
            objects.concrete_functions[&create.concrete_function_name]
                .bound_inputs
                .len(),
            2
        );
    }
    // The main graph's call reads variables, which `tf.saved_model.load` doesn't fill.
    let call = node(&graph(&after).node, "c");
    assert_eq!(call.input.len(), 3);
    assert!(call.input[1].ends_with("_read") && call.input[2].ends_with("_read"));
    let initialize = library(&after).iter().find(|function| {
        signature(function)
            .name
            .contains("proto_splitter_initialize")
    });
    assert!(
        initialize
            .unwrap()
            .node_def
            .iter()
            .all(|node| node.op != "RestoreV2")
    );
}

#[test]
fn a_compiled_function_gets_its_constants_and_those_of_its_callees_as_arguments() {
    let inner = calling(
        "PartitionedCall",
        &[("f", "__inference_inner_3")],
        "Tin",
        &["x"],
    );
    let outer = calling(
        "PartitionedCall",
        &[("f", "__inference_jit_1")],
        "Tin",
        &["x"],
    );
    let functions = vec![
        compiled(
            "__inference_jit_1",
            vec![constant("x", 1), constant("y", 1), inner],
        ),
        function("__inference_caller_2", vec![outer]),
        function("__inference_inner_3", vec![constant("z", 2)]),
    ];
    // The caller can't get more arguments.
    let nodes = vec![call("main", "SymbolicGradient", &["__inference_caller_2"])];
    let after = externalized(&model(nodes, functions));
    let library = library(&after);
    assert_eq!(signature(&library[0]).input_arg.len(), 2, "x and y are one");
    assert_eq!(signature(&library[2]).input_arg.len(), 1);
    let ops = library[0].node_def.iter().map(|node| node.op.as_str());
    assert_eq!(
        ops.collect::<Vec<_>>(),
        ["StopGradient", "StopGradient", "PartitionedCall"]
    );
    assert!(!signature(&library[0]).is_stateful);
    let call = node(&library[1].node_def, "c");
    assert_eq!((call.op.as_str(), call.input.len()), ("PartitionedCall", 3));
    assert!(
        call.input[1..]
            .iter()
            .all(|input| input.ends_with("_read:value:0"))
    );
    assert!(signature(&library[1]).input_arg.is_empty());
    assert!(signature(&library[1]).is_stateful);
}

#[test]
fn functions_in_loops_of_tensorflow_1_and_with_twins_read_variables() {
    let enter = || call("enter", "Enter", &[]);
    let mut twin = function("__inference_twin_2", vec![constant("y", 2)]);
    let value = Some(Value::S(b"lstm"[..].into()));
    twin.attr
        .insert("api_implements".to_owned(), Box::new(AttrValue { value }));
    let after = externalized(&model(
        Vec::new(),
        vec![
            function("__inference_frames_1", vec![enter(), constant("x", 1)]),
            twin,
        ],
    ));
    for function in &library(&after)[..2] {
        assert!(signature(function).input_arg.is_empty());
        assert!(
            function
                .node_def
                .iter()
                .any(|node| node.op == "VarHandleOp")
        );
    }
}
