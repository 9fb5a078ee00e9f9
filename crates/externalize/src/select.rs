//! Finding the constants that can't be moved.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_core::Result;
use proto_splitter_graph_def::proto::FunctionDef;
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::{MetaGraphDef, SavedObjectGraph};

use crate::call_graph::{CallGraph, functions};
use crate::call_sites::{Entries, extensible};
use crate::constant::{Constant, Place};

/// The reason why a constant can't be moved out of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A function that XLA compiles as a whole calls the constant's function, directly or through
    /// other functions. Either one of these calls can't pass an additional argument, or constants
    /// are to be mapped from files, which isn't possible in compiled functions.
    InsideCompiled,
    /// XLA compiles the constant's function as a whole, and a call to this function can't pass an
    /// additional argument.
    CompiledWithoutCall,
    /// XLA compiles the constant's function as a whole, and compiled functions can't map files.
    CompiledAndMapped,
    /// The constant is in a function that initializes a resource. The function could run before the
    /// constants are read into variables.
    Initializer,
    /// The constant's numbers aren't encoded as TensorFlow encodes them, so the encoding couldn't
    /// be restored.
    UnusualEncoding,
    /// The constant contains strings, which a variable can't hold.
    Strings,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::InsideCompiled => "called from inside a function that XLA compiles",
            Reason::CompiledWithoutCall => {
                "in a function that XLA compiles and that takes no more arguments"
            }
            Reason::CompiledAndMapped => "in a function that XLA compiles, which maps no files",
            Reason::Initializer => "in a function that initializes a resource",
            Reason::UnusualEncoding => "its numbers are written in an unusual way",
            Reason::Strings => "its elements are strings",
        })
    }
}

/// Returns true if XLA compiles a function as a whole. Such a function can't contain certain ops.
pub(crate) fn is_compiled(function: &FunctionDef) -> bool {
    let attr = function.attr.get("_XlaMustCompile");
    matches!(
        attr.and_then(|attr| attr.value.as_ref()),
        Some(Value::B(true))
    )
}

/// Returns the constants in a meta graph that can't be moved out, each with the reason.
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
    // Functions that are compiled get their constants as arguments, which all callers have to pass.
    let extensible = extensible(graph, &calls, &entries(meta_graph));
    let compiled_or_inside = compiled().chain(inside.iter().copied());
    let unreachable = calls.reachable(compiled_or_inside.filter(|at| !extensible[*at]));
    let mut left = BTreeMap::new();
    for constant in constants {
        let Some(function) = constant.place.function else {
            continue;
        };
        let is_compiled = functions.get(function).is_some_and(is_compiled);
        let stays = is_local || unreachable.contains(&function);
        let reason = if stays && inside.contains(&function) {
            Reason::InsideCompiled
        } else if is_compiled && is_local {
            Reason::CompiledAndMapped
        } else if is_compiled && stays {
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

/// Returns the names of the functions to which the object graph refers.
pub(crate) fn entries(meta_graph: &MetaGraphDef) -> Entries<'_> {
    let objects = meta_graph.object_graph_def.iter();
    let functions = objects.flat_map(|objects| objects.concrete_functions.keys());
    functions.map(String::as_str).collect()
}

/// Returns the indices of the functions that the loader calls to create, initialize and destroy
/// resources.
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
