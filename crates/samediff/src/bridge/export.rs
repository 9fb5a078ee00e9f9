//! Writing tags as classic files.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::path::Path;

use super::{classic, not_convertible, write_file};
use crate::array;
use crate::draft::SameDiffWriteOptions;
use crate::fb::schema::flat_graph::{
    flat_array, flat_graph as slots, flat_node, flat_variable, int_pair, updater_state,
};
use crate::fb::{self, MAX_BUFFER_LEN, Object, Unknown, Value};
use crate::graph::values;
use crate::layout;
use crate::{
    Arguments, Array, ArrayFile, ArrayInfo, Arrays, Graph, Nd4jType, Operation, Result,
    SameDiffVariable, TagView, VarType,
};

/// Alignment of an array's data in a classic file: 64 bytes.
const ALIGNMENT: u64 = 64;

/// Writes a tag as a classic file, and returns the file's size in bytes. The file is one FlatGraph
/// that contains all arrays. Names of arguments are omitted, since the classic format has none;
/// [`left_out_of_classic`] reports the omission. Content that originally came from a classic file
/// is restored unchanged.
///
/// # Errors
///
/// [`ErrorKind::NotConvertible`](crate::ErrorKind::NotConvertible) if the file would be larger than
/// 2 GiB, `trainingConfig.fb` isn't JSON, or the graph has unknown fields; any error in the model
/// or from writing.
pub fn write_classic(
    tag: &TagView<'_>,
    path: impl AsRef<Path>,
    options: &SameDiffWriteOptions,
) -> Result<u64> {
    let path = path.as_ref();
    let laid_out = lay_out(tag).map_err(|error| error.in_file(path.display()));
    let (bytes, payloads) = laid_out?;
    let mut at = bytes.len() as u64;
    let total = payloads
        .last()
        .map_or(at, |last| last.start + last.array.data_len());
    write_file(path, options, total, |output| {
        output.file.write_all(&bytes)?;
        drop(bytes);
        for payload in &payloads {
            // The length of the data is stored immediately before the data.
            let gap = payload.start - 4 - at;
            io::copy(&mut io::repeat(0).take(gap), &mut output.file)?;
            output.file.write_all(&payload.len.to_le_bytes())?;
            output.put(payload.array.little_endian()?)?;
            at = payload.start + payload.array.data_len();
        }
        Ok(at)
    })
}

/// Returns a one-line description, for the user, of the part of a tag that a classic file can't
/// contain; `None` if a classic file can contain the whole tag.
///
/// ```
/// use proto_splitter_samediff::{Draft, Graph, Model, Operation, SameDiffWriteOptions, TagContent};
/// use proto_splitter_samediff::left_out_of_classic;
///
/// let mut pad = Operation::new("pad", "pad");
/// pad.i_args.push(("mode".to_owned(), 1));
/// let mut graph = Graph::default();
/// graph.operations.push(pad);
/// let mut draft = Draft::new();
/// draft.add_tag("first".parse()?, TagContent::new(graph))?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.zip");
/// draft.write(&path, &SameDiffWriteOptions::new())?;
///
/// let left_out = left_out_of_classic(&Model::open(&path)?.default_tag())?;
/// let line = "a classic file can't store names of arguments; this leaves out those of the operation \"pad\"";
/// assert_eq!(left_out.as_deref(), Some(line));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Any error in the graph.
pub fn left_out_of_classic(tag: &TagView<'_>) -> Result<Option<String>> {
    let graph = tag.graph()?;
    let mut named = graph.operations.iter().filter(|operation| {
        is_named("i", &operation.i_args)
            || is_named("t", &operation.t_args)
            || is_named("b", &operation.b_args)
            || is_named("d", &operation.d_args)
    });
    let Some(first) = named.next() else {
        return Ok(None);
    };
    let others = match named.count() {
        0 => String::new(),
        count => format!(" and of {count} more"),
    };
    let name = &first.name;
    Ok(Some(format!(
        "a classic file can't store names of arguments; this leaves out those of the operation {name:?}{others}"
    )))
}

/// Returns true if arguments have names that differ from those assigned when reading a classic
/// file.
fn is_named<T>(prefix: &str, arguments: &Arguments<T>) -> bool {
    let mut numbered = arguments.iter().enumerate();
    numbered.any(|(at, (name, _))| *name != format!("{prefix}{at}"))
}

/// The data of an array, which is written after the tables.
struct Payload {
    array: Array,
    len: u32,
    /// Offset of the data in the file.
    start: u64,
}

/// Returns a buffer with the tables of a classic file, and the arrays to write after it.
fn lay_out(tag: &TagView<'_>) -> Result<(Vec<u8>, Vec<Payload>)> {
    let mut export = Export::default();
    let table = export.graph(tag)?;
    let (mut bytes, deferred) = fb::write(&table)?;
    let mut at = bytes.len() as u64;
    let mut payloads = Vec::new();
    for array in export.arrays {
        let start = (at + 4).next_multiple_of(ALIGNMENT);
        at = start.saturating_add(array.data_len());
        if at > MAX_BUFFER_LEN {
            let message = format!(
                "the model doesn't fit a classic file, which is limited to 2 GiB: its arrays reach {at} bytes; keep it as a \
                 zip archive, or convert it to safetensors"
            );
            return Err(not_convertible(message));
        }
        let len = u32::try_from(array.data_len()).unwrap_or(u32::MAX);
        payloads.push(Payload { array, len, start });
    }
    for field in deferred {
        let target = payloads[field.payload].start - 4;
        // All offsets are below 2 GiB.
        let offset = u32::try_from(target - field.field as u64).unwrap_or(u32::MAX);
        bytes[field.field..field.field + 4].copy_from_slice(&offset.to_le_bytes());
    }
    Ok((bytes, payloads))
}

#[derive(Default)]
struct Export {
    arrays: Vec<Array>,
    /// Map from an array's file to the index of the array in `arrays`. Several tables may refer to
    /// the same file.
    known: HashMap<ArrayFile, usize>,
}

impl Export {
    fn graph(&mut self, tag: &TagView<'_>) -> Result<Object> {
        let graph = tag.read_graph(Unknown::Refused)?;
        let parameters = tag.parameters()?;
        let states = tag.updater_states()?;
        let ids = Ids::of(&graph);
        let mut table = graph.classic.clone();
        let mut variables = Vec::new();
        for variable in &graph.variables {
            let files = parameters.get(&variable.name).unwrap_or_default();
            let array = match files.first() {
                Some(file) => Some(self.array(&parameters, file)?),
                None => None,
            };
            variables.push(write_variable(
                variable,
                ids.variables[&*variable.name],
                array,
            ));
        }
        table.set(slots::VARIABLES, Value::Tables(variables));
        let nodes = graph.operations.iter().zip(&ids.nodes);
        let nodes = nodes.map(|(operation, &id)| write_node(operation, id, &ids));
        table.set(slots::NODES, Value::Tables(nodes.collect()));
        // A graph that came from a classic file without a list of placeholders must not get a list.
        if graph.classic.is_empty() {
            let placeholders = graph.variables.iter();
            let placeholders =
                placeholders.filter(|variable| variable.kind == VarType::Placeholder);
            let names: Vec<String> = placeholders.map(|variable| variable.name.clone()).collect();
            table.set_strings(slots::PLACEHOLDERS, &names);
        }
        table.set_strings(slots::LOSS_VARIABLES, &graph.loss_variables);
        if let Some(config) = tag.training_config()? {
            let json = classic::config_to_json(&config);
            let json = json.map_err(|error| tag.in_entry(error, layout::TRAINING_CONFIG))?;
            table.set(slots::TRAINING_CONFIG, Value::String(json));
        }
        let states = self.states(&mut table, &states)?;
        table.set_list(slots::UPDATER_STATE, Value::Tables(states));
        Ok(table)
    }

    /// Returns the table of an array. The array's data is written later, after all tables.
    fn array(&mut self, arrays: &Arrays<'_>, file: &ArrayFile) -> Result<Object> {
        let number = match self.known.get(file) {
            Some(&number) => number,
            None => {
                self.arrays.push(arrays.open(file)?.without_head());
                self.known.insert(*file, self.arrays.len() - 1);
                self.arrays.len() - 1
            }
        };
        let array = &self.arrays[number];
        // Fails early, with a helpful error, if the array alone is already too large.
        array::header(&array.written_info(), array.data_len())?;
        let info: ArrayInfo = array.written_info();
        let mut table = Object::default();
        table.set(flat_array::SHAPE, Value::I64s(info.to_shape_info()));
        if array.data_len() > 0 {
            table.set(flat_array::BUFFER, Value::Deferred(number));
        }
        table.set(flat_array::DTYPE, Value::I8(info.dtype().code()));
        table.set(flat_array::BYTE_ORDER, Value::I8(info.byte_order().code()));
        Ok(table)
    }

    /// Returns the tables of the updater's states. The states from the original classic file come
    /// first, in their original order and with their original names.
    fn states(&mut self, table: &mut Object, states: &Arrays<'_>) -> Result<Vec<Object>> {
        let mut all = Vec::new();
        let mut done = HashSet::new();
        for mut state in table.take_tables(slots::UPDATER_STATE) {
            let Some(Value::String(name)) = state.get(updater_state::PARAM_NAME).cloned() else {
                continue;
            };
            let keys = state.get(updater_state::UPDATER_STATE_KEYS);
            let named = matches!(keys, Some(Value::Strings(keys)) if !keys.is_empty());
            match states.get(&name) {
                Some(files) => self.set_states(&mut state, states, files)?,
                // The tag no longer has values for these states.
                None if named => continue,
                None => {}
            }
            done.insert(name);
            all.push(state);
        }
        for (name, files) in states.iter().filter(|(name, _)| !done.contains(*name)) {
            let mut state = Object::default();
            state.set(updater_state::PARAM_NAME, Value::String(name.to_owned()));
            self.set_states(&mut state, states, files)?;
            all.push(state);
        }
        Ok(all)
    }

    /// Sets the states in an updater's table. States without names are numbered.
    fn set_states(
        &mut self,
        state: &mut Object,
        states: &Arrays<'_>,
        files: &[ArrayFile],
    ) -> Result<()> {
        let keys = state.take_strings(updater_state::UPDATER_STATE_KEYS);
        let keys = if keys.len() == files.len() {
            keys
        } else {
            (0..files.len()).map(|index| index.to_string()).collect()
        };
        state.set_strings(updater_state::UPDATER_STATE_KEYS, &keys);
        let values = files.iter().map(|file| self.array(states, file));
        let values = Value::Tables(values.collect::<Result<_>>()?);
        state.set(updater_state::UPDATER_STATE_VALUES, values);
        Ok(())
    }
}

/// The numbers that represent variables and operations in classic files.
struct Ids<'g> {
    variables: HashMap<&'g str, (i32, i32)>,
    nodes: Vec<i32>,
}

impl<'g> Ids<'g> {
    /// Assigns numbers to variables and operations. Keeps the numbers from an original classic
    /// file. Otherwise, the outputs of an operation share the operation's number, and every other
    /// variable gets a new number.
    fn of(graph: &'g Graph) -> Ids<'g> {
        let mut variables: HashMap<&str, (i32, i32)> = HashMap::new();
        for variable in &graph.variables {
            if let Some(Value::Table(id)) = variable.classic.get(flat_variable::ID) {
                variables.insert(&variable.name, classic::read_id(id));
            }
        }
        let known = variables.values().map(|id| id.0);
        let nodes = graph
            .operations
            .iter()
            .map(|op| op.classic.get_i32(flat_node::ID));
        let mut next = known.chain(nodes).max().unwrap_or(0);
        let mut fresh = || {
            next = next.saturating_add(1);
            next
        };
        let mut nodes = Vec::new();
        for operation in &graph.operations {
            let id = match operation.classic.get(flat_node::ID) {
                Some(&Value::I32(id)) => id,
                _ if !operation.classic.is_empty() => 0,
                _ => fresh(),
            };
            nodes.push(id);
            for (output, index) in operation.outputs.iter().zip(0..) {
                variables.entry(output).or_insert((id, index));
            }
        }
        for variable in &graph.variables {
            if !variables.contains_key(&*variable.name) {
                let id = if variable.classic.is_empty() {
                    fresh()
                } else {
                    0
                };
                variables.insert(&variable.name, (id, 0));
            }
        }
        Ids { variables, nodes }
    }
}

fn write_id((first, second): (i32, i32)) -> Object {
    let mut table = Object::default();
    table.set(int_pair::FIRST, Value::I32(first));
    table.set(int_pair::SECOND, Value::I32(second));
    table
}

fn write_variable(variable: &SameDiffVariable, id: (i32, i32), array: Option<Object>) -> Object {
    let mut table = variable.classic.clone();
    table.set(flat_variable::ID, Value::Table(write_id(id)));
    table.set(flat_variable::NAME, Value::String(variable.name.clone()));
    let dtype = variable.dtype.map_or(0, Nd4jType::code);
    table.set(flat_variable::DTYPE, Value::I8(dtype));
    table.set(
        flat_variable::VARIABLE_TYPE,
        Value::I8(variable.kind.code()),
    );
    let is_left_out = !variable.classic.is_empty() && table.get(flat_variable::SHAPE).is_none();
    table.take(flat_variable::SHAPE);
    if let Some(shape) = &variable.shape
        && !(is_left_out && array.as_ref().is_some_and(|array| has_shape(array, shape)))
    {
        table.set(flat_variable::SHAPE, Value::I64s(shape.clone()));
    }
    if let Some(array) = array {
        table.set(flat_variable::NDARRAY, Value::Table(array));
    }
    table
}

/// Returns true if the shape information in an array's table specifies this shape.
fn has_shape(array: &Object, shape: &[i64]) -> bool {
    let Some(Value::I64s(info)) = array.get(flat_array::SHAPE) else {
        return false;
    };
    let rank = info.first().and_then(|&rank| usize::try_from(rank).ok());
    rank == Some(shape.len()) && info.get(1..=shape.len()) == Some(shape)
}

fn write_node(operation: &Operation, id: i32, ids: &Ids<'_>) -> Object {
    let mut table = operation.classic.clone();
    table.set(flat_node::ID, Value::I32(id));
    table.set(flat_node::NAME, Value::String(operation.name.clone()));
    table.set_string(flat_node::OP_NAME, &operation.op_name);
    table.set(flat_node::OP_TYPE, Value::I8(operation.op_type));
    table.set(flat_node::OP_NUM, Value::I64(operation.op_num));
    table.set_strings(flat_node::OUTPUT_NAMES, &operation.outputs);
    let inputs = operation
        .inputs
        .iter()
        .map(|name| write_id(ids.variables[&**name]));
    let inputs = inputs.collect();
    table.set_list(flat_node::INPUT_PAIRED, Value::Tables(inputs));
    let i_args = values(&operation.i_args, |value| value);
    table.set_list(flat_node::EXTRA_INTEGER, Value::I64s(i_args));
    let t_args = values(&operation.t_args, |value| value);
    table.set_list(flat_node::EXTRA_PARAMS, Value::F64s(t_args));
    let b_args = values(&operation.b_args, i8::from);
    table.set_list(flat_node::EXTRA_BOOLS, Value::I8s(b_args));
    let d_args = values(&operation.d_args, Nd4jType::code);
    table.set_list(flat_node::EXTRA_TYPES, Value::I8s(d_args));
    table
}
