//! The functions in the library of a graph, and the references between them.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::{FunctionDef, GraphDef, NodeDef};
use proto_splitter_saved_model::proto::MetaGraphDef;

/// The functions in the library of a graph, and the references between them.
pub(crate) struct CallGraph<'a> {
    /// Index of each function in the library, by the function's name.
    pub(crate) by_name: BTreeMap<&'a str, usize>,
    /// For each function, the indices of the functions to which its body refers.
    pub(crate) callees: Vec<BTreeSet<usize>>,
}

/// Returns the name of a function.
pub(crate) fn function_name(function: &FunctionDef) -> &str {
    function
        .signature
        .as_ref()
        .map_or("", |signature| signature.name.as_str())
}

/// Returns the functions in the library of a graph.
pub(crate) fn functions(graph: &GraphDef) -> &[FunctionDef] {
    graph
        .library
        .as_ref()
        .map_or(&[], |library| library.function.as_slice())
}

/// Returns all nodes of a meta graph: those in the bodies of functions, and those of the main
/// graph.
pub(crate) fn nodes(meta_graph: &MetaGraphDef) -> impl Iterator<Item = &NodeDef> {
    let graph = meta_graph.graph_def.iter();
    graph.flat_map(|graph| {
        let bodies = functions(graph).iter();
        bodies
            .flat_map(|function| &function.node_def)
            .chain(&graph.node)
    })
}

/// Returns the functions in `from`, and all that follow one of them, directly or indirectly.
fn closure<'a, S>(next: &'a [S], from: impl IntoIterator<Item = usize>) -> BTreeSet<usize>
where
    &'a S: IntoIterator<Item = &'a usize>,
{
    let mut found = BTreeSet::new();
    let mut to_do: Vec<usize> = from.into_iter().collect();
    while let Some(at) = to_do.pop() {
        if found.insert(at) {
            to_do.extend(next.get(at).into_iter().flatten());
        }
    }
    found
}

/// Returns the names of the functions to which the attributes of a node refer.
pub(crate) fn named_functions(node: &NodeDef) -> impl Iterator<Item = &str> {
    functions_in(node.attr.values().map(|attr| &attr.value))
}

/// Returns the names of the functions to which attributes refer.
pub(crate) fn functions_in<'n>(
    attrs: impl Iterator<Item = &'n Option<Value>>,
) -> impl Iterator<Item = &'n str> {
    let names = attrs.flat_map(|value| match value {
        Some(Value::Func(function)) => vec![function.name.as_str()],
        Some(Value::List(list)) => list.func.iter().map(|func| func.name.as_str()).collect(),
        _ => Vec::new(),
    });
    names.filter(|name| !name.is_empty())
}

impl<'a> CallGraph<'a> {
    /// Finds the functions of a graph, and the references between them.
    ///
    /// # Errors
    ///
    /// Fails if two functions have the same name, if a function refers to a missing function, or if
    /// calls form a cycle.
    pub(crate) fn new(graph: &'a GraphDef) -> Result<Self> {
        let functions = functions(graph);
        let mut by_name = BTreeMap::new();
        for (at, function) in functions.iter().enumerate() {
            let name = function_name(function);
            if by_name.insert(name, at).is_some() {
                return Err(Error::invalid(format!("two functions are called {name:?}")));
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
            return Err(Error::invalid(format!(
                "the function {name:?} calls itself"
            )));
        }
        Ok(call_graph)
    }

    /// Returns the indices of the functions to which these nodes refer.
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

    /// Returns the functions in `from`, and all functions to which they refer, directly or
    /// indirectly.
    pub(crate) fn reachable(&self, from: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        closure(&self.callees, from)
    }

    /// Returns the functions in `to`, and all functions that refer to them, directly or indirectly.
    pub(crate) fn reaching(&self, to: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        closure(&self.callers(), to)
    }

    /// Returns the functions that refer to each function.
    fn callers(&self) -> Vec<Vec<usize>> {
        let mut callers = vec![Vec::new(); self.callees.len()];
        for (at, callees) in self.callees.iter().enumerate() {
            for callee in callees {
                callers[*callee].push(at);
            }
        }
        callers
    }

    /// Returns a function that calls itself, directly or indirectly, if there is one. Repeatedly
    /// removes functions that don't call any of the remaining functions, until only cycles and
    /// their callers remain. Then follows calls until they must have led to a cycle.
    fn in_cycle(&self) -> Option<usize> {
        let mut open: Vec<usize> = self.callees.iter().map(BTreeSet::len).collect();
        let callers = self.callers();
        let mut to_do: Vec<usize> = (0..open.len()).filter(|at| open[*at] == 0).collect();
        while let Some(at) = to_do.pop() {
            for caller in &callers[at] {
                open[*caller] -= 1;
                if open[*caller] == 0 {
                    to_do.push(*caller);
                }
            }
        }
        let is_left = |at: &usize| open[*at] > 0;
        let first = (0..open.len()).find(is_left)?;
        (0..open.len()).try_fold(first, |at, _| {
            self.callees[at].iter().copied().find(is_left)
        })
    }
}
