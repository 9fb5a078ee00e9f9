//! Tests that every field of a classic file either survives a round trip, or is rejected with an
//! error that names the field.

use std::collections::BTreeSet;

use super::*;
use crate::fb::Kind;
use crate::fb::schema::flat_graph::{
    BUFFER_CHUNK, FLAT_ARRAY, FLAT_GRAPH, SUB_INSTANCE, flat_node, int_pair,
};
use crate::format::SameDiffFormat;
use crate::{Array, Graph, Nd4jType, SameDiffVariable, VarType};
use proto_splitter_core::formats::{Candidate, Format, OpenOptions};

/// Returns a table with a value in each of its fields and in each field of its nested tables.
fn filled(own: &'static TableType) -> Object {
    if std::ptr::eq(own, &FLAT_ARRAY) {
        return array(&[1, -2]);
    }
    let mut table = Object::default();
    for (slot, field) in own.fields.iter().enumerate() {
        let number = i8::try_from(slot + 1).unwrap();
        let text = |end: &str| format!("{} of {}{end}", field.name, own.name);
        let value = match field.kind {
            Kind::I8 => Value::I8(number),
            Kind::I32 => Value::I32(-1000 * i32::from(number)),
            Kind::I64 => Value::I64(i64::from(number) << 40),
            Kind::String => Value::String(text("")),
            Kind::Table(inner) => Value::Table(filled(inner)),
            Kind::Payload => Value::Bytes(vec![1, 2, 3]),
            Kind::I8s => Value::I8s(vec![1, 0]),
            Kind::I32s => Value::I32s(vec![number.into(), -7]),
            Kind::I64s => Value::I64s(vec![number.into(), i64::MIN]),
            Kind::F64s => Value::F64s(vec![0.5, f64::from(number)]),
            Kind::Strings => Value::Strings(vec![text(""), text(" too")]),
            Kind::Tables(inner) => Value::Tables(vec![filled(inner), filled(inner)]),
        };
        table.set(slot, value);
    }
    table
}

/// Returns the table of an array of 16-bit integers. The data is big-endian, as Java writes it.
fn array(values: &[i16]) -> Object {
    let info = ArrayInfo::new(Nd4jType::Int16, [values.len() as u64]).unwrap();
    let mut table = Object::default();
    table.set(flat_array::SHAPE, Value::I64s(info.to_shape_info()));
    let bytes = values.iter().flat_map(|value| value.to_be_bytes());
    table.set(flat_array::BUFFER, Value::Bytes(bytes.collect()));
    table.set(flat_array::DTYPE, Value::I8(Nd4jType::Int16.code()));
    table.set(flat_array::BYTE_ORDER, Value::I8(1));
    table
}

fn id(first: i32, second: i32) -> Value {
    let mut id = Object::default();
    id.set(int_pair::FIRST, Value::I32(first));
    id.set(int_pair::SECOND, Value::I32(second));
    Value::Table(id)
}

fn texts(all: &[&str]) -> Value {
    Value::Strings(all.iter().map(|&text| text.to_owned()).collect())
}

/// Returns a classic graph that uses every field. It has variables of every kind, one operation,
/// Adam's states for one variable but not for another, and a training configuration.
fn full_graph() -> Object {
    let mut graph = filled(&FLAT_GRAPH);
    let kinds = [
        ("w", VarType::Variable),
        ("u", VarType::Variable),
        ("c", VarType::Constant),
        ("in", VarType::Placeholder),
        ("out", VarType::Array),
    ];
    let variables = kinds.iter().zip(1..).map(|(&(name, kind), number)| {
        let mut variable = filled(&flat_graph::FLAT_VARIABLE);
        variable.set(flat_variable::ID, id(number, number - 1));
        variable.set(flat_variable::NAME, Value::String(name.to_owned()));
        variable.set(flat_variable::DTYPE, Value::I8(Nd4jType::Int16.code()));
        variable.set(flat_variable::SHAPE, Value::I64s(vec![-1]));
        variable.set(flat_variable::VARIABLE_TYPE, Value::I8(kind.code()));
        variable
    });
    graph.set(slots::VARIABLES, Value::Tables(variables.collect()));

    let mut node = filled(&flat_graph::FLAT_NODE);
    node.set(flat_node::OUTPUT_NAMES, texts(&["out"]));
    node.set(
        flat_node::EXTRA_TYPES,
        Value::I8s(vec![Nd4jType::Double.code()]),
    );
    let inputs = [(4, 3), (1, 0)].map(|(first, second)| match id(first, second) {
        Value::Table(id) => id,
        _ => unreachable!("an id is a table"),
    });
    node.set(flat_node::INPUT_PAIRED, Value::Tables(inputs.to_vec()));
    graph.set(slots::NODES, Value::Tables(vec![node]));

    graph.set(slots::LOSS_VARIABLES, texts(&["out"]));
    graph.set(slots::PLACEHOLDERS, texts(&["in"]));
    let json = r#"{"@class":"TrainingConfig","updater":{"learningRate":0.001}}"#;
    graph.set(slots::TRAINING_CONFIG, Value::String(json.to_owned()));
    let mut without = Object::default();
    without.set(updater_state::PARAM_NAME, Value::String("u".to_owned()));
    without.set(updater_state::UPDATER_STATE_KEYS, texts(&[]));
    let mut adam = Object::default();
    adam.set(updater_state::PARAM_NAME, Value::String("w".to_owned()));
    adam.set(updater_state::UPDATER_STATE_KEYS, texts(&["M", "V"]));
    let values = vec![array(&[300, 2]), array(&[-9, 4])];
    adam.set(updater_state::UPDATER_STATE_VALUES, Value::Tables(values));
    graph.set(slots::UPDATER_STATE, Value::Tables(vec![without, adam]));
    // The schema of these tables is unknown, so they can only be empty.
    let instances = vec![Object::default(), Object::default()];
    graph.set(slots::SUB_INSTANCES, Value::Tables(instances));
    graph
}

/// Counts the fields that a table and its nested tables have, and the fields that their schema
/// permits.
fn used(
    table: &Object,
    own: &'static TableType,
    has: &mut BTreeSet<String>,
    all: &mut BTreeSet<String>,
) {
    for (slot, field) in own.fields.iter().enumerate() {
        let name = format!("{}.{}", own.name, field.name);
        all.insert(name.clone());
        let value = table.get(slot);
        if value.is_some() {
            has.insert(name);
        }
        match (value, field.kind) {
            (Some(Value::Table(table)), Kind::Table(inner)) => used(table, inner, has, all),
            (Some(Value::Tables(tables)), Kind::Tables(inner)) => {
                tables.iter().for_each(|table| used(table, inner, has, all));
            }
            _ => {}
        }
    }
}

fn file(folder: &Path, graph: &Object) -> PathBuf {
    let path = folder.join("classic.fb");
    std::fs::write(&path, fb::write(graph).unwrap().0).unwrap();
    path
}

#[test]
fn every_field_of_a_classic_file_comes_back() {
    let graph = full_graph();
    let (mut has, mut all) = (BTreeSet::new(), BTreeSet::new());
    used(&graph, &FLAT_GRAPH, &mut has, &mut all);
    // SDNB and other formats store the data of arrays in these fields.
    let elsewhere = FLAT_ARRAY.fields[flat_array::BUFFER_CHUNKS..].iter();
    let elsewhere: BTreeSet<String> = elsewhere
        .map(|field| format!("FlatArray.{}", field.name))
        .collect();
    let left: BTreeSet<String> = all.difference(&has).cloned().collect();
    assert_eq!(left, elsewhere);
    assert_eq!(
        (BUFFER_CHUNK.fields.len(), SUB_INSTANCE.fields.len()),
        (2, 0)
    );

    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &graph);
    let content = import(&path).unwrap();
    let model = model(content.clone(), &folder.path().join("model.zip"));
    let report = model.check(&crate::CheckOptions::new()).unwrap();
    report.into_result().unwrap();
    let back = folder.path().join("back.fb");
    write_classic(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap();
    let mut found = Vec::new();
    differences(&table(&path), &table(&back), &FLAT_GRAPH, "", &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert_same(&import(&back).unwrap(), &content);
}

#[test]
fn shapes_come_from_arrays_where_a_file_leaves_them_out_and_are_left_out_again() {
    let mut graph = full_graph();
    let Some(Value::Tables(variables)) = graph.get_mut(slots::VARIABLES) else {
        unreachable!("the graph has variables");
    };
    for variable in variables {
        variable.take(flat_variable::SHAPE);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &graph);
    let content = import(&path).unwrap();
    let model = model(content, &folder.path().join("model.zip"));
    let graph = model.default_tag().graph().unwrap();
    let shapes = graph.variables.iter();
    let shapes: Vec<_> = shapes
        .map(|variable| (variable.name.as_str(), variable.shape.as_deref()))
        .collect();
    let known = Some(&[2][..]);
    assert_eq!(
        shapes,
        [
            ("w", known),
            ("u", known),
            ("c", known),
            ("in", None),
            ("out", None)
        ]
    );
    let back = folder.path().join("back.fb");
    write_classic(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap();
    let mut found = Vec::new();
    differences(&table(&path), &table(&back), &FLAT_GRAPH, "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_file_says_its_operations_with_their_arguments_and_how_it_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &full_graph());
    let zip = folder.path().join("model.zip");
    model(import(&path).unwrap(), &zip);
    let said = [path, zip].map(|path| {
        let candidate = Candidate::new(&path).unwrap();
        let opened = SameDiffFormat.open(&candidate, &OpenOptions::new());
        opened.unwrap().properties().unwrap()
    });
    let [classic, zip] = said;
    assert!(zip.ends_with(&classic), "{zip:?}");
    let all = |name: &str| -> Vec<&str> {
        let named = classic.iter().filter(|(one, _)| one == name);
        named.map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(all("variable"), ["w INT16[?]", "u INT16[?]"]);
    assert_eq!(all("constant"), ["c INT16[?]"]);
    assert_eq!(all("placeholder"), ["in INT16[?]"]);
    assert_eq!(all("loss variable"), ["out"]);
    let [operation] = all("operation")[..] else {
        panic!("{classic:?}");
    };
    for part in [
        "(in, w, i0=",
        ", t0=0.5, ",
        ", b0=true, b1=false, ",
        "d0=DOUBLE) -> out",
    ] {
        assert!(operation.contains(part), "{part}: {operation}");
    }
    assert!(all("training configuration")[0].contains("learningRate"));
}

fn assert_same(a: &TagContent, b: &TagContent) {
    assert_eq!(a.graph(), b.graph());
    assert_eq!(values_of(a), values_of(b));
    assert_eq!(states_of(a), states_of(b));
    assert_eq!(a.config(), b.config());
}

fn states_of(content: &TagContent) -> Vec<(String, Vec<Vec<u8>>)> {
    let values = |array: &Array| array.values().unwrap().read_to_vec(1 << 20).unwrap();
    let all = content
        .states()
        .map(|(name, arrays)| (name.to_owned(), arrays.iter().map(values).collect()));
    all.collect()
}

#[test]
fn states_and_training_of_a_model_become_those_of_a_classic_file_and_come_back() {
    let vector = |value: u8| {
        let info = ArrayInfo::new(Nd4jType::UInt8, [2]).unwrap();
        Array::from_bytes(info, vec![value, 255 - value]).unwrap()
    };
    let mut graph = Graph::default();
    for name in ["plain", "trained"] {
        let variable = SameDiffVariable::new(name, VarType::Variable, Nd4jType::UInt8, [2]);
        graph.variables.push(variable);
    }
    graph.loss_variables.push("trained".to_owned());
    let json = r#"{"updater":"Adam","näher":true}"#;
    let original = TagContent::new(graph)
        .parameter("plain", vector(1))
        .parameter("trained", vector(2))
        .updater_states("trained", [vector(3), vector(4), vector(5)])
        .training_config(classic::config_from_json(json).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let written = |content: &TagContent, name: &str| {
        let model = model(content.clone(), &folder.path().join(format!("{name}.zip")));
        let path = folder.path().join(name);
        write_classic(&model.default_tag(), &path, &SameDiffWriteOptions::new()).unwrap();
        path
    };
    let path = written(&original, "once.fb");
    let table = table(&path);
    let config = table.get(slots::TRAINING_CONFIG);
    assert_eq!(config, Some(&Value::String(json.to_owned())));
    let states = table.clone().take_tables(slots::UPDATER_STATE);
    assert_eq!(states.len(), 1);
    // A tag has no names for states, but Java requires them.
    let keys = states[0].get(updater_state::UPDATER_STATE_KEYS);
    assert_eq!(keys, Some(&texts(&["0", "1", "2"])));

    let content = import(&path).unwrap();
    for (found, expected) in content
        .graph()
        .variables
        .iter()
        .zip(&original.graph().variables)
    {
        let of =
            |one: &SameDiffVariable| (one.name.clone(), one.dtype, one.kind, one.shape.clone());
        assert_eq!(of(found), of(expected));
    }
    assert_eq!(content.graph().loss_variables, ["trained"]);
    assert_eq!(values_of(&content), values_of(&original));
    assert_eq!(states_of(&content), states_of(&original));
    assert_eq!(content.config(), original.config());
    let again = written(&content, "twice.fb");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        std::fs::read(&again).unwrap()
    );
}

#[test]
fn a_field_that_is_not_known_is_refused_by_name() {
    type Table = fn(&mut Object) -> Option<&mut Object>;

    fn first(table: &mut Object, slot: usize) -> Option<&mut Object> {
        match table.get_mut(slot)? {
            Value::Table(table) => Some(table),
            Value::Tables(tables) => tables.last_mut(),
            _ => None,
        }
    }

    let places: &[(&str, usize, Table)] = &[
        ("the table FlatGraph has a field in slot 12", 12, |graph| {
            Some(graph)
        }),
        (
            "FlatGraph.sub_instances: the table SubInstance has a field in slot 0",
            0,
            |graph| first(graph, slots::SUB_INSTANCES),
        ),
        (
            "the table FlatVariable has a field in slot 10",
            10,
            |graph| first(graph, slots::VARIABLES),
        ),
        ("the table FlatArray has a field in slot 11", 11, |graph| {
            first(first(graph, slots::VARIABLES)?, flat_variable::NDARRAY)
        }),
        ("the table FlatNode has a field in slot 23", 23, |graph| {
            first(graph, slots::NODES)
        }),
        ("the table UpdaterState has a field in slot 3", 3, |graph| {
            first(graph, slots::UPDATER_STATE)
        }),
        (
            "the table FlatConfiguration has a field in slot 9",
            9,
            |graph| first(graph, slots::CONFIGURATION),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (text, slot, place) in places {
        let mut graph = full_graph();
        place(&mut graph).unwrap().set(*slot, Value::I32(1));
        let path = file(folder.path(), &graph);
        let error = import(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConvertible, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.to_string().contains("would be lost"), "{error}");
        // Opening the file as a model reports the same error, rather than that the file isn't an
        // archive.
        let candidate = Candidate::new(&path).unwrap();
        let opened = SameDiffFormat.open(&candidate, &OpenOptions::new());
        let error = opened.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn an_array_whose_data_lies_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let places = [
        (
            flat_array::BUFFER_CHUNKS,
            Value::Tables(Vec::new()),
            "in chunks",
        ),
        (
            flat_array::EXTERNAL_FILE,
            Value::String("w.bin".to_owned()),
            "in another file",
        ),
        (flat_array::IS_EXTERNAL, Value::I8(1), "in another file"),
        (
            flat_array::APPENDED_DATA_LENGTH,
            Value::I64(4),
            "after the graph",
        ),
    ];
    for (slot, value, text) in places {
        let mut graph = full_graph();
        let Some(Value::Tables(variables)) = graph.get_mut(slots::VARIABLES) else {
            panic!("there are no variables");
        };
        let Some(Value::Table(array)) = variables[0].get_mut(flat_variable::NDARRAY) else {
            panic!("there is no array");
        };
        array.set(slot, value);
        let error = import(file(folder.path(), &graph)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedArray);
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.to_string().contains("variable \"w\""), "{error}");
    }
}

#[test]
fn states_and_their_names_must_be_as_many() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = full_graph();
    let Some(Value::Tables(states)) = graph.get_mut(slots::UPDATER_STATE) else {
        panic!("there are no states");
    };
    states[1].set(updater_state::UPDATER_STATE_KEYS, texts(&["M"]));
    let error = import(file(folder.path(), &graph)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidGraph);
    let text = "updater states of \"w\": 1 names and 2 values";
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn what_only_a_later_shard_says_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number: u32| folder.path().join(format!("m.shard{number}-of-2.sdnb"));
    std::fs::write(
        path(0),
        sdnb_file(vec![variable(1, "a", &[2], 0, SMALL, None)], &[]),
    )
    .unwrap();
    let mut graph = Object::default();
    graph.set(slots::METADATA_KEYS, texts(&["shard.index"]));
    let write = |graph: &Object| std::fs::write(path(1), sdnb_of(graph, &[])).unwrap();
    write(&graph);
    assert!(import(path(0)).is_ok());
    graph.set(slots::TRAINING_CONFIG, Value::String("{}".to_owned()));
    write(&graph);
    let error = import(path(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConvertible);
    let text = "shard 1 has other training_config than the first shard, which would be lost";
    assert!(error.to_string().contains(text), "{error}");

    // Of an archive with such shards, this is said, too, and not that it has no tags.
    let sdz = folder.path().join("m.sdz");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&sdz).unwrap());
    for path in [path(0), path(1)] {
        let name = path.file_name().unwrap().to_str().unwrap();
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(name, options).unwrap();
        archive.write_all(&std::fs::read(&path).unwrap()).unwrap();
    }
    archive.finish().unwrap();
    let opened = SameDiffFormat.open(&Candidate::new(&sdz).unwrap(), &OpenOptions::new());
    let error = opened.unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn values_of_a_placeholder_come_from_sdnb_as_a_classic_file_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut columns = variable(1, "in", &[2, 3], 1, COLUMNS, Some(0));
    let kind = VarType::Placeholder.code();
    columns.set(flat_variable::VARIABLE_TYPE, Value::I8(kind));
    let path = folder.path().join("model.sdnb");
    std::fs::write(&path, sdnb_file(vec![columns], COLUMNS)).unwrap();
    let model = model(import(&path).unwrap(), &folder.path().join("model.zip"));
    let back = folder.path().join("back.fb");
    write_classic(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap();
    let mut variables = table(&back).take_tables(slots::VARIABLES);
    let mut array = variables[0].take_table(flat_variable::NDARRAY).unwrap();
    let order = crate::Order::F;
    let info = ArrayInfo::new(Nd4jType::Int16, [2, 3])
        .unwrap()
        .with_order(order);
    assert_eq!(
        array.take_i64s(flat_array::SHAPE),
        Some(info.to_shape_info())
    );
    let bytes = Value::Bytes(COLUMNS.to_vec());
    assert_eq!(array.take(flat_array::BUFFER), Some(bytes));
    assert_eq!(array.take(flat_array::APPENDED_DATA_LENGTH), None);
}

#[test]
fn states_that_lie_behind_an_sdnb_graph_are_read_from_there() {
    let folder = tempfile::tempdir().unwrap();
    // The data as Java writes it: the values of the variable, followed by those of its state.
    let mut state = variable(0, "", &[2], 0, &[9, 0, 8, 0], Some(4));
    let array = state.take_table(flat_variable::NDARRAY).unwrap();
    let mut adam = Object::default();
    adam.set(updater_state::PARAM_NAME, Value::String("w".to_owned()));
    adam.set(updater_state::UPDATER_STATE_KEYS, texts(&["M"]));
    let values = Value::Tables(vec![array]);
    adam.set(updater_state::UPDATER_STATE_VALUES, values);
    let mut graph = Object::default();
    let variables = vec![variable(1, "w", &[2], 0, SMALL, Some(0))];
    graph.set(slots::VARIABLES, Value::Tables(variables));
    graph.set(slots::UPDATER_STATE, Value::Tables(vec![adam]));
    let path = folder.path().join("model.sdnb");
    let blobs = [SMALL, &[9, 0, 8, 0]].concat();
    std::fs::write(&path, sdnb_of(&graph, &blobs)).unwrap();
    let content = import(&path).unwrap();
    assert_eq!(values_of(&content), [("w".to_owned(), SMALL.to_vec())]);
    let expected = [("w".to_owned(), vec![vec![9, 0, 8, 0]])];
    assert_eq!(states_of(&content), expected);
}
