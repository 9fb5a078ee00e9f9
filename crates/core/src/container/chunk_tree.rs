//! Where chunks belong: every path of a `ChunkedMessage`, nested ones made absolute, as one tree.

mod build;
mod order;
mod prune;

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use crate::path::{FieldPath, Select, Step};
use crate::wire::FieldNumber;

pub(crate) use build::TreeOptions;

/// A place in the message that a path names, or that lies on the way to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The message itself.
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A chunk that belongs at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) chunk: usize,
    /// Whether it continues a packed run.
    pub(crate) packed: bool,
    /// The field whose elements it holds, if it is a slice and the trailer says so.
    pub(crate) slice_of: Option<FieldNumber>,
    /// How many those are, if the trailer says it, too; else 0.
    pub(crate) elements: u64,
    /// Whether it goes on where its message ends, whatever fields are in it.
    pub(crate) tail: bool,
    /// Whether it begins within a field of the chunk before it.
    pub(crate) within: bool,
}

#[derive(Debug)]
struct Node {
    /// The root's own step, and what it is above, mean nothing.
    above: NodeId,
    step: Step,
    depth: u32,
    /// Which of the tree's `chunks` and `children` are the node's.
    chunks: Range<u32>,
    children: Range<u32>,
}

/// All places that chunks belong at. Node ids ascend from parents to children.
///
/// There may be a million of them, so they share three lists instead of having lists and maps of
/// their own.
#[derive(Debug)]
pub(crate) struct ChunkTree {
    nodes: Vec<Node>,
    chunks: Vec<ChunkRef>,
    children: Vec<NodeId>,
}

impl ChunkTree {
    /// The first chunk that belongs nowhere.
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

    /// All nodes, parents before their children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        (0..count).map(NodeId)
    }

    /// All nodes, each before what is below it, and that before the next beside it.
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

    /// The node above, and the step from there; the root has none.
    pub(crate) fn above(&self, id: NodeId) -> Option<(NodeId, &Step)> {
        let node = self.node(id);
        (id != NodeId::ROOT).then_some((node.above, &node.step))
    }

    /// The step that leads to a node from the one above. Only the root's means nothing.
    pub(crate) fn step(&self, id: NodeId) -> &Step {
        &self.node(id).step
    }

    /// The index that leads to a node, for one that an index leads to.
    pub(crate) fn index(&self, id: NodeId) -> u64 {
        match self.step(id).select {
            Select::Index(index) => index,
            _ => u64::MAX,
        }
    }

    /// The chunks at a node, in the order in which they are merged.
    pub(crate) fn chunks(&self, id: NodeId) -> &[ChunkRef] {
        of(&self.chunks, &self.node(id).chunks)
    }

    /// The nodes right below a node, by their steps, ascending.
    pub(crate) fn children(&self, id: NodeId) -> &[NodeId] {
        of(&self.children, &self.node(id).children)
    }

    /// The absolute path of a node.
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

    /// The path as text, with names if the type is known.
    pub(crate) fn show(&self, id: NodeId, root: Option<&MessageDescriptor>) -> String {
        self.path(id).display(root)
    }

    /// The first chunk at or below a node, in merge order: what an error about the way there is
    /// about.
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
