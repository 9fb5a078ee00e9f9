//! Where chunks belong: every path of a `ChunkedMessage`, nested ones made absolute, as one tree.

use std::collections::BTreeMap;

use prost_reflect::MessageDescriptor;

use super::Limits;
use crate::container::ChunkKind;
use crate::path::{FieldPath, Step};
use crate::proto::{ChunkedField, ChunkedMessage};
use crate::{Error, ErrorKind, Result};

/// A place in the message that a path names, or that lies on the way to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(usize);

impl NodeId {
    /// The message itself.
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// A chunk that belongs at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) chunk: usize,
    /// Whether it continues a packed run.
    pub(crate) packed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The node above, and the step from there; the root has none.
    pub(crate) above: Option<(NodeId, Step)>,
    /// In the order in which they are merged.
    pub(crate) chunks: Vec<ChunkRef>,
    pub(crate) children: BTreeMap<Step, NodeId>,
    depth: usize,
}

/// All places that chunks belong at. Node ids ascend from parents to children.
#[derive(Debug)]
pub(crate) struct PathTree {
    nodes: Vec<Node>,
}

/// How a tree is read from a `ChunkedMessage`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeOptions<'a> {
    /// The kind of every chunk there is.
    pub(crate) kinds: &'a [ChunkKind],
    /// Placeholders were left.
    pub(crate) marked: bool,
    /// Several BYTES chunks at one path follow each other in list order, as join version 1 says.
    pub(crate) concatenates: bool,
    pub(crate) limits: &'a Limits,
}

impl PathTree {
    pub(crate) fn build(message: &ChunkedMessage, options: TreeOptions<'_>) -> Result<PathTree> {
        let mut tree = PathTree {
            nodes: vec![Node::default()],
        };
        if let Some(index) = message.chunk_index {
            tree.add_chunk(NodeId::ROOT, index, false, &options)?;
        }
        let has_base = message.chunk_index.is_some();
        // A stack of its own instead of recursion: a caller's ChunkedMessage may nest deeper than a stack is.
        let mut open = vec![(NodeId::ROOT, message, 0)];
        while let Some((above, message, nesting)) = open.pop() {
            if nesting > options.limits.max_nesting {
                let message = format!(
                    "chunked messages nest deeper than {}",
                    options.limits.max_nesting
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message).at_path(tree.path(above)));
            }
            for field in &message.chunked_fields {
                let node = tree.add_field(above, field, &options)?;
                if let Some(nested) = field
                    .message
                    .as_ref()
                    .filter(|m| !m.chunked_fields.is_empty())
                {
                    open.push((node, nested, nesting + 1));
                }
            }
        }
        tree.sort(has_base, &options);
        tree.check(&options)?;
        Ok(tree)
    }

    fn add_field(
        &mut self,
        above: NodeId,
        field: &ChunkedField,
        options: &TreeOptions<'_>,
    ) -> Result<NodeId> {
        let path = FieldPath::from_tags(&field.field_tag)
            .map_err(|error| error.at_path(self.path(above)))?;
        let mut node = above;
        for step in path.steps() {
            node = self.child(node, step, options.limits)?;
        }
        let nested = field.message.as_ref();
        match nested.and_then(|message| message.chunk_index) {
            Some(index) => self.add_chunk(node, index, field.packed, options)?,
            None if nested.is_none_or(|message| message.chunked_fields.is_empty()) => {
                let message = "a chunked field with neither a chunk nor fields below it";
                return Err(invalid(message).at_path(self.path(node)));
            }
            None => {}
        }
        Ok(node)
    }

    fn child(&mut self, node: NodeId, step: &Step, limits: &Limits) -> Result<NodeId> {
        if let Some(&child) = self.nodes[node.0].children.get(step) {
            return Ok(child);
        }
        let depth = self.nodes[node.0].depth + 1;
        if depth > limits.max_message_depth {
            let message = format!("the path is longer than {} steps", limits.max_message_depth);
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_path(self.path(node)));
        }
        let child = NodeId(self.nodes.len());
        self.nodes.push(Node {
            above: Some((node, step.clone())),
            depth,
            ..Node::default()
        });
        self.nodes[node.0].children.insert(step.clone(), child);
        Ok(child)
    }

    fn add_chunk(
        &mut self,
        node: NodeId,
        index: u64,
        packed: bool,
        options: &TreeOptions<'_>,
    ) -> Result<()> {
        let count = options.kinds.len();
        match usize::try_from(index) {
            Ok(chunk) if chunk < count => {
                self.nodes[node.0].chunks.push(ChunkRef { chunk, packed });
                Ok(())
            }
            _ => {
                let message =
                    format!("chunk index {index} is out of range: there are {count} chunks");
                Err(invalid(message).at_path(self.path(node)))
            }
        }
    }

    /// Puts the chunks of every node in the order of merging: the base first, the others by index.
    fn sort(&mut self, has_base: bool, options: &TreeOptions<'_>) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let first = usize::from(at == 0 && has_base);
            let chunks = &mut node.chunks[first..];
            let values = options.concatenates
                && chunks
                    .iter()
                    .all(|c| options.kinds[c.chunk] == ChunkKind::Bytes);
            if !values {
                chunks.sort_by_key(|c| c.chunk);
            }
        }
    }

    fn check(&self, options: &TreeOptions<'_>) -> Result<()> {
        let mut used = vec![false; options.kinds.len()];
        for (id, node) in self.nodes() {
            let kind = |c: &ChunkRef| options.kinds[c.chunk];
            if let Some(value) = node.chunks.iter().find(|c| kind(c) == ChunkKind::Bytes) {
                let fail = |message: String| {
                    Err(invalid(message)
                        .at_path(self.path(id))
                        .in_chunk(value.chunk as u64))
                };
                if id == NodeId::ROOT {
                    return fail("a BYTES chunk where the message itself belongs".into());
                }
                if !node.children.is_empty() {
                    return fail("a BYTES chunk with chunked fields below it".into());
                }
                if let Some(other) = node.chunks.iter().find(|c| kind(c) == ChunkKind::Message) {
                    return fail(format!(
                        "a BYTES chunk at the path of MESSAGE chunk {}",
                        other.chunk
                    ));
                }
                if node.chunks.len() > 1 && !options.concatenates {
                    let count = node.chunks.len();
                    return fail(format!(
                        "{count} BYTES chunks at one path, which join version 0 has not"
                    ));
                }
            }
            for c in &node.chunks {
                if c.packed && (!options.marked || kind(c) == ChunkKind::Bytes) {
                    let message = "a packed slice that is no slice of a marked file";
                    return Err(invalid(message)
                        .at_path(self.path(id))
                        .in_chunk(c.chunk as u64));
                }
                if std::mem::replace(&mut used[c.chunk], true) && options.marked {
                    let message = "the chunk is used in two places";
                    return Err(invalid(message)
                        .at_path(self.path(id))
                        .in_chunk(c.chunk as u64));
                }
            }
        }
        Ok(())
    }

    /// The first chunk that belongs nowhere.
    pub(crate) fn first_unused(&self, chunks: usize) -> Option<usize> {
        let mut used = vec![false; chunks];
        for node in &self.nodes {
            for c in &node.chunks {
                used[c.chunk] = true;
            }
        }
        used.iter().position(|used| !used)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// All nodes, parents before their children.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (NodeId(at), node))
    }

    /// The absolute path of a node.
    pub(crate) fn path(&self, id: NodeId) -> FieldPath {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some((above, step)) = &self.nodes[at.0].above {
            steps.push(step.clone());
            at = *above;
        }
        steps.into_iter().rev().collect()
    }

    /// The path as text, with names if the type is known.
    pub(crate) fn show(&self, id: NodeId, root: Option<&MessageDescriptor>) -> String {
        self.path(id).display(root)
    }

    /// The first chunk at or below a node, in merge order: what an error about the way there is about.
    pub(crate) fn first_chunk(&self, id: NodeId) -> Option<usize> {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let node = self.node(id);
            if let Some(c) = node.chunks.first() {
                return Some(c.chunk);
            }
            open.extend(node.children.values().rev());
        }
        None
    }
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidTrailer, message)
}
