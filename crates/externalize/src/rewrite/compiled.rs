//! Functions that XLA compiles as a whole get their constants as arguments.

use proto_splitter_core::Result;
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::op_def::ArgDef;
use proto_splitter_graph_def::proto::{FunctionDef, NodeDef};

use super::build::{Scope, boxed, handle, read, shape_proto};
use super::constants::identity;
use super::names::Names;
use super::{Rewriter, invalid};
use crate::content::Content;
use crate::select::{CALLS, function_name, is_compiled, named_functions};

impl Rewriter<'_> {
    /// Moves the constants of such functions to their callers.
    pub(super) fn pass_to_compiled_functions(&mut self) -> Result<()> {
        for function in 0..self.functions().len() {
            if !is_compiled(&self.functions()[function]) {
                continue;
            }
            let places: Vec<(usize, usize)> = self
                .of
                .range((Some(function), 0)..=(Some(function), usize::MAX))
                .map(|((_, node), content)| (*node, *content))
                .collect();
            if places.is_empty() {
                continue;
            }
            let contents = self.contents;
            let passed = take_arguments(&mut self.functions()[function], &places, contents)?;
            let name = function_name(&self.functions()[function]).to_owned();
            self.pass_to(&name, &passed)?;
            self.in_functions.extend(&passed);
            self.arguments.insert(function, passed);
        }
        Ok(())
    }

    /// Has all who call the function `name` pass these contents on.
    fn pass_to(&mut self, name: &str, passed: &[usize]) -> Result<()> {
        let contents = self.contents;
        for caller in 0..self.functions().len() {
            let nodes = &mut self.functions()[caller].node_def;
            let mut names = Names::of(nodes);
            if pass(nodes, Scope::Function, &mut names, name, passed, contents)? {
                self.stateful.insert(caller);
            }
        }
        let graph = self.meta_graph.graph_def.get_or_insert_default();
        pass(
            &mut graph.node,
            Scope::Main,
            &mut self.names,
            name,
            passed,
            contents,
        )?;
        Ok(())
    }
}

/// Has a function take contents as arguments behind those it has, one a content.
fn take_arguments(
    function: &mut FunctionDef,
    places: &[(usize, usize)],
    contents: &[Content],
) -> Result<Vec<usize>> {
    let mut passed: Vec<usize> = Vec::new();
    for (node, content) in places {
        let argument = format!("proto_splitter_{}", contents[*content].key);
        if !passed.contains(content) {
            passed.push(*content);
            let signature = function.signature.get_or_insert_default();
            if signature.input_arg.iter().any(|arg| arg.name == argument) {
                return Err(invalid(format!(
                    "an argument is called {argument:?} already"
                )));
            }
            signature.input_arg.push(ArgDef {
                name: argument.clone(),
                r#type: contents[*content].dtype.into(),
                ..ArgDef::default()
            });
            if let Some(Value::List(shapes)) = function
                .attr
                .get_mut("_input_shapes")
                .and_then(|attr| attr.value.as_mut())
            {
                shapes.shape.push(shape_proto(&contents[*content].shape));
            }
        }
        let Some(node) = function.node_def.get_mut(*node) else {
            continue;
        };
        let constant = std::mem::take(node);
        let mut inputs = vec![argument];
        inputs.extend(constant.input.iter().cloned());
        *node = identity(constant, inputs, &contents[*content]);
    }
    Ok(passed)
}

/// Adds the contents to the inputs of every node that calls `name`; gives whether there is one.
fn pass(
    nodes: &mut Vec<NodeDef>,
    scope: Scope,
    names: &mut Names,
    name: &str,
    passed: &[usize],
    contents: &[Content],
) -> Result<bool> {
    let mut added = Vec::new();
    for node in nodes.iter_mut() {
        if !CALLS.contains(&node.op.as_str()) || !named_functions(node).any(|of| of == name) {
            continue;
        }
        for content in passed {
            let content = &contents[*content];
            let base = format!("{}/proto_splitter_{}", node.name, content.key);
            let handle_name = format!("{base}_handle");
            let read_name = format!("{base}_read");
            let new = [
                handle(&handle_name, content).device(&node.device).build(),
                read(&read_name, scope.output(&handle_name, "resource"), content)
                    .device(&node.device)
                    .build(),
            ];
            names.take(&new)?;
            added.extend(new);
            // Control inputs are the last.
            let at = node
                .input
                .iter()
                .take_while(|input| !input.starts_with('^'))
                .count();
            node.input.insert(at, scope.output(&read_name, "value"));
            let types = node
                .attr
                .entry("Tin".to_owned())
                .or_insert_with(|| boxed(Value::List(Box::default())));
            match &mut types.value {
                Some(Value::List(list)) => list.r#type.push(content.dtype.into()),
                _ => return Err(invalid(format!("the call {:?} has no list Tin", node.name))),
            }
        }
    }
    let is_called = !added.is_empty();
    nodes.extend(added);
    Ok(is_called)
}
