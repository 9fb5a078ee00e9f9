//! Reading SDNB files, which contain a FlatGraph and the data of large arrays, and SDZ files, which
//! are zip archives of SDNB files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::open_regular;
use record_file::ReadAt;

use super::{classic, not_convertible};
use crate::budget::Budget;
use crate::fb::schema::flat_graph::{
    self, flat_array, flat_graph as slots, flat_variable, updater_state,
};
use crate::fb::{self, Object, Span, Unknown, Value};
use crate::layout;
use crate::limits::SameDiffLimits;
use crate::zip::{Archive, Section};
use crate::{Array, ArrayInfo, Error, ErrorKind, Nd4jType, Order, Result, TagContent, VarType};

/// First bytes of an SDNB file.
pub(crate) const MAGIC: &[u8] = b"SDNB";

/// Size of an SDNB file's header, in bytes. The header's numbers are big-endian:
///
/// ```text
/// 0 "SDNB" | 4 i32 version 1 | 8 i64 manifest's offset | 16 i64 its length | 24 i64 graph's offset, 32
/// ```
///
/// The header is followed by the graph, the data of large arrays without padding, and the manifest.
/// The manifest is a serialized Java map. It isn't needed, since the graph has the location of each
/// array's data.
const HEADER_LEN: u64 = HEADER as u64;
const HEADER: usize = 32;

const VERSION: i32 = 1;

/// Maximum number of shards in a model. The file of each shard stays open.
const MAX_SHARDS: u32 = 4096;

/// An SDNB file, which contains a whole model or a shard of a model.
struct Part {
    source: Arc<dyn ReadAt>,
    /// The graph. Its spans are relative to the end of the file's header.
    graph: Object,
    /// Offset in the file at which the section for large arrays begins.
    blobs: u64,
}

/// Reads an open SDNB file. If it is a shard, also reads the model's other shards, from the same
/// folder, and stores the paths of all files in the content.
pub(super) fn read_files(
    file: Arc<dyn ReadAt>,
    path: &Path,
    limits: &SameDiffLimits,
) -> Result<TagContent> {
    let paths: Vec<PathBuf> = match shard(path) {
        None => vec![path.to_owned()],
        Some((base, count)) => (0..count)
            .map(|index| PathBuf::from(format!("{base}.shard{index}-of-{count}.sdnb")))
            .collect(),
    };
    let mut budget = Budget::of_tables(limits.get_max_graph_size());
    let parts = paths.iter().map(|shard| {
        let mut open = || {
            let file = if shard == path {
                Arc::clone(&file)
            } else {
                Arc::new(open_regular(shard)?)
            };
            Part::open(file, &mut budget)
        };
        open().map_err(|error: Error| error.in_file(shard.display()))
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let mut content = convert(parts, &mut budget)?;
    content.files = paths.into_iter().filter(|shard| shard != path).collect();
    Ok(content)
}

/// Reads an SDZ file.
pub(super) fn read_sdz(source: Arc<dyn ReadAt>, limits: &SameDiffLimits) -> Result<TagContent> {
    let archive = Archive::open(source, limits)?;
    let directory = archive.directory();
    if directory.find(layout::TAGS).is_some() {
        return Err(not_convertible("the file already is a model with tags"));
    }
    // Chooses entries as Java's loader does: the only entry, one with a usual name, or shards.
    let all: Vec<_> = directory.files().map(|(index, _)| index).collect();
    let mut shards = BTreeMap::new();
    for (index, record) in directory.files() {
        if let Some((base, number, count)) = parse_shard(&record.name) {
            shards.insert((base.to_owned(), count, number), index);
        }
    }
    let usual = ["model.sdnb", "model"]
        .into_iter()
        .find_map(|name| directory.find(name));
    let single = match &all[..] {
        [only] if !layout::is_of_model(&archive.record(*only).name) => Some(*only),
        _ => usual,
    };
    let chosen = match (single, shards.keys().next().cloned()) {
        (Some(single), _) => vec![single],
        (None, Some((base, count, _))) => {
            let shard = |number| {
                let found = shards.get(&(base.clone(), count, number)).copied();
                found.ok_or_else(|| {
                    let message = format!("shard {number} of {count} is missing");
                    Error::new(ErrorKind::MissingEntry, message)
                })
            };
            (0..count).map(shard).collect::<Result<_>>()?
        }
        (None, None) => {
            let message =
                "the zip archive is not a SameDiff model: it has neither tags.txt nor model.sdnb";
            return Err(Error::new(ErrorKind::MissingEntry, message));
        }
    };
    let mut budget = Budget::of_tables(limits.get_max_graph_size());
    let parts = chosen.into_iter().map(|index| {
        let open = archive
            .positioned(index)
            .and_then(|source| Part::open(source, &mut budget));
        open.map_err(|error| error.in_entry(&archive.record(index).name))
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    convert(parts, &mut budget)
}

/// Returns the common prefix of the paths of a model's shards, and the number of shards. Returns
/// `None` if the file isn't a shard.
fn shard(path: &Path) -> Option<(String, u32)> {
    let (base, _, count) = parse_shard(path.to_str()?)?;
    Some((base.to_owned(), count))
}

/// Parses a shard's name, `BASE.shardI-of-N.sdnb`, and returns BASE, I and N.
fn parse_shard(name: &str) -> Option<(&str, u32, u32)> {
    let (base, numbers) = name.strip_suffix(".sdnb")?.rsplit_once(".shard")?;
    let (number, count) = numbers.split_once("-of-")?;
    let (number, count) = (number.parse().ok()?, count.parse().ok()?);
    (number < count && count <= MAX_SHARDS).then_some((base, number, count))
}

impl Part {
    fn open(source: Arc<dyn ReadAt>, budget: &mut Budget) -> Result<Part> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidGraph, message);
        let size = source.size()?;
        let mut header = [0; HEADER];
        if size < HEADER_LEN {
            return Err(invalid(format!(
                "{size} bytes are too few for an SDNB file"
            )));
        }
        source.read_exact_at(0, &mut header)?;
        if !header.starts_with(MAGIC) {
            return Err(invalid(
                "not an SDNB file: it doesn't begin with SDNB".to_owned(),
            ));
        }
        let (words, _) = header[8..].as_chunks::<8>();
        let [manifest, manifest_len, graph] =
            [words[0], words[1], words[2]].map(u64::from_be_bytes);
        let [_, _, _, _, v0, v1, v2, v3, ..] = header;
        let version = i32::from_be_bytes([v0, v1, v2, v3]);
        if version != VERSION {
            return Err(invalid(format!(
                "SDNB version {version} is unsupported: only version {VERSION} is known"
            )));
        }
        let ends = manifest.checked_add(manifest_len);
        if graph != HEADER_LEN || manifest < HEADER_LEN || ends != Some(size) {
            let message = format!(
                "the header says that the graph is at {graph}, and {manifest_len} bytes of manifest at \
                 {manifest}, of {size} bytes"
            );
            return Err(invalid(message));
        }
        let section = Section::of(&source, HEADER_LEN, manifest - HEADER_LEN);
        let kind = ErrorKind::InvalidGraph;
        let root = &flat_graph::FLAT_GRAPH;
        let graph = fb::read(&section, root, kind, Unknown::Refused, budget)?;
        let blobs_len = blobs_len(&graph)?;
        let blobs = manifest
            .checked_sub(blobs_len)
            .filter(|&blobs| blobs >= HEADER_LEN);
        let Some(blobs) = blobs else {
            let message =
                format!("{blobs_len} bytes of arrays end at {manifest}, but fewer precede it");
            return Err(invalid(message));
        };
        Ok(Part {
            source,
            graph,
            blobs,
        })
    }

    /// Opens an array, given its table. In SDNB files, the table's shape is a plain list of
    /// dimensions, and its "byte order" specifies the element order.
    fn array(&self, mut table: Object) -> Result<Array> {
        let dtype = Nd4jType::from_code(table.take_i8(flat_array::DTYPE))?;
        let order = match table.take_i8(flat_array::BYTE_ORDER) {
            0 => Order::C,
            1 => Order::F,
            other => {
                let message = format!("order {other} of elements is unknown");
                return Err(Error::new(ErrorKind::InvalidArray, message));
            }
        };
        let dims = table.take_i64s(flat_array::SHAPE).unwrap_or_default();
        let shape = dims
            .iter()
            .map(|&dim| u64::try_from(dim))
            .collect::<Result<Vec<_>, _>>();
        let Ok(shape) = shape else {
            let message = format!("a negative dimension in {dims:?}");
            return Err(Error::new(ErrorKind::InvalidArray, message));
        };
        let (mut offset, mut len) = (0, 0);
        if let Some((at, blob_len)) = appended(&table)? {
            (offset, len) = (self.blobs + at, blob_len);
        } else if let Some(Value::Span(Span {
            offset: at,
            len: inline,
        })) = table.take(flat_array::BUFFER)
        {
            (offset, len) = (HEADER_LEN + at, inline);
        }
        let info = ArrayInfo::new(dtype, shape)?.with_order(order);
        Array::from_source(info, Arc::clone(&self.source), offset, len)
    }
}

/// Returns the offset and length of an array's data in the section for large arrays; `None` if the
/// data isn't in this section.
fn appended(table: &Object) -> Result<Option<(u64, u64)>> {
    let number = |slot| match table.get(slot) {
        Some(&Value::I64(value)) => value,
        _ => 0,
    };
    let len = number(flat_array::APPENDED_DATA_LENGTH);
    if len == 0 {
        return Ok(None);
    }
    let offset = u64::try_from(number(flat_array::APPENDED_DATA_OFFSET)).ok();
    let len = u64::try_from(len).ok();
    let span = offset
        .zip(len)
        .filter(|(offset, len)| offset.checked_add(*len).is_some());
    match span {
        Some(span) => Ok(Some(span)),
        None => {
            let message = "an array's data is at an impossible offset";
            Err(Error::new(ErrorKind::InvalidArray, message))
        }
    }
}

/// Returns the size of the section for large arrays, in bytes.
fn blobs_len(graph: &Object) -> Result<u64> {
    let mut end = 0;
    let mut see = |array: &Object| -> Result<()> {
        if let Some((offset, len)) = appended(array)? {
            end = end.max(offset + len);
        }
        Ok(())
    };
    if let Some(Value::Tables(variables)) = graph.get(slots::VARIABLES) {
        for variable in variables {
            if let Some(Value::Table(array)) = variable.get(flat_variable::NDARRAY) {
                see(array)?;
            }
        }
    }
    if let Some(Value::Tables(states)) = graph.get(slots::UPDATER_STATE) {
        for state in states {
            if let Some(Value::Tables(arrays)) = state.get(updater_state::UPDATER_STATE_VALUES) {
                arrays.iter().try_for_each(&mut see)?;
            }
        }
    }
    Ok(end)
}

/// Combines the shards of a model. The first shard has the graph, and the other shards have arrays
/// of the graph's variables.
fn convert(parts: Vec<Part>, budget: &mut Budget) -> Result<TagContent> {
    let mut parts = parts.into_iter();
    let Some(mut first) = parts.next() else {
        let message = "there is no file";
        return Err(Error::new(ErrorKind::InvalidGraph, message));
    };
    let mut graph = std::mem::take(&mut first.graph);
    let mut others = Vec::new();
    let mut found: HashMap<String, (usize, Object)> = HashMap::new();
    let mut extra = Vec::new();
    for (mut part, number) in parts.zip(1..) {
        check_shard(&part.graph, &graph, number)?;
        for mut variable in part.graph.take_tables(slots::VARIABLES) {
            let Some(Value::String(name)) = variable.get(flat_variable::NAME) else {
                continue;
            };
            let name = name.clone();
            if let Some(array) = variable.take_table(flat_variable::NDARRAY) {
                found.insert(name, (others.len(), array));
            }
            extra.push(variable);
        }
        others.push(part);
    }
    let mut variables = graph.take_tables(slots::VARIABLES);
    let name = |variable: &Object| match variable.get(flat_variable::NAME) {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    };
    let known: std::collections::HashSet<String> = variables.iter().map(name).collect();
    variables.extend(
        extra
            .into_iter()
            .filter(|variable| !known.contains(&name(variable))),
    );
    // Arrays from other shards get a number, stored in a slot that SDNB files leave empty.
    let mut arrays = Vec::new();
    for variable in &mut variables {
        if let Some((part, array)) = found.remove(&name(variable)) {
            let mut stub = Object::default();
            stub.set(
                flat_array::EXTERNAL_FILE,
                Value::String(arrays.len().to_string()),
            );
            arrays.push((part, array));
            variable.set(flat_variable::NDARRAY, Value::Table(stub));
        }
    }
    let mut open = |mut table: Object| {
        let number = table.take_string(flat_array::EXTERNAL_FILE);
        match number.and_then(|number| number.parse::<usize>().ok()) {
            None => first.array(table),
            Some(number) => match arrays.get_mut(number) {
                Some((part, array)) => others[*part].array(std::mem::take(array)),
                None => {
                    let message = "the array is in another file, which is not supported";
                    Err(Error::new(ErrorKind::UnsupportedArray, message))
                }
            },
        }
    };
    for variable in &mut variables {
        let kind = match variable.get(flat_variable::VARIABLE_TYPE) {
            Some(&Value::I8(kind)) => kind,
            _ => 0,
        };
        if !VarType::from_code(kind)?.has_values()
            && let Some(array) = variable.take_table(flat_variable::NDARRAY)
        {
            let array = embedded(&open(array)?, budget)?;
            variable.set(flat_variable::NDARRAY, Value::Table(array));
        }
    }
    graph.set(slots::VARIABLES, Value::Tables(variables));
    let section = Section::of(&first.source, HEADER_LEN, first.blobs - HEADER_LEN);
    classic::convert(graph, &section, budget, open)
}

/// Fails if a shard's graph has content that the first shard's graph lacks. Variables, metadata and
/// the ID may differ.
fn check_shard(graph: &Object, first: &Object, number: usize) -> Result<()> {
    // These fields may differ, since they describe the shard itself.
    let own = [
        slots::ID,
        slots::VARIABLES,
        slots::METADATA_KEYS,
        slots::METADATA_VALUES,
    ];
    for (slot, value) in graph.fields() {
        if !own.contains(slot) && !value.is_empty() && first.get(*slot) != Some(value) {
            let field = flat_graph::FLAT_GRAPH.fields.get(*slot);
            let message = format!(
                "shard {number} has other {} than the first shard, which would be lost",
                field.map_or("fields", |field| field.name)
            );
            return Err(not_convertible(message));
        }
    }
    Ok(())
}

/// Returns a table that contains the array's data, in the form that classic files use.
fn embedded(array: &Array, budget: &mut Budget) -> Result<Object> {
    budget.spend(array.data_len())?;
    let info = array.info();
    let bytes = array.little_endian()?.read_to_vec(array.data_len())?;
    let mut table = Object::default();
    table.set(flat_array::SHAPE, Value::I64s(info.to_shape_info()));
    table.set(flat_array::BUFFER, Value::Bytes(bytes));
    table.set(flat_array::DTYPE, Value::I8(info.dtype().code()));
    Ok(table)
}
