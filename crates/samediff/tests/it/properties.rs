//! Any edits of any model lead where a model in memory says.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proto_splitter_samediff::{
    Array, ArrayInfo, ByteOrder, CheckOptions, Compression, DType, Draft, Graph, Model, Order,
    TagContent, VarType, Variable, WriteOptions,
};

use crate::support::values;

/// A tag: its values by name, as bytes of a vector, and the states of its variables.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    name: String,
    values: BTreeMap<String, Vec<u8>>,
    states: BTreeMap<String, Vec<Vec<u8>>>,
}

#[derive(Clone, Debug)]
enum Edit {
    Add(BTreeMap<String, Vec<u8>>, BTreeMap<String, Vec<Vec<u8>>>),
    AddLike(usize, Vec<u8>),
    Extract(usize),
    Drop(usize),
    Rename(usize),
    RenameVariable(usize, String),
    Merge,
    Deduplicate,
    CollectGarbage,
    Save(Compression),
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Few, so that many are the same.
    prop_oneof![
        (0_u8..3, 1_usize..4).prop_map(|(value, len)| vec![value; len]),
        prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["w", "layer/b:0", "äß", "x*&", "7"]).prop_map(str::to_owned)
}

fn edit() -> impl Strategy<Value = Edit> {
    let states = prop::collection::vec(bytes(), 1..3);
    let compression = prop::sample::select(vec![
        Compression::Keep,
        Compression::Stored,
        Compression::Deflated,
    ]);
    prop_oneof![
        4 => (
            prop::collection::btree_map(name(), bytes(), 0..4),
            prop::collection::btree_map(name(), states, 0..3),
        )
            .prop_map(|(values, states)| Edit::Add(values, states)),
        2 => (any::<usize>(), bytes()).prop_map(|(tag, bytes)| Edit::AddLike(tag, bytes)),
        1 => any::<usize>().prop_map(Edit::Extract),
        2 => any::<usize>().prop_map(Edit::Drop),
        2 => any::<usize>().prop_map(Edit::Rename),
        2 => (any::<usize>(), name()).prop_map(|(tag, name)| Edit::RenameVariable(tag, name)),
        1 => Just(Edit::Merge),
        1 => Just(Edit::Deduplicate),
        1 => Just(Edit::CollectGarbage),
        3 => compression.prop_map(Edit::Save),
    ]
}

fn array(bytes: &[u8]) -> Array {
    let info = ArrayInfo::new(DType::UInt8, [bytes.len() as u64]).unwrap();
    Array::from_bytes(info, bytes.to_vec()).unwrap()
}

fn content(memory: &Memory) -> TagContent {
    let mut graph = Graph::default();
    for name in memory.values.keys() {
        let variable = Variable::new(name, VarType::Variable, DType::UInt8, [-1]);
        graph.variables.push(variable);
    }
    let mut content = TagContent::new(graph);
    for (name, bytes) in &memory.values {
        content = content.parameter(name, array(bytes));
    }
    for (name, states) in &memory.states {
        let states: Vec<Array> = states.iter().map(|bytes| array(bytes)).collect();
        content = content.updater_states(name, states);
    }
    content
}

/// What a model has, read anew.
fn read(model: &Model) -> Vec<Memory> {
    let tags = model.tags().map(|tag| {
        let parameters = tag.parameters().unwrap();
        let value = |(name, files): (&str, &[_])| {
            (
                name.to_owned(),
                values(&parameters.open(&files[0]).unwrap()),
            )
        };
        let states = tag.updater_states().unwrap();
        let all = |(name, files): (&str, &[_])| {
            let each = files.iter().map(|file| values(&states.open(file).unwrap()));
            (name.to_owned(), each.collect())
        };
        Memory {
            name: tag.name().to_string(),
            values: parameters.iter().map(value).collect(),
            states: states.iter().map(all).collect(),
        }
    });
    tags.collect()
}

fn save(draft: &Draft, path: &Path, compression: Compression) -> Model {
    draft
        .write(path, &WriteOptions::new().compression(compression))
        .unwrap();
    let model = Model::open(path).unwrap();
    model
        .check(&CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn edits_in_any_order_lead_where_a_model_in_memory_says(
        edits in prop::collection::vec(edit(), 1..14)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut draft, mut memory) = (Draft::new(), Vec::<Memory>::new());
        for (number, edit) in edits.into_iter().enumerate() {
            let count = memory.len();
            let fresh = format!("Tag-{number}");
            match edit {
                Edit::Add(values, states) => {
                    let tag = Memory { name: fresh.clone(), values, states };
                    draft.add_tag(fresh.parse().unwrap(), content(&tag)).unwrap();
                    memory.push(tag);
                }
                _ if count == 0 => {}
                Edit::AddLike(tag, bytes) => {
                    let mut like = memory[tag % count].clone();
                    let base = std::mem::replace(&mut like.name, fresh.clone());
                    let mut changed = Vec::new();
                    if let Some((name, value)) = like.values.iter_mut().next()
                        && value.len() == bytes.len()
                    {
                        *value = bytes;
                        changed.push((name.clone(), array(value)));
                    }
                    draft.add_tag_like(fresh.parse().unwrap(), &base, changed).unwrap();
                    memory.push(like);
                }
                Edit::Extract(tag) => {
                    let tag = memory.swap_remove(tag % count);
                    draft.extract_tag(&tag.name.to_lowercase()).unwrap();
                    memory = vec![tag];
                }
                Edit::Drop(tag) => {
                    let name = memory[tag % count].name.clone();
                    prop_assert_eq!(draft.drop_tag(&name).is_ok(), count > 1);
                    if count > 1 {
                        memory.remove(tag % count);
                    }
                }
                Edit::Rename(tag) => {
                    let tag = &mut memory[tag % count];
                    draft.rename_tag(&tag.name, fresh.parse().unwrap()).unwrap();
                    tag.name = fresh;
                }
                Edit::RenameVariable(tag, name) => {
                    let Memory { name: tag, values, states } = &mut memory[tag % count];
                    let to = format!("v{number}");
                    let renamed = draft.rename_variable(tag, &name, &to);
                    prop_assert_eq!(renamed.is_ok(), values.contains_key(&name));
                    if let Some(value) = values.remove(&name) {
                        values.insert(to.clone(), value);
                        if let Some(all) = states.remove(&name) {
                            states.insert(to, all);
                        }
                    }
                }
                Edit::Merge => {
                    let mut other = draft.clone();
                    prop_assert!(draft.merge(other.clone()).is_err());
                    let mut more = memory.clone();
                    for (index, tag) in more.iter_mut().enumerate() {
                        let name = format!("{fresh}.{index}");
                        other.rename_tag(&tag.name, name.parse().unwrap()).unwrap();
                        tag.name = name;
                    }
                    draft.merge(other).unwrap();
                    memory.append(&mut more);
                }
                Edit::Deduplicate => draft.deduplicate().unwrap(),
                Edit::CollectGarbage => draft.collect_garbage(),
                Edit::Save(compression) => {
                    let path = folder.path().join(format!("{number}.zip"));
                    let model = save(&draft, &path, compression);
                    prop_assert_eq!(read(&model), memory.clone());
                    draft = Draft::open(&model).unwrap();
                }
            }
        }
        if !memory.is_empty() {
            let model = save(&draft, &folder.path().join("last.zip"), Compression::Keep);
            prop_assert_eq!(read(&model), memory);
        }
    }

    #[test]
    fn an_array_of_any_kind_reads_back(
        dtype in prop::sample::select(DType::ALL.to_vec()),
        shape in prop::collection::vec(0_u64..5, 0..5),
        fortran in any::<bool>(),
        big in any::<bool>(),
        seed in any::<u8>(),
    ) {
        prop_assume!(dtype != DType::Utf8);
        let order = if fortran { Order::F } else { Order::C };
        let byte_order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let info = ArrayInfo::new(dtype, shape.clone()).unwrap().with_order(order).with_byte_order(byte_order);
        let len = info.data_len().unwrap();
        let stored: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
        let original = Array::from_bytes(info, stored).unwrap();
        let mut graph = Graph::default();
        let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
        graph.variables.push(Variable::new("x", VarType::Constant, dtype, dims));
        let content = TagContent::new(graph).parameter("x", original.clone());
        let mut draft = Draft::new();
        draft.add_tag("t".parse().unwrap(), content).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let model = save(&draft, &folder.path().join("x.zip"), Compression::Keep);
        let read = model.default_tag().parameter("x").unwrap();
        prop_assert_eq!(read.info().byte_order(), ByteOrder::Little);
        prop_assert_eq!(values(&read), values(&original));
        prop_assert!(read.equals(&original).unwrap());
    }
}
