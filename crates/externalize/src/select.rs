//! Which constants can't leave their place.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::{FunctionDef, GraphDef, NodeDef};
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::{MetaGraphDef, SavedObjectGraph};

use crate::constant::{Constant, Place};

/// Why a constant stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It is in a function that is called from inside a function that XLA compiles as a whole.
    InsideCompiled,
    /// It is in a function that XLA compiles as a whole, and that isn't called by a
    /// `PartitionedCall`.
    CompiledWithoutCall,
    /// It is in a function that XLA compiles as a whole, which can't map files.
    CompiledAndMapped,
    /// It is in a function that initializes a resource: it could run before the constants are read.
    Initializer,
    /// Its numbers aren't written as TensorFlow writes them.
    UnusualEncoding,
    /// It has strings, which a variable can't hold.
    Strings,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::InsideCompiled => "called from inside a function that XLA compiles",
            Reason::CompiledWithoutCall => "in a function that XLA compiles and that no call names",
            Reason::CompiledAndMapped => "in a function that XLA compiles, which maps no files",
            Reason::Initializer => "in a function that initializes a resource",
            Reason::UnusualEncoding => "its numbers are written in an unusual way",
            Reason::Strings => "its elements are strings",
        })
    }
}

/// Ops that call a function with its arguments as inputs.
pub(crate) const CALLS: [&str; 2] = ["PartitionedCall", "StatefulPartitionedCall"];

/// The functions of a graph, and who refers to whom.
pub(crate) struct CallGraph<'a> {
    pub(crate) by_name: BTreeMap<&'a str, usize>,
    /// Which functions the body of each refers to.
    pub(crate) callees: Vec<BTreeSet<usize>>,
}

/// The name of a function.
pub(crate) fn function_name(function: &FunctionDef) -> &str {
    function
        .signature
        .as_ref()
        .map_or("", |signature| signature.name.as_str())
}

/// The functions in a graph's library.
pub(crate) fn functions(graph: &GraphDef) -> &[FunctionDef] {
    graph
        .library
        .as_ref()
        .map_or(&[], |library| library.function.as_slice())
}

/// The names of functions that the attributes of a node have.
pub(crate) fn named_functions(node: &NodeDef) -> impl Iterator<Item = &str> {
    let names = node.attr.values().flat_map(|attr| match &attr.value {
        Some(Value::Func(function)) => vec![function.name.as_str()],
        Some(Value::List(list)) => list.func.iter().map(|func| func.name.as_str()).collect(),
        _ => Vec::new(),
    });
    names.filter(|name| !name.is_empty())
}

impl<'a> CallGraph<'a> {
    /// # Errors
    ///
    /// If two functions have one name, one refers to a function that isn't there, or calls form a
    /// cycle.
    pub(crate) fn new(graph: &'a GraphDef) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidMessage, message);
        let functions = functions(graph);
        let mut by_name = BTreeMap::new();
        for (at, function) in functions.iter().enumerate() {
            let name = function_name(function);
            if by_name.insert(name, at).is_some() {
                return Err(invalid(format!("two functions are called {name:?}")));
            }
        }
        let mut call_graph = CallGraph {
            by_name,
            callees: Vec::with_capacity(functions.len()),
        };
        for function in functions {
            let callees = call_graph
                .referred_to(&function.node_def)
                .map_err(|error| error.at_path(function_name(function)))?;
            call_graph.callees.push(callees);
        }
        call_graph.referred_to(&graph.node)?;
        if let Some(at) = call_graph.in_cycle() {
            let name = functions.get(at).map_or("", function_name);
            return Err(invalid(format!("the function {name:?} calls itself")));
        }
        Ok(call_graph)
    }

    /// The functions that nodes refer to.
    pub(crate) fn referred_to(&self, nodes: &[NodeDef]) -> Result<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        for node in nodes {
            found.extend(self.by_name.get(node.op.as_str()));
            for name in named_functions(node) {
                let Some(at) = self.by_name.get(name) else {
                    let message = format!(
                        "the node {:?} refers to the function {name:?}, which isn't there",
                        node.name
                    );
                    return Err(Error::new(ErrorKind::InvalidMessage, message));
                };
                found.insert(*at);
            }
        }
        Ok(found)
    }

    /// These functions and all that they refer to, directly or not.
    pub(crate) fn reachable(&self, from: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut to_do: Vec<usize> = from.into_iter().collect();
        while let Some(at) = to_do.pop() {
            if found.insert(at) {
                to_do.extend(self.callees.get(at).into_iter().flatten());
            }
        }
        found
    }

    /// These functions and all that refer to them, directly or not.
    pub(crate) fn reaching(&self, to: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut callers = vec![Vec::new(); self.callees.len()];
        for (at, callees) in self.callees.iter().enumerate() {
            for callee in callees {
                callers[*callee].push(at);
            }
        }
        let mut found = BTreeSet::new();
        let mut to_do: Vec<usize> = to.into_iter().collect();
        while let Some(at) = to_do.pop() {
            if found.insert(at) {
                to_do.extend(callers.get(at).into_iter().flatten());
            }
        }
        found
    }

    /// A function that calls itself, directly or not. Goes through the functions from those that
    /// call nothing up; what is left are cycles and what calls them.
    fn in_cycle(&self) -> Option<usize> {
        let mut open: Vec<usize> = self.callees.iter().map(BTreeSet::len).collect();
        let mut callers = vec![Vec::new(); self.callees.len()];
        for (at, callees) in self.callees.iter().enumerate() {
            for callee in callees {
                callers[*callee].push(at);
            }
        }
        let mut to_do: Vec<usize> = (0..open.len()).filter(|at| open[*at] == 0).collect();
        let mut done = 0;
        while let Some(at) = to_do.pop() {
            done += 1;
            for caller in &callers[at] {
                open[*caller] -= 1;
                if open[*caller] == 0 {
                    to_do.push(*caller);
                }
            }
        }
        let is_left = |at: &usize| open[*at] > 0;
        (done < open.len()).then(|| (0..open.len()).find(is_left))?
    }
}

/// Whether XLA compiles a function as a whole, or fails.
pub(crate) fn is_compiled(function: &FunctionDef) -> bool {
    let attr = function.attr.get("_XlaMustCompile");
    matches!(
        attr.and_then(|attr| attr.value.as_ref()),
        Some(Value::B(true))
    )
}

/// The constants of one meta graph that can't leave their place.
pub(crate) fn left_in(
    meta_graph: &MetaGraphDef,
    constants: &[&Constant],
    is_local: bool,
) -> Result<BTreeMap<Place, Reason>> {
    let Some(graph) = &meta_graph.graph_def else {
        return Ok(BTreeMap::new());
    };
    let calls = CallGraph::new(graph)?;
    let functions = functions(graph);
    let compiled = || (0..functions.len()).filter(|at| is_compiled(&functions[*at]));
    let inside = calls
        .reachable(compiled().flat_map(|at| calls.callees[at].iter().copied().collect::<Vec<_>>()));
    let initializers = match &meta_graph.object_graph_def {
        Some(objects) => calls.reachable(initializers(objects, &calls)),
        None => BTreeSet::new(),
    };
    let mut uncalled: BTreeSet<usize> = BTreeSet::new();
    for node in functions
        .iter()
        .flat_map(|function| &function.node_def)
        .chain(&graph.node)
    {
        let is_call = CALLS.contains(&node.op.as_str());
        for name in named_functions(node).chain([node.op.as_str()]) {
            if let Some(at) = calls.by_name.get(name).filter(|_| !is_call) {
                uncalled.insert(*at);
            }
        }
    }
    let library = graph.library.iter();
    for gradient in library.flat_map(|library| &library.gradient) {
        for name in [&gradient.function_name, &gradient.gradient_func] {
            uncalled.extend(calls.by_name.get(name.as_str()));
        }
    }
    let mut left = BTreeMap::new();
    for constant in constants {
        let Some(function) = constant.place.function else {
            continue;
        };
        let is_compiled = functions.get(function).is_some_and(is_compiled);
        let reason = if inside.contains(&function) {
            Reason::InsideCompiled
        } else if is_compiled && is_local {
            Reason::CompiledAndMapped
        } else if is_compiled && uncalled.contains(&function) {
            Reason::CompiledWithoutCall
        } else if !is_local && initializers.contains(&function) {
            Reason::Initializer
        } else {
            continue;
        };
        left.insert(constant.place, reason);
    }
    Ok(left)
}

/// The functions that the loader calls while it makes resources.
fn initializers(objects: &SavedObjectGraph, calls: &CallGraph<'_>) -> Vec<usize> {
    const NAMES: [&str; 3] = ["_create_resource", "_initialize", "_destroy_resource"];
    let children = objects.nodes.iter().flat_map(|node| &node.children);
    let called = children.filter(|child| NAMES.contains(&child.local_name.as_str()));
    let nodes = called.filter_map(|child| objects.nodes.get(usize::try_from(child.node_id).ok()?));
    let names = nodes.flat_map(|node| match &node.kind {
        Some(Kind::BareConcreteFunction(function)) => {
            vec![function.concrete_function_name.as_str()]
        }
        Some(Kind::Function(function)) => {
            let names = function.concrete_functions.iter();
            names.map(String::as_str).collect()
        }
        _ => Vec::new(),
    });
    names
        .filter_map(|name| calls.by_name.get(name).copied())
        .collect()
}
