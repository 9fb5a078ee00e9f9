//! Mapping constants from files on this machine.
//!
//! The op `ImmutableConst` maps a file into memory. The bytes are read only when they are used, and
//! several processes share the memory. The path is an attribute of the node, so the files must not
//! be moved.

use std::path::Path;

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{FunctionDef, NodeDef};

use super::Rewriter;
use super::build::{self, Node, Scope};
use super::constants::{check_no_inputs, replacement};
use super::names::Names;
use crate::content::Content;

/// Returns the path of the file for `content` in `folder`.
pub(crate) fn content_path(folder: &Path, content: &Content) -> std::path::PathBuf {
    folder.join(&content.key)
}

/// Returns the path of the file that contains `content`, as a string for an attribute of the node
/// that maps the file. Fails if the path isn't UTF-8.
fn region(folder: &Path, content: &Content) -> Result<String> {
    let path = content_path(folder, content);
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => {
            let message = format!("{}: the path is not UTF-8", path.display());
            Err(Error::new(ErrorKind::InvalidConfig, message))
        }
    }
}

fn mapped(name: &str, region: &str, content: &Content) -> Node {
    Node::new(name, "ImmutableConst")
        .dtype("dtype", content.dtype)
        .shape("shape", &content.shape)
        .text("memory_region_name", region)
}

impl Rewriter<'_> {
    pub(super) fn move_to_files(&mut self, folder: &Path) -> Result<()> {
        let captured = self.captured_constants();
        let of = std::mem::take(&mut self.of);
        // The constants of a function, or of the main graph, follow one another.
        let (mut names, mut names_of) = (Names::default(), None);
        for ((function, node), content) in of {
            let content = &self.contents[content];
            let (scope, nodes) = match function {
                Some(function) => match self.functions().get_mut(function) {
                    Some(function) => (Scope::Function, &mut function.node_def),
                    None => continue,
                },
                None => (Scope::Main, &mut self.graph().node),
            };
            if names_of != Some(function) {
                (names, names_of) = (Names::of(nodes), Some(function));
            }
            let region = region(folder, content)?;
            if let Some(node) = nodes.get_mut(node) {
                check_no_inputs(node)?;
                let added = map_constant(node, scope, &region, content);
                names.take([&added])?;
                // The new node follows all others, so that their indices don't change.
                nodes.push(added);
            }
        }
        let Some(mut objects) = self.meta_graph.object_graph_def.take() else {
            return Ok(());
        };
        if objects.nodes.is_empty() {
            return Err(Error::invalid("the object graph has no objects"));
        }
        let body =
            |name: &str, content: &Content| Ok(function(name, &region(folder, content)?, content));
        self.capture_from(&mut objects, &captured, &[], &body)?;
        self.meta_graph.object_graph_def = Some(objects);
        Ok(())
    }
}

/// Replaces a constant with a node of the same name, which returns the output of a new node that
/// maps a file. Returns the node that maps the file.
fn map_constant(constant: &mut NodeDef, scope: Scope, region: &str, content: &Content) -> NodeDef {
    let name = format!("{}/proto_splitter_mapped", constant.name);
    let old = std::mem::take(constant);
    let node = mapped(&name, region, content)
        .device(&old.device)
        .inputs(old.input.iter().cloned())
        .build();
    let inputs = vec![scope.output(&name, "tensor")];
    *constant = replacement("Identity", old, inputs, content);
    node
}

/// Returns a function that returns `content`.
fn function(name: &str, region: &str, content: &Content) -> FunctionDef {
    let mut function = build::function(name, &[], false);
    function
        .node_def
        .push(mapped("mapped", region, content).build());
    build::returns(&mut function, content.dtype, "mapped:tensor:0".to_owned());
    function
}
