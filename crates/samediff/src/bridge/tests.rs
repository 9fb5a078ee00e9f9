//! Round trips of graphs from DL4J, and of files in other formats.

mod fields;
mod large;

use std::path::{Path, PathBuf};

use super::*;
use crate::budget::Budget;
use crate::fb::schema::flat_graph::{
    self, flat_array, flat_graph as slots, flat_variable, updater_state,
};
use crate::fb::{self, Object, TableType, Unknown, Value};
use crate::{ArrayByteOrder, ArrayInfo, Draft, Model, SameDiffWriteOptions, TagContent};

/// Returns the paths of graphs from DL4J's own tests; empty if they aren't available.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn real_graphs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/samediff");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is not there", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "fb"));
    paths.sort();
    assert_eq!(paths.len(), 20);
    paths
}

/// Reads a classic file as a table with all of its content. Normalizes what may differ: absent and
/// empty values, and the byte order of arrays.
fn table(path: &Path) -> Object {
    let bytes = std::fs::read(path).unwrap();
    let mut budget = Budget::of_tables(1 << 30);
    let kind = ErrorKind::InvalidGraph;
    let root = &flat_graph::FLAT_GRAPH;
    let mut table = fb::read(&bytes, root, kind, Unknown::Refused, &mut budget).unwrap();
    table.inline(&bytes, &mut budget).unwrap();
    let Some(Value::Tables(variables)) = table.get_mut(slots::VARIABLES) else {
        panic!("there are no variables");
    };
    for variable in variables {
        if let Some(Value::Table(array)) = variable.get_mut(flat_variable::NDARRAY) {
            lowest_byte_first(array);
        }
    }
    if let Some(Value::Tables(states)) = table.get_mut(slots::UPDATER_STATE) {
        for state in states {
            if let Some(Value::Tables(arrays)) = state.get_mut(updater_state::UPDATER_STATE_VALUES)
            {
                arrays.iter_mut().for_each(lowest_byte_first);
            }
        }
    }
    without_empty(&table)
}

fn lowest_byte_first(array: &mut Object) {
    let dtype = crate::Nd4jType::from_code(match array.get(flat_array::DTYPE) {
        Some(&Value::I8(code)) => code,
        _ => 0,
    });
    let dtype = dtype.unwrap();
    let width = dtype.width().unwrap_or(1);
    if array.take_i8(flat_array::BYTE_ORDER) == 1
        && let Some(Value::Bytes(bytes)) = array.get_mut(flat_array::BUFFER)
    {
        bytes
            .chunks_exact_mut(width.into())
            .for_each(<[u8]>::reverse);
    }
    // The stride of a dimension of length one is unused, so it may have any value in the file.
    if let Some(Value::I64s(info)) = array.get_mut(flat_array::SHAPE) {
        let known = ArrayInfo::from_shape_info(info, dtype, ArrayByteOrder::Little);
        *info = known.unwrap().to_shape_info();
    }
}

fn without_empty(table: &Object) -> Object {
    let mut kept = Object::default();
    for (slot, value) in table.fields() {
        let value = match value {
            Value::Table(table) => Value::Table(without_empty(table)),
            Value::Tables(tables) => Value::Tables(tables.iter().map(without_empty).collect()),
            other => other.clone(),
        };
        let empty = match &value {
            Value::Bytes(values) => values.is_empty(),
            Value::I8s(values) => values.is_empty(),
            Value::I32s(values) => values.is_empty(),
            Value::I64s(values) => values.is_empty(),
            Value::F64s(values) => values.is_empty(),
            Value::Strings(values) => values.is_empty(),
            Value::Tables(values) => values.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if !empty {
            kept.set(*slot, value);
        }
    }
    kept
}

fn differences(a: &Object, b: &Object, own: &'static TableType, at: &str, all: &mut Vec<String>) {
    for (slot, field) in own.fields.iter().enumerate() {
        let at = format!("{at}.{}", field.name);
        match (a.get(slot), b.get(slot), field.kind) {
            (Some(Value::Table(a)), Some(Value::Table(b)), fb::Kind::Table(own)) => {
                differences(a, b, own, &at, all);
            }
            (Some(Value::Tables(a)), Some(Value::Tables(b)), fb::Kind::Tables(own))
                if a.len() == b.len() =>
            {
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    differences(a, b, own, &format!("{at}[{index}]"), all);
                }
            }
            (a, b, _) if a == b => {}
            (a, b, _) => all.push(format!("{at}: {a:?} {b:?}")),
        }
    }
}

fn model(content: TagContent, path: &Path) -> Model {
    let mut draft = Draft::new();
    draft.add_tag("only".parse().unwrap(), content).unwrap();
    draft.write(path, &SameDiffWriteOptions::new()).unwrap();
    Model::open(path).unwrap()
}

#[test]
fn real_graphs_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut arrays = 0;
    for (index, path) in real_graphs().into_iter().enumerate() {
        let content = import(&path).unwrap();
        let model = model(content, &folder.path().join(format!("{index}.zip")));
        let report = model.check(&crate::CheckOptions::new()).unwrap();
        assert!(
            report.errors.is_empty(),
            "{}: {:?}",
            path.display(),
            report.errors
        );
        arrays += report.arrays;
        let back = folder.path().join(format!("{index}.fb"));
        write_classic(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap();
        let mut found = Vec::new();
        let root = &flat_graph::FLAT_GRAPH;
        differences(&table(&path), &table(&back), root, "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{}", path.display());
        // Repeats the comparison with the classic file just written.
        let again = import(&back).unwrap();
        assert_eq!(again.graph(), &model.default_tag().graph().unwrap());
    }
    assert!(arrays == 0 || arrays > 50, "{arrays}");
}

/// Returns a FlatVariable for an SDNB file. The array's data is either `data`, in the table itself,
/// or at the offset `blob` in the section for large arrays.
fn variable(
    index: i32,
    name: &str,
    dims: &[i64],
    order: i8,
    data: &[u8],
    blob: Option<i64>,
) -> Object {
    let mut array = Object::default();
    array.set(flat_array::SHAPE, Value::I64s(dims.to_vec()));
    array.set(flat_array::DTYPE, Value::I8(crate::Nd4jType::Int16.code()));
    array.set(flat_array::BYTE_ORDER, Value::I8(order));
    match blob {
        None => array.set(flat_array::BUFFER, Value::Bytes(data.to_vec())),
        Some(offset) => {
            let len = i64::try_from(data.len()).unwrap();
            array.set(flat_array::APPENDED_DATA_OFFSET, Value::I64(offset));
            array.set(flat_array::APPENDED_DATA_LENGTH, Value::I64(len));
        }
    }
    let mut id = Object::default();
    id.set(flat_graph::int_pair::FIRST, Value::I32(index));
    let mut variable = Object::default();
    variable.set(flat_variable::ID, Value::Table(id));
    variable.set(flat_variable::NAME, Value::String(name.to_owned()));
    variable.set(
        flat_variable::DTYPE,
        Value::I8(crate::Nd4jType::Int16.code()),
    );
    variable.set(flat_variable::SHAPE, Value::I64s(dims.to_vec()));
    variable.set(flat_variable::NDARRAY, Value::Table(array));
    variable
}

/// Returns an SDNB file with these variables and these bytes of large arrays.
fn sdnb_file(variables: Vec<Object>, blobs: &[u8]) -> Vec<u8> {
    let mut graph = Object::default();
    graph.set(slots::ID, Value::I64(1));
    graph.set(slots::VARIABLES, Value::Tables(variables));
    sdnb_of(&graph, blobs)
}

fn sdnb_of(graph: &Object, blobs: &[u8]) -> Vec<u8> {
    let (graph, _) = fb::write(graph).unwrap();
    let manifest = b"\xac\xed\0\x05 and what Java makes of a map";
    let at = (32 + graph.len() + blobs.len()) as u64;
    let mut bytes = b"SDNB\0\0\0\x01".to_vec();
    for word in [at, manifest.len() as u64, 32] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(graph);
    bytes.extend(blobs);
    bytes.extend(manifest);
    bytes
}

fn values_of(content: &TagContent) -> Vec<(String, Vec<u8>)> {
    let all = content.parameters().map(|(name, array)| {
        let values = array.values().unwrap().read_to_vec(1 << 20).unwrap();
        (name.to_owned(), values)
    });
    all.collect()
}

const SMALL: &[u8] = &[1, 0, 2, 0];
/// Data of a 16-bit array of two rows and three columns, stored column by column.
const COLUMNS: &[u8] = &[1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0];
const ROWS: &[u8] = &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];

#[test]
fn sdnb_files_have_small_arrays_inside_and_large_ones_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.sdnb");
    let blobs = [&[7, 0][..], COLUMNS].concat();
    let variables = vec![
        variable(1, "small", &[2], 0, SMALL, None),
        variable(2, "first", &[], 0, &[7, 0], Some(0)),
        variable(3, "second", &[2, 3], 1, COLUMNS, Some(2)),
    ];
    let bytes = sdnb_file(variables, &blobs);
    std::fs::write(&path, &bytes).unwrap();
    let content = import(&path).unwrap();
    let expected = [("small", SMALL), ("first", &[7, 0]), ("second", ROWS)];
    let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    assert_eq!(values_of(&content), expected);
    let model = model(content, &folder.path().join("model.zip"));
    model
        .check(&crate::CheckOptions::new())
        .unwrap()
        .into_result()
        .unwrap();

    // A zip archive that contains the same file, deflated, is an SDZ file.
    let mut archive = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = ::zip::write::SimpleFileOptions::default()
        .compression_method(::zip::CompressionMethod::Deflated);
    archive.start_file("model.sdnb", options).unwrap();
    std::io::Write::write_all(&mut archive, &bytes).unwrap();
    let path = folder.path().join("model.sdz");
    std::fs::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    assert_eq!(values_of(&import(&path).unwrap()), expected);

    for len in (0..bytes.len()).step_by(13) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        assert!(import(&path).is_err(), "{len}");
    }
}

#[test]
fn shards_make_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut bare = variable(1, "a", &[2], 0, SMALL, None);
    bare.take(flat_variable::NDARRAY);
    let shards = [
        sdnb_file(vec![bare], &[]),
        sdnb_file(vec![variable(1, "a", &[2], 0, SMALL, None)], &[]),
        sdnb_file(
            vec![variable(2, "b", &[2, 3], 1, COLUMNS, Some(0))],
            COLUMNS,
        ),
    ];
    for (index, bytes) in shards.iter().enumerate() {
        let name = format!("model.shard{index}-of-3.sdnb");
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let content = import(folder.path().join("model.shard0-of-3.sdnb")).unwrap();
    let expected = [("a", SMALL), ("b", ROWS)];
    let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    assert_eq!(values_of(&content), expected);
    std::fs::remove_file(folder.path().join("model.shard2-of-3.sdnb")).unwrap();
    let error = import(folder.path().join("model.shard0-of-3.sdnb")).unwrap_err();
    assert!(
        error.to_string().contains("model.shard2-of-3.sdnb"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_shard_that_is_not_a_regular_file_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] =
        [0, 1].map(|index| folder.path().join(format!("m.shard{index}-of-2.sdnb")));
    std::fs::write(&first, sdnb_file(Vec::new(), &[])).unwrap();
    std::os::unix::fs::symlink("/dev/null", &second).unwrap();
    let error = import(&first).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert!(error.contains("m.shard1-of-2.sdnb"), "{error}");
}

#[test]
fn safetensors_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let header = r#"{"__metadata__":{"format":"pt","by":"a \"tool\""},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}"#;
    let header = format!("{header:160}");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(*b"12345678ab");
    std::fs::write(&path, &bytes).unwrap();
    let model = model(import(&path).unwrap(), &folder.path().join("a.zip"));
    let back = folder.path().join("b.safetensors");
    write_safetensors(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap();
    let read = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let written = std::fs::read(&back).unwrap();
    let said = |bytes: &[u8]| {
        let (_, header) = ::safetensors::SafeTensors::read_metadata(bytes).unwrap();
        header.metadata().clone().unwrap()
    };
    assert_eq!(said(&bytes)["by"], "a \"tool\"");
    assert_eq!(said(&written), said(&bytes));
    let written = ::safetensors::SafeTensors::deserialize(&written).unwrap();
    for name in ["w", "b"] {
        assert_eq!(written.tensor(name).unwrap(), read.tensor(name).unwrap());
    }
    let error =
        write_safetensors(&model.default_tag(), &back, &SameDiffWriteOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    for len in (9..bytes.len()).step_by(7) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        assert!(import(&path).is_err(), "{len}");
    }
}
