//! Reading classic files, each of which is one FlatGraph that contains the arrays of a model.

use std::collections::HashMap;
use std::sync::Arc;

use record_file::ReadAt;

use super::not_convertible;
use crate::array::from_table;
use crate::budget::Budget;
use crate::fb::schema::flat_graph::{
    self, flat_array, flat_graph as slots, flat_node, flat_variable, int_pair, updater_state,
};
use crate::fb::schema::samediff::{self, training_config};
use crate::fb::{self, Object, Unknown, Value};
use crate::graph::optional_dtype;
use crate::limits::SameDiffLimits;
use crate::{
    Arguments, Array, Error, ErrorKind, Graph, Nd4jType, Operation, Result, SameDiffVariable,
    TagContent, VarType,
};

/// The fields that an array's table only has if the array's data is outside of the table. Each
/// field comes with a description of the data's location.
const ELSEWHERE: [(usize, &str); 4] = [
    (flat_array::BUFFER_CHUNKS, "in chunks"),
    (flat_array::EXTERNAL_FILE, "in another file"),
    (flat_array::IS_EXTERNAL, "in another file"),
    (
        flat_array::APPENDED_DATA_LENGTH,
        "after the graph, as in sdnb",
    ),
];

/// Reads a classic file.
pub(super) fn read(source: Arc<dyn ReadAt>, limits: &SameDiffLimits) -> Result<TagContent> {
    let mut budget = Budget::of_tables(limits.get_max_graph_size());
    let kind = ErrorKind::InvalidGraph;
    let table = fb::read(
        &source,
        &flat_graph::FLAT_GRAPH,
        kind,
        Unknown::Refused,
        &mut budget,
    )?;
    // Rejects a table without fields, since almost any bytes could be parsed as one.
    if table.is_empty() {
        let message = "not a model: neither a graph, nor a zip archive, SDNB or safetensors";
        return Err(Error::new(ErrorKind::InvalidGraph, message));
    }
    convert(table, &source, &mut budget, |table| {
        for (slot, place) in ELSEWHERE {
            if table.get(slot).is_some() {
                let message = format!("the array is {place}, which is not supported");
                return Err(Error::new(ErrorKind::UnsupportedArray, message));
            }
        }
        let (info, span) = from_table(table)?;
        Array::from_source(info, Arc::clone(&source), span.offset, span.len)
    })
}

/// Converts a FlatGraph to the content of a tag. `source` is the buffer that contains the graph,
/// and `open` opens an array, given its table.
///
/// Content for which a tag has no field is kept unchanged in the `classic` field of the tag's
/// graph.
pub(super) fn convert(
    mut table: Object,
    source: &dyn ReadAt,
    budget: &mut Budget,
    mut open: impl FnMut(Object) -> Result<Array>,
) -> Result<TagContent> {
    let mut graph = Graph::default();
    let mut names = HashMap::new();
    let mut arrays = Vec::new();
    for variable in table.take_tables(slots::VARIABLES) {
        let (mut variable, id, array) = read_variable(variable)?;
        let about = |error: Error| error.about("variable", &variable.name);
        names.insert(id, variable.name.clone());
        match array {
            Some(array) if variable.kind.has_values() => {
                let array = open(array).map_err(about)?;
                if variable.shape.is_none() {
                    variable.shape = dims(&array);
                }
                arrays.push((variable.name.clone(), array));
            }
            Some(array) => variable
                .classic
                .set(flat_variable::NDARRAY, Value::Table(array)),
            None => {}
        }
        variable.classic.inline(source, budget)?;
        graph.variables.push(variable);
    }
    for node in table.take_tables(slots::NODES) {
        let mut operation = read_node(node, &names)?;
        operation.classic.inline(source, budget)?;
        graph.operations.push(operation);
    }
    graph.loss_variables = table.take_strings(slots::LOSS_VARIABLES);
    let config = table.take_string(slots::TRAINING_CONFIG);
    let mut states = Vec::new();
    if let Some(Value::Tables(tables)) = table.get_mut(slots::UPDATER_STATE) {
        for table in tables {
            // The names of the states stay in the `classic` field, since a tag can't represent
            // them.
            let arrays = table.take_tables(updater_state::UPDATER_STATE_VALUES);
            let Some(Value::String(name)) = table.get(updater_state::PARAM_NAME) else {
                let message = "an updater's states have no name";
                return Err(Error::new(ErrorKind::InvalidGraph, message));
            };
            let name = name.clone();
            let about = |error: Error| error.about("updater states of", &name);
            check_keys(table, arrays.len()).map_err(about)?;
            let arrays = arrays
                .into_iter()
                .map(&mut open)
                .collect::<Result<Vec<_>>>();
            let arrays = arrays.map_err(about)?;
            states.push((name, arrays));
        }
    }
    graph.classic = table;
    let mut content = TagContent::new(graph);
    for (name, array) in arrays {
        content = content.parameter(name, array);
    }
    for (name, arrays) in states {
        // An updater without states has no line in `updater.txt`.
        if !arrays.is_empty() {
            content = content.updater_states(name, arrays);
        }
    }
    match config {
        Some(json) => Ok(content.training_config(config_from_json(&json)?)),
        None => Ok(content),
    }
}

/// Fails unless the number of names of a variable's updater states is 0 or `values`, the number of
/// the states.
fn check_keys(table: &Object, values: usize) -> Result<()> {
    let keys = match table.get(updater_state::UPDATER_STATE_KEYS) {
        Some(Value::Strings(keys)) => keys.len(),
        _ => 0,
    };
    if keys == 0 || keys == values {
        return Ok(());
    }
    let message = format!("{keys} names and {values} values");
    Err(Error::new(ErrorKind::InvalidGraph, message))
}

/// Returns an array's shape with signed dimensions, as in a graph; `None` if a dimension is too
/// large for an `i64`.
fn dims(array: &Array) -> Option<Vec<i64>> {
    let dims = array.info().shape().iter();
    dims.map(|&dim| i64::try_from(dim).ok()).collect()
}

type Id = (i32, i32);

pub(super) fn read_id(table: &Object) -> Id {
    (
        table.get_i32(int_pair::FIRST),
        table.get_i32(int_pair::SECOND),
    )
}

/// Reads a variable from its table. Also returns the variable's id, and the table of its array, if
/// any.
fn read_variable(mut table: Object) -> Result<(SameDiffVariable, Id, Option<Object>)> {
    let Some(name) = table.take_string(flat_variable::NAME) else {
        let message = "a variable has no name";
        return Err(Error::new(ErrorKind::InvalidGraph, message));
    };
    let id = match table.get(flat_variable::ID) {
        Some(Value::Table(id)) => read_id(id),
        _ => (0, 0),
    };
    let array = table.take_table(flat_variable::NDARRAY);
    let dtype = table.take_i8(flat_variable::DTYPE);
    let kind = table.take_i8(flat_variable::VARIABLE_TYPE);
    let shape = table.take_i64s(flat_variable::SHAPE);
    if let Some(shape) = &shape {
        // Most files omit the shape. If a file has a shape, it is kept, so that it survives a round
        // trip.
        table.set(flat_variable::SHAPE, Value::I64s(shape.clone()));
    }
    let about = |error: Error| error.about("variable", &name);
    let variable = SameDiffVariable {
        dtype: optional_dtype(dtype).map_err(about)?,
        kind: VarType::from_code(kind).map_err(about)?,
        shape,
        classic: table,
        name,
    };
    Ok((variable, id, array))
}

fn read_node(mut table: Object, names: &HashMap<Id, String>) -> Result<Operation> {
    let name = table.take_string(flat_node::NAME).unwrap_or_default();
    let read = || -> Result<Operation> {
        let dtypes = table.take_i8s(flat_node::EXTRA_TYPES);
        let dtypes = dtypes
            .into_iter()
            .map(Nd4jType::from_code)
            .collect::<Result<_>>()?;
        let bools = table.take_i8s(flat_node::EXTRA_BOOLS);
        let ids: Vec<Id> = match table.take(flat_node::INPUT_PAIRED) {
            Some(Value::Tables(ids)) => ids.iter().map(read_id).collect(),
            // In older files, the inputs of a node are always the first outputs of other nodes.
            _ => match table.get(flat_node::INPUT) {
                Some(Value::I32s(ids)) => ids.iter().map(|&id| (id, 0)).collect(),
                _ => Vec::new(),
            },
        };
        Ok(Operation {
            name: name.clone(),
            op_name: table.take_string(flat_node::OP_NAME).unwrap_or_default(),
            op_type: table.take_i8(flat_node::OP_TYPE),
            op_num: table.take_i64(flat_node::OP_NUM),
            inputs: ids
                .into_iter()
                .map(|id| named(names, id))
                .collect::<Result<_>>()?,
            outputs: table.take_strings(flat_node::OUTPUT_NAMES),
            i_args: numbered(
                "i",
                table
                    .take_i64s(flat_node::EXTRA_INTEGER)
                    .unwrap_or_default(),
            ),
            t_args: numbered("t", table.take_f64s(flat_node::EXTRA_PARAMS)),
            b_args: numbered("b", bools.into_iter().map(|byte| byte != 0).collect()),
            d_args: numbered("d", dtypes),
            classic: std::mem::take(&mut table),
        })
    };
    let mut read = read;
    read().map_err(|error| error.about("operation", &name))
}

fn named(names: &HashMap<Id, String>, id: Id) -> Result<String> {
    let name = names.get(&id).cloned();
    name.ok_or_else(|| {
        let message = format!("the input {}:{} is not a variable", id.0, id.1);
        Error::new(ErrorKind::UnknownVariable, message)
    })
}

/// Names arguments by their indices, since classic files don't name them.
fn numbered<T>(prefix: &str, values: Vec<T>) -> Arguments<T> {
    let values = values.into_iter().enumerate();
    values
        .map(|(index, value)| (format!("{prefix}{index}"), value))
        .collect()
}

/// Returns the bytes of a `trainingConfig.fb` that contains this JSON.
pub(super) fn config_from_json(json: &str) -> Result<Vec<u8>> {
    let mut table = Object::default();
    table.set(training_config::JSON, Value::String(json.to_owned()));
    Ok(fb::write(&table)?.0)
}

/// Returns the JSON text that a `trainingConfig.fb` contains.
pub(crate) fn config_to_json(bytes: &[u8]) -> Result<String> {
    let mut budget = Budget::of_tables(bytes.len() as u64 + 1024);
    let kind = ErrorKind::NotConvertible;
    let table = fb::read(
        &bytes,
        &samediff::TRAINING_CONFIG,
        kind,
        Unknown::Refused,
        &mut budget,
    );
    let json = table?.take_string(training_config::JSON);
    json.ok_or_else(|| not_convertible("it contains no text"))
}
