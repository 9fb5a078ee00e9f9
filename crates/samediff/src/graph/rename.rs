//! Renaming a variable in a graph.

use super::Graph;
use crate::fb::schema::flat_graph::{flat_graph as slots, flat_node, flat_variable, updater_state};
use crate::fb::{Object, Value};
use crate::{Error, ErrorKind, Result};

/// Renames a variable of a graph, and all references to the variable, including those in fields
/// that were kept from a classic file.
pub(crate) fn rename_variable(graph: &mut Graph, from: &str, to: &str) -> Result<()> {
    let Some(place) = graph.variables.iter().position(|known| known.name == from) else {
        let message = format!("the graph has no variable {from:?}");
        return Err(Error::new(ErrorKind::UnknownVariable, message));
    };
    if from != to && graph.variable(to).is_some() {
        let message = format!("the graph has a variable {to:?} already");
        return Err(Error::new(ErrorKind::DuplicateName, message));
    }
    graph.variables[place].name = to.to_owned();
    let rename = |names: &mut [String]| {
        let same = names.iter_mut().filter(|name| *name == from);
        same.for_each(|name| *name = to.to_owned());
    };
    for operation in &mut graph.operations {
        rename(&mut operation.inputs);
        rename(&mut operation.outputs);
        in_field(&mut operation.classic, flat_node::VAR_CONTROL_DEPS, rename);
    }
    rename(&mut graph.loss_variables);
    for variable in &mut graph.variables {
        // The third list of control dependencies isn't renamed, since it contains names of
        // operations.
        in_field(&mut variable.classic, flat_variable::CONTROL_DEPS, rename);
        in_field(
            &mut variable.classic,
            flat_variable::CONTROL_DEPS_FOR_VAR,
            rename,
        );
    }
    in_field(&mut graph.classic, slots::PLACEHOLDERS, rename);
    if let Some(Value::Tables(states)) = graph.classic.get_mut(slots::UPDATER_STATE) {
        for state in states {
            if let Some(Value::String(name)) = state.get_mut(updater_state::PARAM_NAME) {
                rename(std::slice::from_mut(name));
            }
        }
    }
    Ok(())
}

fn in_field(table: &mut Object, slot: usize, rename: impl Fn(&mut [String])) {
    if let Some(Value::Strings(names)) = table.get_mut(slot) {
        rename(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nd4jType, Operation, SameDiffVariable, VarType};

    fn strings(table: &Object, slot: usize) -> Vec<String> {
        table.clone().take_strings(slot)
    }

    #[test]
    fn a_name_changes_wherever_the_graph_has_it() {
        let names = || Value::Strings(vec!["b".to_owned(), "a".to_owned()]);
        let mut graph = Graph::default();
        for name in ["a", "b"] {
            let mut variable = SameDiffVariable::new(name, VarType::Variable, Nd4jType::Float, []);
            variable.classic.set(flat_variable::CONTROL_DEPS, names());
            variable
                .classic
                .set(flat_variable::CONTROL_DEPS_FOR_VAR, names());
            variable
                .classic
                .set(flat_variable::CONTROL_DEP_FOR_OP, names());
            graph.variables.push(variable);
        }
        let mut operation = Operation::new("a", "neg");
        operation.inputs = vec!["a".to_owned()];
        operation.outputs = vec!["b".to_owned(), "a".to_owned()];
        operation.classic.set(flat_node::VAR_CONTROL_DEPS, names());
        operation.classic.set(flat_node::CONTROL_DEPS, names());
        graph.operations.push(operation);
        graph.loss_variables = vec!["a".to_owned()];
        graph.classic.set(slots::PLACEHOLDERS, names());
        let mut state = Object::default();
        state.set(updater_state::PARAM_NAME, Value::String("a".to_owned()));
        graph
            .classic
            .set(slots::UPDATER_STATE, Value::Tables(vec![state]));

        rename_variable(&mut graph, "a", "new").unwrap();

        assert_eq!(graph.variables[0].name, "new");
        for variable in &graph.variables {
            let lists = [
                (flat_variable::CONTROL_DEPS, "new"),
                (flat_variable::CONTROL_DEPS_FOR_VAR, "new"),
                (flat_variable::CONTROL_DEP_FOR_OP, "a"),
            ];
            for (slot, name) in lists {
                assert_eq!(strings(&variable.classic, slot), ["b", name], "{slot}");
            }
        }
        let operation = &graph.operations[0];
        assert_eq!(operation.name, "a");
        assert_eq!(operation.inputs, ["new"]);
        assert_eq!(operation.outputs, ["b", "new"]);
        let classic = &operation.classic;
        assert_eq!(strings(classic, flat_node::VAR_CONTROL_DEPS), ["b", "new"]);
        assert_eq!(strings(classic, flat_node::CONTROL_DEPS), ["b", "a"]);
        assert_eq!(graph.loss_variables, ["new"]);
        assert_eq!(strings(&graph.classic, slots::PLACEHOLDERS), ["b", "new"]);
        let states = graph.classic.clone().take_tables(slots::UPDATER_STATE);
        let name = states[0].get(updater_state::PARAM_NAME);
        assert_eq!(name, Some(&Value::String("new".to_owned())));
    }

    #[test]
    fn a_name_that_is_unknown_or_taken_is_refused() {
        let mut graph = Graph::default();
        for name in ["a", "b"] {
            let variable = SameDiffVariable::new(name, VarType::Variable, Nd4jType::Float, []);
            graph.variables.push(variable);
        }
        let before = graph.clone();
        for (from, to, kind) in [
            ("c", "d", ErrorKind::UnknownVariable),
            ("a", "b", ErrorKind::DuplicateName),
        ] {
            let error = rename_variable(&mut graph, from, to).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert_eq!(graph, before);
        }
        rename_variable(&mut graph, "a", "a").unwrap();
        assert_eq!(graph, before);
    }
}
