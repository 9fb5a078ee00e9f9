//! Tests that arbitrary edits have the effects that a reference model in memory predicts.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use proto_splitter_samediff::{
    Array, ArrayByteOrder, ArrayInfo, CheckOptions, Draft, Graph, Model, Nd4jType, Order,
    SameDiffVariable, SameDiffWriteOptions, TagContent, VarType, WrittenSameDiff, ZipCompression,
};
use zip::write::SimpleFileOptions;

use crate::entries::file_of;
use crate::memory::{Given, Memory, Snapshot, Value};
use crate::support::{entries, values};

#[derive(Clone, Debug)]
enum Edit {
    Add(Given),
    AddLike(usize, usize, u8),
    Extract(usize),
    Drop(usize),
    Rename(usize),
    RenameVariable(usize, String),
    Merge,
    Deduplicate,
    CollectGarbage,
    Save(ZipCompression),
    /// Saves the draft, and adds an unreferenced array file to a tag's folder.
    Stray(usize, Value),
}

fn value() -> impl Strategy<Value = Value> {
    // Half of the values have one of nine sequences of bytes, so many are equal. Some differ only
    // in their type.
    let bytes = prop_oneof![
        (0_u8..3, 1_usize..4).prop_map(|(value, len)| vec![value; len]),
        prop::collection::vec(any::<u8>(), 0..300),
    ];
    let dtype = prop::sample::select(vec![Nd4jType::UInt8, Nd4jType::UInt8, Nd4jType::Int8]);
    (dtype, bytes).prop_map(|(dtype, bytes)| Value { dtype, bytes })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["w", "layer/b:0", "äß", "x*&", "7"]).prop_map(str::to_owned)
}

fn given() -> impl Strategy<Value = Given> {
    let states = prop::collection::vec(value(), 1..3);
    let arguments = (
        prop::collection::vec(any::<i64>(), 0..4),
        prop::collection::vec(-1e300..1e300, 0..4),
        prop::collection::vec(any::<bool>(), 0..4),
        prop::collection::vec(prop::sample::select(Nd4jType::ALL.to_vec()), 0..4),
    );
    let all = (
        prop::collection::btree_map(name(), (value(), any::<bool>()), 0..4),
        prop::collection::btree_map(name(), states, 0..3),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        arguments,
    );
    all.prop_map(|(parameters, states, config, arguments)| Given {
        parameters,
        states,
        config,
        i_args: arguments.0,
        t_args: arguments.1,
        b_args: arguments.2,
        d_args: arguments.3,
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    let compression = prop::sample::select(vec![
        ZipCompression::Keep,
        ZipCompression::Stored,
        ZipCompression::Deflated,
    ]);
    let any_name =
        prop_oneof![4 => name(), 1 => Just("in".to_owned()), 1 => Just("out".to_owned())];
    prop_oneof![
        4 => given().prop_map(Edit::Add),
        2 => (any::<usize>(), any::<usize>(), 0_u8..3)
            .prop_map(|(tag, which, change)| Edit::AddLike(tag, which, change)),
        1 => any::<usize>().prop_map(Edit::Extract),
        2 => any::<usize>().prop_map(Edit::Drop),
        2 => any::<usize>().prop_map(Edit::Rename),
        2 => (any::<usize>(), any_name).prop_map(|(tag, name)| Edit::RenameVariable(tag, name)),
        1 => Just(Edit::Merge),
        1 => Just(Edit::Deduplicate),
        1 => Just(Edit::CollectGarbage),
        3 => compression.prop_map(Edit::Save),
        1 => (any::<usize>(), value()).prop_map(|(tag, value)| Edit::Stray(tag, value)),
    ]
}

/// Writes a draft, checks the written file, and compares its content with the reference model.
fn save(
    draft: &Draft,
    memory: &mut Memory,
    path: &Path,
    compression: ZipCompression,
) -> Result<Model, TestCaseError> {
    let options = SameDiffWriteOptions::new().compression(compression);
    let written = draft.write(path, &options).unwrap();
    let shared = memory.settle();
    let model = checked(path);
    let found = Snapshot::of(&model, arrays_in(path));
    prop_assert_eq!(found, memory.snapshot());
    let WrittenSameDiff {
        arrays,
        shared: found,
        ..
    } = written;
    prop_assert_eq!((arrays, found), (arrays_in(path) as u64, shared as u64));
    Ok(model)
}

fn checked(path: &Path) -> Model {
    let model = Model::open(path).unwrap();
    let report = model.check(&CheckOptions::new()).unwrap();
    report.into_result().unwrap();
    model
}

/// Returns the number of array files in an archive.
fn arrays_in(path: &Path) -> usize {
    let all = entries(path);
    let arrays = all.iter().filter(|name| name.split('/').count() == 3);
    arrays.count()
}

/// Adds an array file to an archive.
fn append(path: &Path, entry: &str, value: &Value) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut archive = zip::ZipWriter::new_append(file).unwrap();
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file(entry, stored).unwrap();
    archive.write_all(&file_of(value.array())).unwrap();
    archive.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn edits_in_any_order_lead_where_a_model_in_memory_says(
        edits in prop::collection::vec(edit(), 1..16)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut draft, mut memory) = (Draft::new(), Memory::default());
        for (number, edit) in edits.into_iter().enumerate() {
            let count = memory.tags.len();
            let fresh = format!("Tag-{number}");
            let path = folder.path().join(format!("{number}.zip"));
            match edit {
                Edit::Add(given) => {
                    draft.add_tag(fresh.parse().unwrap(), given.content()).unwrap();
                    memory.add(&fresh, &given);
                }
                _ if count == 0 => {}
                Edit::AddLike(tag, which, change) => {
                    let base = memory.tags[tag % count].name.clone();
                    let changed = memory.add_like(tag % count, &fresh, which, change);
                    let changed = changed.map(|(name, value)| (name, value.array()));
                    draft.add_tag_like(fresh.parse().unwrap(), &base, changed).unwrap();
                }
                Edit::Extract(tag) => {
                    let name = memory.tags[tag % count].name.to_lowercase();
                    draft.extract_tag(&name).unwrap();
                    memory.extract(tag % count);
                }
                Edit::Drop(tag) => {
                    let name = memory.tags[tag % count].name.clone();
                    prop_assert_eq!(draft.drop_tag(&name).is_ok(), count > 1);
                    if count > 1 {
                        memory.tags.remove(tag % count);
                    }
                }
                Edit::Rename(tag) => {
                    let tag = &mut memory.tags[tag % count];
                    draft.rename_tag(&tag.name, fresh.parse().unwrap()).unwrap();
                    tag.name = fresh;
                }
                Edit::RenameVariable(tag, name) => {
                    let to = format!("v{number}");
                    let tag_name = memory.tags[tag % count].name.clone();
                    let renamed = draft.rename_variable(&tag_name, &name, &to);
                    let known = memory.rename_variable(tag % count, &name, &to);
                    prop_assert_eq!(renamed.is_ok(), known);
                }
                Edit::Merge => {
                    let mut other = draft.clone();
                    prop_assert!(draft.merge(other.clone()).is_err());
                    let mut more = memory.clone();
                    for (index, tag) in more.tags.iter_mut().enumerate() {
                        let name = format!("{fresh}.{index}");
                        other.rename_tag(&tag.name, name.parse().unwrap()).unwrap();
                        tag.name = name;
                    }
                    draft.merge(other).unwrap();
                    memory.merge(more);
                }
                Edit::Deduplicate => {
                    draft.deduplicate().unwrap();
                    memory.deduplicate();
                }
                Edit::CollectGarbage => {
                    draft.collect_garbage();
                    memory.collect_garbage();
                }
                Edit::Save(compression) => {
                    let model = save(&draft, &mut memory, &path, compression)?;
                    draft = Draft::open(&model).unwrap();
                }
                Edit::Stray(tag, value) => {
                    save(&draft, &mut memory, &path, ZipCompression::Keep)?;
                    let entry = format!("{}/params/{}.fb", memory.tags[tag % count].name, 1000 + number);
                    append(&path, &entry, &value);
                    memory.add_stray(tag % count, value);
                    draft = Draft::open(&checked(&path)).unwrap();
                }
            }
            let tags = draft.tags().map(|tag| tag.as_str());
            prop_assert!(tags.eq(memory.tags.iter().map(|tag| &*tag.name)));
        }
        if !memory.tags.is_empty() {
            save(&draft, &mut memory, &folder.path().join("last.zip"), ZipCompression::Keep)?;
        }
    }

    #[test]
    fn an_array_of_any_kind_reads_back(
        dtype in prop::sample::select(Nd4jType::ALL.to_vec()),
        shape in prop::collection::vec(0_u64..5, 0..5),
        fortran in any::<bool>(),
        big in any::<bool>(),
        seed in any::<u8>(),
    ) {
        prop_assume!(dtype != Nd4jType::Utf8);
        let order = if fortran { Order::F } else { Order::C };
        let byte_order = if big { ArrayByteOrder::Big } else { ArrayByteOrder::Little };
        let info = ArrayInfo::new(dtype, shape.clone()).unwrap().with_order(order).with_byte_order(byte_order);
        let len = info.data_len().unwrap();
        let stored: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
        let original = Array::from_bytes(info, stored).unwrap();
        let mut graph = Graph::default();
        let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
        graph.variables.push(SameDiffVariable::new("x", VarType::Constant, dtype, dims));
        let content = TagContent::new(graph).parameter("x", original.clone());
        let mut draft = Draft::new();
        draft.add_tag("t".parse().unwrap(), content).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zip");
        draft.write(&path, &SameDiffWriteOptions::new()).unwrap();
        let model = checked(&path);
        let read = model.default_tag().parameter("x").unwrap();
        prop_assert_eq!(read.info().byte_order(), ArrayByteOrder::Little);
        prop_assert_eq!(values(&read), values(&original));
        prop_assert!(read.equals(&original).unwrap());
    }
}
