//! Encoding and decoding `graph.fb`.

use record_file::ReadAt;

use super::{Arguments, Graph, Operation, SameDiffVariable};
use crate::budget::Budget;
use crate::fb::schema::samediff::{self, graph, operation, variable};
use crate::fb::{self, Object, Unknown, Value};
use crate::limits::SameDiffLimits;
use crate::{Error, ErrorKind, Nd4jType, Result, VarType};

/// Value of `Graph.format_version` in graphs that this crate writes.
const FORMAT_VERSION: i32 = 1;

/// Decodes a graph from the bytes of `graph.fb`.
pub(crate) fn from_bytes(
    bytes: &dyn ReadAt,
    limits: &SameDiffLimits,
    unknown: Unknown,
) -> Result<Graph> {
    let mut budget = Budget::of_tables(limits.get_max_graph_size());
    let mut table = fb::read(
        bytes,
        &samediff::GRAPH,
        ErrorKind::InvalidGraph,
        unknown,
        &mut budget,
    )?;
    table.inline(bytes, &mut budget)?;
    check_version(table.get_i32(graph::FORMAT_VERSION))?;
    let variables = table.take_tables(graph::VARIABLES);
    let operations = table.take_tables(graph::OPERATIONS);
    Ok(Graph {
        variables: variables
            .into_iter()
            .map(read_variable)
            .collect::<Result<_>>()?,
        operations: operations
            .into_iter()
            .map(read_operation)
            .collect::<Result<_>>()?,
        loss_variables: table.take_strings(graph::LOSS_VARIABLES),
        classic: table.take_table(graph::CLASSIC).unwrap_or_default(),
    })
}

fn check_version(version: i32) -> Result<()> {
    // Other writers may omit the version, which then reads as 0.
    if (0..=FORMAT_VERSION).contains(&version) {
        return Ok(());
    }
    let message =
        format!("the graph is of version {version}, but {FORMAT_VERSION} is the newest known");
    Err(Error::new(ErrorKind::InvalidGraph, message))
}

fn read_variable(mut table: Object) -> Result<SameDiffVariable> {
    let name = required(&mut table, variable::NAME, "a variable")?;
    let dtype = table.take_i8(variable::DTYPE);
    let kind = table.take_i8(variable::VAR_TYPE);
    let mut read = || -> Result<SameDiffVariable> {
        Ok(SameDiffVariable {
            dtype: optional_dtype(dtype)?,
            kind: VarType::from_code(kind)?,
            shape: table.take_i64s(variable::SHAPE),
            classic: table.take_table(variable::CLASSIC).unwrap_or_default(),
            name: name.clone(),
        })
    };
    read().map_err(|error| error.about("variable", &name))
}

/// Returns the element type for a code in a graph; `None` for 0, which means that the type is
/// unknown.
pub(crate) fn optional_dtype(code: i8) -> Result<Option<Nd4jType>> {
    match code {
        0 => Ok(None),
        code => Nd4jType::from_code(code).map(Some),
    }
}

fn read_operation(mut table: Object) -> Result<Operation> {
    let name = required(&mut table, operation::NAME, "an operation")?;
    let mut read = || -> Result<Operation> {
        let bools = table.take_i8s(operation::B_ARGS);
        let dtypes = table.take_i8s(operation::D_ARGS);
        let dtypes = dtypes
            .into_iter()
            .map(Nd4jType::from_code)
            .collect::<Result<Vec<_>>>()?;
        Ok(Operation {
            name: name.clone(),
            op_name: table.take_string(operation::OP_NAME).unwrap_or_default(),
            op_type: table.take_i8(operation::OP_TYPE),
            op_num: table.take_i64(operation::OP_NUM),
            inputs: table.take_strings(operation::INPUTS),
            outputs: table.take_strings(operation::OUTPUTS),
            i_args: {
                let values = table.take_i64s(operation::I_ARGS).unwrap_or_default();
                pair(table.take_strings(operation::I_ARG_NAMES), values, "iArgs")?
            },
            t_args: {
                let values = table.take_f64s(operation::T_ARGS);
                pair(table.take_strings(operation::T_ARG_NAMES), values, "tArgs")?
            },
            b_args: {
                let values = bools.into_iter().map(|byte| byte != 0).collect();
                pair(table.take_strings(operation::B_ARG_NAMES), values, "bArgs")?
            },
            d_args: pair(table.take_strings(operation::D_ARG_NAMES), dtypes, "dArgs")?,
            classic: table.take_table(operation::CLASSIC).unwrap_or_default(),
        })
    };
    read().map_err(|error| error.about("operation", &name))
}

fn required(table: &mut Object, slot: usize, what: &str) -> Result<String> {
    let name = table.take_string(slot);
    name.ok_or_else(|| Error::new(ErrorKind::InvalidGraph, format!("{what} has no name")))
}

/// Pairs the names of arguments with their values. Fails unless there are as many names as values.
fn pair<T>(names: Vec<String>, values: Vec<T>, what: &str) -> Result<Arguments<T>> {
    if names.len() != values.len() {
        let message = format!(
            "{what} have {} names and {} values",
            names.len(),
            values.len()
        );
        return Err(Error::new(ErrorKind::ArgumentMismatch, message));
    }
    Ok(names.into_iter().zip(values).collect())
}

/// Encodes a graph as the bytes of `graph.fb`.
pub(crate) fn to_bytes(graph: &Graph) -> Result<Vec<u8>> {
    let mut table = Object::default();
    let variables = graph.variables.iter().map(write_variable).collect();
    table.set(graph::VARIABLES, Value::Tables(variables));
    let operations = graph.operations.iter().map(write_operation).collect();
    table.set(graph::OPERATIONS, Value::Tables(operations));
    table.set_strings(graph::LOSS_VARIABLES, &graph.loss_variables);
    table.set(graph::FORMAT_VERSION, Value::I32(FORMAT_VERSION));
    set_classic(&mut table, graph::CLASSIC, &graph.classic);
    let (bytes, _) = fb::write(&table)?;
    Ok(bytes)
}

fn write_variable(variable: &SameDiffVariable) -> Object {
    let mut table = Object::default();
    table.set(variable::NAME, Value::String(variable.name.clone()));
    let dtype = variable.dtype.map_or(0, Nd4jType::code);
    table.set(variable::DTYPE, Value::I8(dtype));
    table.set(variable::VAR_TYPE, Value::I8(variable.kind.code()));
    if let Some(shape) = &variable.shape {
        table.set(variable::SHAPE, Value::I64s(shape.clone()));
    }
    set_classic(&mut table, variable::CLASSIC, &variable.classic);
    table
}

fn write_operation(op: &Operation) -> Object {
    let mut table = Object::default();
    table.set(operation::NAME, Value::String(op.name.clone()));
    table.set_string(operation::OP_NAME, &op.op_name);
    table.set(operation::OP_TYPE, Value::I8(op.op_type));
    table.set(operation::OP_NUM, Value::I64(op.op_num));
    table.set_strings(operation::INPUTS, &op.inputs);
    table.set_strings(operation::OUTPUTS, &op.outputs);
    table.set_strings(operation::I_ARG_NAMES, &names(&op.i_args));
    let i_args = values(&op.i_args, |value| value);
    table.set_list(operation::I_ARGS, Value::I64s(i_args));
    table.set_strings(operation::T_ARG_NAMES, &names(&op.t_args));
    let t_args = values(&op.t_args, |value| value);
    table.set_list(operation::T_ARGS, Value::F64s(t_args));
    table.set_strings(operation::B_ARG_NAMES, &names(&op.b_args));
    let b_args = values(&op.b_args, i8::from);
    table.set_list(operation::B_ARGS, Value::I8s(b_args));
    table.set_strings(operation::D_ARG_NAMES, &names(&op.d_args));
    let d_args = values(&op.d_args, Nd4jType::code);
    table.set_list(operation::D_ARGS, Value::I8s(d_args));
    set_classic(&mut table, operation::CLASSIC, &op.classic);
    table
}

fn names<T>(arguments: &Arguments<T>) -> Vec<String> {
    arguments.iter().map(|(name, _)| name.clone()).collect()
}

/// Returns the values of arguments in the form in which a table has them.
pub(crate) fn values<T: Copy, U>(arguments: &Arguments<T>, value: fn(T) -> U) -> Vec<U> {
    let arguments = arguments.iter();
    arguments.map(|&(_, argument)| value(argument)).collect()
}

fn set_classic(table: &mut Object, slot: usize, classic: &Object) {
    if !classic.is_empty() {
        table.set(slot, Value::Table(classic.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_arguments_pair_up() {
        for (slot, value, text) in [
            (
                operation::I_ARGS,
                Value::I64s(vec![1, 2]),
                "iArgs have 1 names and 2 values",
            ),
            (
                operation::T_ARGS,
                Value::F64s(vec![]),
                "tArgs have 1 names and 0 values",
            ),
            (
                operation::B_ARGS,
                Value::I8s(vec![1, 0]),
                "bArgs have 1 names and 2 values",
            ),
            (
                operation::D_ARGS,
                Value::I8s(vec![5, 5]),
                "dArgs have 1 names and 2 values",
            ),
        ] {
            let mut table = Object::default();
            table.set(operation::NAME, Value::String("op".to_owned()));
            // The slot for the names of arguments immediately precedes the slot for their values.
            table.set(slot - 1, Value::Strings(vec!["a".to_owned()]));
            table.set(slot, value);
            let mut root = Object::default();
            root.set(graph::OPERATIONS, Value::Tables(vec![table]));
            let (bytes, _) = fb::write(&root).unwrap();
            let error =
                from_bytes(&bytes, &SameDiffLimits::new(), Unknown::PassedOver).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentMismatch);
            assert_eq!(error.to_string(), format!("operation \"op\": {text}"));
        }
    }

    #[test]
    fn a_graph_whose_tables_share_what_they_hold_has_a_budget() {
        let long = "x".repeat(1 << 16);
        let mut root = Object::default();
        root.set(
            graph::LOSS_VARIABLES,
            Value::Strings(vec![long.clone(), long]),
        );
        let (bytes, _) = fb::write(&root).unwrap();
        let read = |limits: SameDiffLimits| from_bytes(&bytes, &limits, Unknown::PassedOver);
        assert!(read(SameDiffLimits::new()).is_ok());
        let error = read(SameDiffLimits::new().max_graph_size(1 << 16)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn fields_of_a_newer_graph_are_passed_over_but_never_lost() {
        let mut root = Object::default();
        let newer = samediff::GRAPH.fields.len();
        root.set(newer, Value::I32(7));
        let (bytes, _) = fb::write(&root).unwrap();
        let read = |unknown| from_bytes(&bytes, &SameDiffLimits::new(), unknown);
        assert_eq!(read(Unknown::PassedOver).unwrap(), Graph::default());
        let error = read(Unknown::Refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConvertible);
        let text =
            "the table Graph has a field in slot 5, which is not known here and would be lost";
        assert!(error.to_string().contains(text), "{error}");
    }
}
