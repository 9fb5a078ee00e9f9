//! The inputs that nodes pass as arguments to the functions they call.
//!
//! A function gets a value from outside through an additional argument, which follows its original
//! arguments. Every node that calls the function then needs an additional input. The index of this
//! input depends on the op.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::{FunctionDef, GraphDef, NodeDef};

use crate::call_graph::{CallGraph, functions, functions_in, named_functions};

/// A description of how nodes of one op call functions: which attributes name the functions, and
/// which inputs become their arguments.
#[derive(Debug)]
pub(crate) struct CallSite {
    op: &'static str,
    /// Attributes that name the functions to call. All of these functions get the same arguments.
    functions: &'static [&'static str],
    /// Attribute that lists the types of the inputs for `functions`.
    pub(crate) types: &'static str,
    /// Number of inputs that follow the inputs for `functions`, without inputs that are passed to
    /// other functions.
    after: usize,
    /// Attributes that list the types of the inputs for other functions. These inputs follow the
    /// inputs for `functions`.
    later: &'static [&'static str],
    /// Attribute that names the function for the body of a loop; `None` if the op isn't a loop. The
    /// outputs of this function are its arguments in the next iteration.
    body: Option<&'static str>,
}

const fn site(
    op: &'static str,
    functions: &'static [&'static str],
    types: &'static str,
    after: usize,
) -> CallSite {
    CallSite {
        op,
        functions,
        types,
        after,
        later: &[],
        body: None,
    }
}

const fn one_of_several(
    op: &'static str,
    function: &'static [&'static str],
    types: &'static str,
    later: &'static [&'static str],
) -> CallSite {
    CallSite {
        later,
        ..site(op, function, types, 0)
    }
}

const fn looped(op: &'static str) -> CallSite {
    CallSite {
        body: Some("body"),
        ..site(op, &["cond", "body"], "T", 0)
    }
}

const GROUP_TYPES: [&str; 4] = [
    "Tkey_func_other_arguments",
    "Tinit_func_other_arguments",
    "Treduce_func_other_arguments",
    "Tfinalize_func_other_arguments",
];
const WINDOW_TYPES: [&str; 3] = [
    "Tkey_func_other_arguments",
    "Treduce_func_other_arguments",
    "Twindow_size_func_other_arguments",
];

/// Descriptions of the calls in which ops of TensorFlow 2.21 pass inputs to functions.
const CALL_SITES: &[CallSite] = &[
    site("PartitionedCall", &["f"], "Tin", 0),
    site("StatefulPartitionedCall", &["f"], "Tin", 0),
    site("If", &["then_branch", "else_branch"], "Tin", 0),
    site("StatelessIf", &["then_branch", "else_branch"], "Tin", 0),
    site("Case", &["branches"], "Tin", 0),
    site("StatelessCase", &["branches"], "Tin", 0),
    looped("While"),
    looped("StatelessWhile"),
    site("MapDefun", &["f"], "Tcaptured", 0),
    site("BatchFunction", &["f"], "Tcaptured", 0),
    site("MapDataset", &["f"], "Targuments", 0),
    site("ParallelMapDataset", &["f"], "Targuments", 1),
    site("ParallelMapDatasetV2", &["f"], "Targuments", 1),
    site("MapAndBatchDataset", &["f"], "Targuments", 3),
    site("FlatMapDataset", &["f"], "Targuments", 0),
    site("InterleaveDataset", &["f"], "Targuments", 2),
    site("ParallelInterleaveDatasetV2", &["f"], "Targuments", 3),
    site("ParallelInterleaveDatasetV3", &["f"], "Targuments", 3),
    site("ParallelInterleaveDatasetV4", &["f"], "Targuments", 5),
    site("FilterDataset", &["predicate"], "Targuments", 0),
    site("ParallelFilterDataset", &["predicate"], "Targuments", 1),
    site("TakeWhileDataset", &["predicate"], "Targuments", 0),
    site("ReduceDataset", &["f"], "Targuments", 0),
    site("ScanDataset", &["f"], "Targuments", 0),
    one_of_several(
        "GroupByReducerDataset",
        &["key_func"],
        GROUP_TYPES[0],
        &[GROUP_TYPES[1], GROUP_TYPES[2], GROUP_TYPES[3]],
    ),
    one_of_several(
        "GroupByReducerDataset",
        &["init_func"],
        GROUP_TYPES[1],
        &[GROUP_TYPES[2], GROUP_TYPES[3]],
    ),
    one_of_several(
        "GroupByReducerDataset",
        &["reduce_func"],
        GROUP_TYPES[2],
        &[GROUP_TYPES[3]],
    ),
    one_of_several(
        "GroupByReducerDataset",
        &["finalize_func"],
        GROUP_TYPES[3],
        &[],
    ),
    one_of_several(
        "GroupByWindowDataset",
        &["key_func"],
        WINDOW_TYPES[0],
        &[WINDOW_TYPES[1], WINDOW_TYPES[2]],
    ),
    one_of_several(
        "GroupByWindowDataset",
        &["reduce_func"],
        WINDOW_TYPES[1],
        &[WINDOW_TYPES[2]],
    ),
    one_of_several(
        "GroupByWindowDataset",
        &["window_size_func"],
        WINDOW_TYPES[2],
        &[],
    ),
];

impl CallSite {
    /// Returns the names of the functions in those attributes of a node that are listed in
    /// `functions`.
    pub(crate) fn functions_of<'n>(&self, node: &'n NodeDef) -> Vec<&'n str> {
        let attrs = self.functions.iter();
        functions_in(attrs.filter_map(|name| Some(&node.attr.get(*name)?.value))).collect()
    }

    /// Returns the name of the function for the loop's body; `None` if the node isn't a loop. The
    /// outputs of this function are its arguments in the next iteration.
    pub(crate) fn body_of<'n>(&self, node: &'n NodeDef) -> Option<&'n str> {
        match &node.attr.get(self.body?)?.value {
            Some(Value::Func(function)) => Some(function.name.as_str()),
            _ => None,
        }
    }

    /// Returns the index at which to insert a further input for `functions`; `None` if the node has
    /// too few inputs.
    pub(crate) fn next_input(&self, node: &NodeDef) -> Option<usize> {
        // Control inputs follow all other inputs.
        let is_data = |input: &&String| !input.starts_with('^');
        let inputs = node.input.iter().take_while(is_data).count();
        let later: usize = self
            .later
            .iter()
            .map(
                |types| match node.attr.get(*types).map(|attr| &attr.value) {
                    Some(Some(Value::List(list))) => list.r#type.len(),
                    _ => 0,
                },
            )
            .sum();
        inputs.checked_sub(self.after)?.checked_sub(later)
    }
}

/// Returns the descriptions of all calls that a node makes. One op can call several groups of
/// functions with different inputs.
pub(crate) fn call_sites(node: &NodeDef) -> impl Iterator<Item = &'static CallSite> {
    CALL_SITES.iter().filter(|site| site.op == node.op)
}

/// The names of the functions to which the object graph refers.
pub(crate) type Entries<'a> = BTreeSet<&'a str>;

/// Returns, for each function, true if it can get additional arguments. This requires that all of
/// its callers can pass them, and that nothing else depends on the number of its arguments.
pub(crate) fn extensible(
    graph: &GraphDef,
    calls: &CallGraph<'_>,
    entries: &Entries<'_>,
) -> Vec<bool> {
    let functions = functions(graph);
    let at = |name: &str| calls.by_name.get(name).copied();
    let mut refused: BTreeSet<usize> = BTreeSet::new();
    for (at, function) in functions.iter().enumerate() {
        if has_frames(&function.node_def) || has_twins(function) {
            refused.insert(at);
        }
    }
    // All functions at one call site get the same arguments.
    let mut groups = Vec::new();
    let (mut bodies, mut others) = (BTreeSet::new(), BTreeSet::new());
    let nodes = functions.iter().flat_map(|function| &function.node_def);
    for node in nodes.chain(&graph.node) {
        refused.extend(at(&node.op));
        let mut handed: BTreeMap<&str, usize> = BTreeMap::new();
        for site in call_sites(node) {
            let called = site.functions_of(node);
            for name in &called {
                *handed.entry(name).or_default() += 1;
            }
            let body = site.body_of(node);
            bodies.extend(body.and_then(at));
            others.extend(called.iter().filter(|name| Some(**name) != body));
            groups.push(called.into_iter().filter_map(at).collect::<Vec<_>>());
        }
        for name in named_functions(node) {
            match handed.get_mut(name) {
                Some(left) if *left > 0 => *left -= 1,
                _ => refused.extend(at(name)),
            }
        }
    }
    // A loop's body would also return the added arguments, which a caller that isn't the loop
    // doesn't expect.
    others.extend(entries);
    refused.extend(
        others
            .into_iter()
            .filter_map(at)
            .filter(|at| bodies.contains(at)),
    );
    if let Some(library) = &graph.library {
        for gradient in &library.gradient {
            refused.extend(at(&gradient.function_name));
            refused.extend(at(&gradient.gradient_func));
        }
        // Python's loader passes the captures in the object graph to these functions.
        let registered = library.registered_gradients.iter();
        let names = registered.map(|gradient| gradient.gradient_func.as_str());
        refused.extend(names.filter(|name| !entries.contains(name)).filter_map(at));
    }
    refuse_groups(&mut refused, groups, functions.len());
    (0..functions.len())
        .map(|at| !refused.contains(&at))
        .collect()
}

/// Adds to `refused` all functions of each group that has a refused function, until no group has
/// both refused and other functions. `functions` is the number of functions in the graph.
fn refuse_groups(refused: &mut BTreeSet<usize>, mut groups: Vec<Vec<usize>>, functions: usize) {
    let mut of = vec![Vec::new(); functions];
    for (group, members) in groups.iter().enumerate() {
        for member in members {
            of[*member].push(group);
        }
    }
    let mut to_do: Vec<usize> = refused.iter().copied().collect();
    while let Some(function) = to_do.pop() {
        for group in &of[function] {
            let members = std::mem::take(&mut groups[*group]);
            to_do.extend(members.into_iter().filter(|member| refused.insert(*member)));
        }
    }
}

/// Returns true if nodes may be in the frame of a TensorFlow 1 loop. Arguments of functions are
/// never in a frame, so they can't replace nodes in a frame.
pub(crate) fn has_frames(nodes: &[NodeDef]) -> bool {
    nodes
        .iter()
        .any(|node| node.op == "Enter" || node.op == "RefEnter")
}

/// Returns true if the runtime may call another function in place of this one, with the same
/// arguments.
fn has_twins(function: &FunctionDef) -> bool {
    function.attr.contains_key("api_implements")
}
