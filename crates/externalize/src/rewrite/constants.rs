//! Replacing constants with nodes that read variables.

use proto_splitter_core::{Error, Result};
use proto_splitter_graph_def::proto::NodeDef;

use super::Rewriter;
use super::build::{Node, Scope, handle, read};
use super::names::Names;
use crate::call_graph::{CallGraph, function_name, named_functions};
use crate::content::Content;

impl Rewriter<'_> {
    /// Replaces constants in functions and in the main graph with nodes that read variables.
    /// Functions whose constants became arguments are unchanged.
    pub(super) fn replace_constants(&mut self) -> Result<()> {
        let of = std::mem::take(&mut self.of);
        let contents = self.contents;
        for function in 0..self.functions().len() {
            if self.arguments.contains_key(&function) {
                continue;
            }
            let nodes = &mut self.functions()[function].node_def;
            let mut names = Names::of(nodes);
            let old = std::mem::take(nodes);
            let find = |node| of.get(&(Some(function), node)).copied();
            let (new, moved) = replace(old, Scope::Function, &mut names, contents, find)?;
            self.functions()[function].node_def = new;
            if !moved.is_empty() {
                self.stateful.insert(function);
            }
            self.in_functions
                .extend(moved.into_iter().map(|(_, content)| content));
        }
        let old = std::mem::take(&mut self.graph().node);
        let find = |node| of.get(&(None, node)).copied();
        let (new, moved) = replace(old, Scope::Main, &mut self.names, contents, find)?;
        self.graph().node = new;
        self.in_main.extend(moved);
        Ok(())
    }

    /// Marks a function as stateful if it reads variables, or calls a stateful function.
    pub(super) fn mark_stateful(&mut self) -> Result<()> {
        let stateful = std::mem::take(&mut self.stateful);
        let graph = self.meta_graph.graph_def.get_or_insert_default();
        let calls = CallGraph::new(graph)?;
        let stateful = calls.reaching(stateful);
        let functions = graph.library.iter().flat_map(|library| &library.function);
        let names: std::collections::BTreeSet<String> = functions
            .enumerate()
            .filter(|(at, _)| stateful.contains(at))
            .map(|(_, function)| function_name(function).to_owned())
            .collect();
        drop(calls);
        let library = graph.library.get_or_insert_default();
        for at in &stateful {
            if let Some(signature) = &mut library.function[*at].signature {
                signature.is_stateful = true;
            }
        }
        let bodies = library
            .function
            .iter_mut()
            .flat_map(|function| &mut function.node_def);
        for node in bodies.chain(&mut graph.node) {
            if named_functions(node).any(|name| names.contains(name)) {
                let op = match node.op.as_str() {
                    "PartitionedCall" => "StatefulPartitionedCall",
                    "StatelessIf" => "If",
                    "StatelessWhile" => "While",
                    "StatelessCase" => "Case",
                    _ => continue,
                };
                op.clone_into(&mut node.op);
            }
        }
        Ok(())
    }
}

/// The new list of nodes, and the name of each replaced constant with the index of its content.
type Replaced = (Vec<NodeDef>, Vec<(String, usize)>);

fn replace(
    old: Vec<NodeDef>,
    scope: Scope,
    names: &mut Names,
    contents: &[Content],
    find: impl Fn(usize) -> Option<usize>,
) -> Result<Replaced> {
    let mut new = Vec::with_capacity(old.len());
    let mut moved = Vec::new();
    for (at, node) in old.into_iter().enumerate() {
        match find(at) {
            Some(content) => {
                moved.push((node.name.clone(), content));
                let nodes = variable(node, scope, &contents[content])?;
                names.take(&nodes[..2])?;
                new.extend(nodes);
            }
            None => new.push(node),
        }
    }
    Ok((new, moved))
}

/// Fails if a constant has an input other than control inputs.
pub(super) fn check_no_inputs(constant: &NodeDef) -> Result<()> {
    if constant.input.iter().all(|input| input.starts_with('^')) {
        return Ok(());
    }
    let message = format!("the constant {:?} has an input", constant.name);
    Err(Error::invalid(message))
}

/// Returns the three nodes that replace a constant.
///
/// The constant's control inputs move to the first node, so that all three nodes are in the same
/// frame of a TensorFlow 1 loop.
fn variable(constant: NodeDef, scope: Scope, content: &Content) -> Result<[NodeDef; 3]> {
    check_no_inputs(&constant)?;
    let device = constant.device.clone();
    let handle_name = format!("{}/proto_splitter_handle", constant.name);
    let read_name = format!("{}/proto_splitter_read", constant.name);
    let handle = handle(&handle_name, content)
        .device(&device)
        .inputs(constant.input.iter().cloned())
        .build();
    let read = read(&read_name, scope.output(&handle_name, "resource"), content)
        .device(&device)
        .build();
    let input = scope.output(&read_name, "value");
    let identity = replacement("Identity", constant, vec![input], content);
    Ok([handle, read, identity])
}

/// Returns a node with the operation `op` and the name of the constant that it replaces, so that
/// references to the constant stay valid. The node returns its input.
pub(super) fn replacement(
    op: &str,
    constant: NodeDef,
    inputs: Vec<String>,
    content: &Content,
) -> NodeDef {
    let mut node = Node::new(constant.name, op)
        .device(&constant.device)
        .inputs(inputs)
        .dtype("T", content.dtype)
        .build();
    let kept = constant
        .attr
        .into_iter()
        .filter(|(name, _)| name.starts_with('_'));
    node.attr.extend(kept);
    node.experimental_debug_info = constant.experimental_debug_info;
    node
}
