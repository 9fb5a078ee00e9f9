//! The invariants that every graph must satisfy.

use std::collections::HashSet;

use super::{Arguments, Graph, Operation};
use crate::{Error, ErrorKind, Result};

/// Fails unless all names in a graph are unique, and all references are to existing variables.
pub(crate) fn check(graph: &Graph) -> Result<()> {
    let mut variables = HashSet::new();
    for variable in &graph.variables {
        if !variables.insert(&*variable.name) {
            return Err(duplicate("variables", &variable.name));
        }
    }
    let mut operations = HashSet::new();
    for operation in &graph.operations {
        if !operations.insert(&*operation.name) {
            return Err(duplicate("operations", &operation.name));
        }
        check_operation(operation, &variables)
            .map_err(|error| error.about("operation", &operation.name))?;
    }
    for name in &graph.loss_variables {
        if !variables.contains(&**name) {
            return Err(unknown("loss variable", name));
        }
    }
    Ok(())
}

fn check_operation(operation: &Operation, variables: &HashSet<&str>) -> Result<()> {
    for (what, names) in [("input", &operation.inputs), ("output", &operation.outputs)] {
        if let Some(name) = names.iter().find(|name| !variables.contains(&***name)) {
            return Err(unknown(what, name));
        }
    }
    check_names(&operation.i_args, "iArgs")?;
    check_names(&operation.t_args, "tArgs")?;
    check_names(&operation.b_args, "bArgs")?;
    check_names(&operation.d_args, "dArgs")
}

fn check_names<T>(arguments: &Arguments<T>, what: &str) -> Result<()> {
    let mut seen = HashSet::new();
    match arguments.iter().find(|(name, _)| !seen.insert(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("two of the {what} have the name {name:?}");
            Err(Error::new(ErrorKind::ArgumentMismatch, message))
        }
    }
}

#[cold]
fn duplicate(what: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateName,
        format!("two {what} have the name {name:?}"),
    )
}

#[cold]
fn unknown(what: &str, name: &str) -> Error {
    let message = format!("the {what} {name:?} is not a variable of the graph");
    Error::new(ErrorKind::UnknownVariable, message)
}
