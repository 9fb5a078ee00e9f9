//! The places of all chunks as one tree, built from the paths of a `ChunkedMessage`. Paths in
//! nested `ChunkedMessage`s become absolute.

mod build;
mod field_lists;
mod prune;

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use crate::path::{FieldPath, Select, Step};
use crate::wire::FieldNumber;

pub(crate) use build::ChunkTreeOptions;

/// The ID of a place in the message: the target of a chunk's path, or an ancestor of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The root message.
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A chunk that belongs at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) chunk: usize,
    /// True if the chunk continues a packed run.
    pub(crate) packed: bool,
    /// The field whose elements the chunk holds, if the trailer declares the chunk as a slice.
    pub(crate) slice_of: Option<FieldNumber>,
    /// Number of elements in a slice; 0 if the trailer doesn't declare it.
    pub(crate) elements: u64,
    /// True if the chunk continues its message at the end. It may contain any fields.
    pub(crate) tail: bool,
    /// True if the chunk begins within a field of the chunk before it.
    pub(crate) within: bool,
}

#[derive(Debug)]
struct Node {
    /// The parent. The root's parent and step are meaningless.
    above: NodeId,
    step: Step,
    depth: u32,
    /// The node's ranges in the tree's lists `chunks` and `children`.
    chunks: Range<u32>,
    children: Range<u32>,
}

/// All places of chunks. Node IDs ascend from parents to children.
///
/// There may be a million nodes, so they share three lists instead of owning lists and maps.
#[derive(Debug)]
pub(crate) struct ChunkTree {
    nodes: Vec<Node>,
    chunks: Vec<ChunkRef>,
    children: Vec<NodeId>,
}

impl ChunkTree {
    /// Returns the index of the first chunk that no node uses.
    pub(crate) fn first_unused(&self, chunks: usize) -> Option<usize> {
        let mut used = vec![false; chunks];
        for c in &self.chunks {
            used[c.chunk] = true;
        }
        used.iter().position(|used| !used)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all nodes, parents before their children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        (0..count).map(NodeId)
    }

    /// Returns all nodes in depth-first order.
    pub(crate) fn ids_in_depth(&self) -> impl Iterator<Item = NodeId> {
        let mut open = vec![NodeId::ROOT];
        std::iter::from_fn(move || {
            let id = open.pop()?;
            open.extend(self.children(id).iter().rev());
            Some(id)
        })
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the parent node and the step from the parent; `None` for the root.
    pub(crate) fn above(&self, id: NodeId) -> Option<(NodeId, &Step)> {
        let node = self.node(id);
        (id != NodeId::ROOT).then_some((node.above, &node.step))
    }

    /// Returns the step to a node from its parent. The root's step is meaningless.
    pub(crate) fn step(&self, id: NodeId) -> &Step {
        &self.node(id).step
    }

    /// Returns the index in the last step to a node. The node must be an element.
    pub(crate) fn index(&self, id: NodeId) -> u64 {
        match self.step(id).select {
            Select::Index(index) => index,
            _ => u64::MAX,
        }
    }

    /// Returns the chunks at a node, in merge order.
    pub(crate) fn chunks(&self, id: NodeId) -> &[ChunkRef] {
        of(&self.chunks, &self.node(id).chunks)
    }

    /// Returns the children of a node, in ascending order of their steps.
    pub(crate) fn children(&self, id: NodeId) -> &[NodeId] {
        of(&self.children, &self.node(id).children)
    }

    /// Returns the absolute path of a node.
    pub(crate) fn path(&self, id: NodeId) -> FieldPath {
        let mut steps = Vec::with_capacity(self.node(id).depth as usize);
        let mut at = id;
        while let Some((above, step)) = self.above(at) {
            steps.push(step.clone());
            at = above;
        }
        steps.reverse();
        FieldPath::from_iter(steps)
    }

    /// Formats the path of a node as text, with names if the type is known.
    pub(crate) fn show(&self, id: NodeId, root: Option<&MessageDescriptor>) -> String {
        self.path(id).display(root)
    }

    /// Returns the first chunk at or below a node, in merge order, for errors about the node's
    /// path.
    pub(crate) fn first_chunk(&self, id: NodeId) -> Option<usize> {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if let Some(c) = self.chunks(id).first() {
                return Some(c.chunk);
            }
            open.extend(self.children(id).iter().rev());
        }
        None
    }
}

fn of<'a, T>(list: &'a [T], range: &Range<u32>) -> &'a [T] {
    &list[range.start as usize..range.end as usize]
}
