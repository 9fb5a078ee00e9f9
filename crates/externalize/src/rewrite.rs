//! Rewriting a model so that it reads its large constants from a tensor bundle.
//!
//! Every moved constant `X` of the main graph becomes three nodes. References to `X` stay
//! unchanged:
//!
//! ```text
//! X/proto_splitter_handle  VarHandleOp     the variable that holds the content; X's control inputs
//! X/proto_splitter_read    ReadVariableOp
//! X                        Identity        with X's attributes that begin with "_"
//! ```
//!
//! The model's own initializer reads the constants' contents from the bundle into the variables.
//! [`init`] adds the initializer to the main graph, for TensorFlow 1 loaders and the C++ loader.
//! [`objects`] adds it to the object graph, for `tf.saved_model.load`.
//!
//! In a function, `X` becomes an argument instead (see [`arguments`]). All callers pass the
//! argument, and the functions that `tf.saved_model.load` returns capture it. Thus, a function
//! keeps the contents of its constants alive after other parts of the model are dropped, and XLA
//! can compile the function. A function reads variables only if a call to it can't pass additional
//! arguments.

mod arguments;
mod build;
mod constants;
mod init;
pub(crate) mod local;
mod names;
mod objects;
mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proto_splitter_core::Result;
use proto_splitter_graph_def::proto::{FunctionDef, GraphDef};
use proto_splitter_saved_model::proto::MetaGraphDef;

use crate::constant::Place;
use crate::content::Content;
pub(crate) use build::strings;
use names::Names;
pub(crate) use objects::{CONSTANTS_OBJECT, INDEX_OBJECT, plain_object};

/// Prefix of the names of the bundle's files, and of the shared names of the variables that hold
/// the moved constants.
pub const BUNDLE_NAME: &str = "proto_splitter_constants";

/// Returns the shared name of the variable that holds `content`.
fn shared_name(content: &Content) -> String {
    format!("{BUNDLE_NAME}/{}", content.key)
}

/// The storage to which constants are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination<'a> {
    /// A bundle in the model's `assets` folder.
    Bundle,
    /// Separate files in this folder. The model stores their absolute paths, so they can't be
    /// moved.
    Local(&'a Path),
}

/// Rewrites the meta graph with the given index, so that it reads its constants from `destination`.
/// `of` maps each constant to the index of its content in `contents`.
pub(crate) fn rewrite(
    meta_graph: &mut MetaGraphDef,
    index: usize,
    contents: &[Content],
    of: &BTreeMap<Place, usize>,
    destination: Destination<'_>,
) -> Result<()> {
    let of: BTreeMap<(Option<usize>, usize), usize> = of
        .iter()
        .filter(|(place, _)| place.meta_graph == index)
        .map(|(place, content)| ((place.function, place.node), *content))
        .collect();
    if of.is_empty() {
        return Ok(());
    }
    let mut rewriter = Rewriter::new(meta_graph, contents, of)?;
    match destination {
        Destination::Bundle => rewriter.move_to_bundle()?,
        Destination::Local(folder) => rewriter.move_to_files(folder)?,
    }
    ops::list_added(meta_graph);
    Ok(())
}

/// A meta graph that is being rewritten.
struct Rewriter<'a> {
    meta_graph: &'a mut MetaGraphDef,
    contents: &'a [Content],
    /// Index in `contents` of each moved constant's content. A key consists of the index of the
    /// constant's function (`None` for the main graph) and the index of the constant's node.
    of: BTreeMap<(Option<usize>, usize), usize>,
    /// Names of the nodes in the main graph that could conflict with new names.
    names: Names,
    /// Number to append to the name of the next added function.
    next_function: u64,
    /// Indices in `contents` of the contents that functions read from variables.
    in_functions: BTreeSet<usize>,
    /// Map from the names of nodes in the main graph to the indices of their contents in
    /// `contents`. The nodes are the moved constants of the main graph, and added nodes that read
    /// contents for called functions.
    in_main: BTreeMap<String, usize>,
    /// Indices of the functions with nodes that read variables.
    stateful: BTreeSet<usize>,
    /// Indices in `contents` of the contents that were appended to the arguments of each function,
    /// by the function's index.
    arguments: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Rewriter<'a> {
    fn new(
        meta_graph: &'a mut MetaGraphDef,
        contents: &'a [Content],
        of: BTreeMap<(Option<usize>, usize), usize>,
    ) -> Result<Self> {
        let graph = meta_graph.graph_def.get_or_insert_default();
        let names = Names::of(&graph.node);
        let next_function = names::next_function(graph)?;
        Ok(Rewriter {
            meta_graph,
            contents,
            of,
            names,
            next_function,
            in_functions: BTreeSet::new(),
            in_main: BTreeMap::new(),
            stateful: BTreeSet::new(),
            arguments: BTreeMap::new(),
        })
    }

    fn graph(&mut self) -> &mut GraphDef {
        self.meta_graph.graph_def.get_or_insert_default()
    }

    fn functions(&mut self) -> &mut Vec<FunctionDef> {
        &mut self.graph().library.get_or_insert_default().function
    }

    fn move_to_bundle(&mut self) -> Result<()> {
        let captured = self.captured_constants();
        self.pass_arguments()?;
        self.replace_constants()?;
        self.mark_stateful()?;
        let added = self.add_initialization()?;
        if self.meta_graph.object_graph_def.is_some() {
            self.add_objects(&added, &captured)?;
        }
        Ok(())
    }

    /// Returns a name for an added function. The name ends with a number, since the computation of
    /// the model's fingerprint requires this.
    fn function_name(&mut self, base: &str) -> String {
        let name = format!("__inference_proto_splitter_{base}_{}", self.next_function);
        self.next_function += 1;
        name
    }
}
