//! The places of all chunks in the message, as a tree built from the paths in a `ChunkedMessage`.
//! Paths in nested `ChunkedMessage`s become absolute.

mod build;
mod field_lists;
mod prune;

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use crate::path::{FieldPath, Select, Step};
use crate::wire::FieldNumber;

pub(crate) use build::ChunkTreeOptions;

/// The ID of a place in the message: the target of a chunk's path, or an ancestor of such a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The root message.
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A chunk that is merged at a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) chunk: usize,
    /// True if the chunk continues the packed numbers of a repeated field.
    pub(crate) packed: bool,
    /// The repeated field whose elements the chunk contains; `None` if the trailer doesn't declare
    /// the chunk as a slice of a field.
    pub(crate) slice_of: Option<FieldNumber>,
    /// Number of elements in the slice; 0 if the trailer doesn't declare the number.
    pub(crate) elements: u64,
    /// True if the chunk is appended to the preceding chunks of its message. Such a chunk may
    /// contain any fields.
    pub(crate) tail: bool,
    /// True if the chunk begins within a field that starts in the preceding chunk.
    pub(crate) within: bool,
}

#[derive(Debug)]
struct Node {
    /// The parent node. The root's `above` and `step` are meaningless.
    above: NodeId,
    step: Step,
    depth: u32,
    /// The range of the node's chunks in the tree's list `chunks`.
    chunks: Range<u32>,
    /// The range of the node's children in the tree's list `children`.
    children: Range<u32>,
}

/// The places of all chunks. The ID of a parent node is lower than the IDs of its children.
///
/// There may be a million nodes, so they share three lists instead of owning lists and maps.
#[derive(Debug)]
pub(crate) struct ChunkTree {
    nodes: Vec<Node>,
    chunks: Vec<ChunkRef>,
    children: Vec<NodeId>,
}

impl ChunkTree {
    /// Returns the lowest index of a chunk that no node uses; `None` if all chunks are used.
    /// `chunks` is the number of chunks.
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

    /// Returns the IDs of all nodes, parents before their children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        (0..count).map(NodeId)
    }

    /// Returns the IDs of all nodes in depth-first order.
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

    /// Returns the index of an element, given its node: the index in the last step of the node's
    /// path.
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

    /// Returns the index of the chunk to report in errors about a node's path: the first chunk at
    /// or below the node, in merge order; `None` if there is none.
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
