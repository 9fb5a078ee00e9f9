//! The planning states of all nodes, and of the fields that paths lead into.

use std::mem::{self, discriminant};
use std::ops::{Index, IndexMut, Range};

use super::layout::Layout;
use super::map_keys::MapKeys;
use super::node_state::{Content, NodeState};
use super::node_types::NodeTypes;
use crate::container::{ChunkKind, ChunkTree, NodeId};
use crate::path::Select;
use crate::wire::{FieldNumber, WireType};
use crate::{Error, ErrorKind, Result};

/// Those values of one field to which paths lead: a single value, elements by index, or map values
/// by key.
#[derive(Debug)]
pub(in crate::merge) enum TargetValues {
    Single,
    /// Elements of a repeated field, in ascending order of their indices. The number counts those
    /// that have been found.
    Indexed(usize),
    Keyed(MapKeys),
}

/// A field that paths lead into.
#[derive(Debug)]
pub(in crate::merge) struct TargetField {
    pub(in crate::merge) number: u32,
    /// Range, in the list of the parent node's children, of the nodes that paths reach through this
    /// field.
    children: Range<u32>,
    pub(in crate::merge) wanted: TargetValues,
    /// Wire type of the elements found so far; `None` if none was found.
    pub(in crate::merge) wire: Option<WireType>,
    /// Number of elements found so far.
    pub(in crate::merge) count: u64,
    /// True if this field is in the list of those found in its message.
    is_listed: bool,
    /// Index of the next field in that list.
    next_listed: Option<u32>,
}

impl TargetField {
    /// Returns the part of `children` that paths reach through this field. `children` are the child
    /// nodes of the message that contains the field.
    pub(in crate::merge) fn among<'a>(&self, children: &'a [NodeId]) -> &'a [NodeId] {
        &children[self.children.start as usize..self.children.end as usize]
    }
}

/// The states of all nodes, by [`NodeId`].
///
/// Each message has two lists: of the fields and of the children that were found since its state
/// was last reset. A reset visits only these: a message can be reset once for each of its
/// occurrences, and paths can lead to many parts that none of the occurrences contains. The lists
/// are linked, and the fields of all messages are in one vector, since an allocation for each of
/// millions of nodes would take most of the planning time.
#[derive(Debug)]
pub(in crate::merge) struct States {
    nodes: Vec<NodeState>,
    fields: Vec<TargetField>,
}

impl States {
    /// Creates the states of all nodes, each with the fields that lead to its children.
    pub(in crate::merge) fn new(layout: Layout<'_>, types: &mut NodeTypes) -> Result<Self> {
        let Layout { tree, kinds, .. } = layout;
        let mut nodes = Vec::with_capacity(tree.len());
        // Most nodes but the last on a path have one such field.
        let mut fields = Vec::with_capacity(tree.len());
        for id in tree.ids() {
            let chunks = tree.chunks(id);
            let children = tree.children(id);
            let spliced = chunks.iter().any(|c| kinds[c.chunk] == ChunkKind::Message);
            // Nothing is inserted into scalar values. In marked files, only slices are inserted
            // among fields, since placeholders determine the places of all other chunks.
            let filled = spliced || (!layout.marked && !children.is_empty());
            let has_oneofs = children.iter().any(|&id| types.of(id).in_oneof);
            let content = (filled || id == NodeId::ROOT).then(|| {
                Box::new(Content {
                    oneofs: has_oneofs.then(|| types.oneofs(id)).flatten(),
                    ..Content::default()
                })
            });
            let start = index(fields.len());
            add_fields(&mut fields, tree, children, types)?;
            nodes.push(NodeState {
                fields_below: start..index(fields.len()),
                content,
                ..NodeState::default()
            });
        }
        Ok(States { nodes, fields })
    }

    /// Returns the index of a field of the message at `node` that paths lead into.
    fn position(&self, node: NodeId, number: FieldNumber) -> Option<usize> {
        let range = &self[node].fields_below;
        let fields = self.fields.get(range.start as usize..range.end as usize)?;
        let at = fields.binary_search_by_key(&number.0, |field| field.number);
        Some(range.start as usize + at.ok()?)
    }

    /// Returns a field of the message at `node`, if paths lead into the field.
    pub(in crate::merge) fn field(
        &self,
        node: NodeId,
        number: FieldNumber,
    ) -> Option<&TargetField> {
        self.fields.get(self.position(node, number)?)
    }

    /// Returns a field that was found in the message at `node`, if paths lead into the field.
    pub(in crate::merge) fn found_field(
        &mut self,
        node: NodeId,
        number: FieldNumber,
    ) -> Option<&mut TargetField> {
        let at = self.position(node, number)?;
        let field = &mut self.fields[at];
        if !mem::replace(&mut field.is_listed, true) {
            let listed = &mut self.nodes[node.index()].listed_field;
            field.next_listed = listed.replace(index(at));
        }
        Some(field)
    }

    /// Adds `child` to the list of those children of `node` of which a piece or a map entry was
    /// found.
    #[inline]
    pub(in crate::merge) fn list(&mut self, node: NodeId, child: NodeId) {
        if !mem::replace(&mut self[child].is_listed, true) {
            let next = self[node].listed_child.replace(child);
            self[child].next_listed = next;
        }
    }

    /// Resets the fields that were found in the message at `node`, and moves its children to
    /// `children`: those of which a piece or a map entry was found.
    pub(in crate::merge) fn take_found(&mut self, node: NodeId, children: &mut Vec<NodeId>) {
        let mut next = self[node].listed_field.take();
        while let Some(at) = next {
            let field = &mut self.fields[at as usize];
            field.is_listed = false;
            field.count = 0;
            if let TargetValues::Indexed(passed) = &mut field.wanted {
                *passed = 0;
            }
            next = field.next_listed.take();
        }
        let mut next = self[node].listed_child.take();
        while let Some(child) = next {
            children.push(child);
            let child = &mut self[child];
            child.is_listed = false;
            next = child.next_listed.take();
        }
    }
}

impl Index<NodeId> for States {
    type Output = NodeState;

    fn index(&self, node: NodeId) -> &NodeState {
        &self.nodes[node.index()]
    }
}

impl IndexMut<NodeId> for States {
    fn index_mut(&mut self, node: NodeId) -> &mut NodeState {
        &mut self.nodes[node.index()]
    }
}

/// Converts an index to 32 bits. Every index fits, since the tree counts its nodes with 32 bits,
/// and each field leads to at least one.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Adds the fields through which a node's children are reached.
fn add_fields(
    fields: &mut Vec<TargetField>,
    tree: &ChunkTree,
    children: &[NodeId],
    types: &NodeTypes,
) -> Result<()> {
    let mut start = 0;
    for same_field in children.chunk_by(|&a, &b| tree.step(a).field == tree.step(b).field) {
        let first = &tree.step(same_field[0]).select;
        for &child in same_field {
            let message = match (first, &tree.step(child).select) {
                (Select::Key(a), Select::Key(b)) if discriminant(a) != discriminant(b) => {
                    "keys of different types on one map"
                }
                (a, b) if discriminant(a) != discriminant(b) => {
                    "paths with and without an index, or with indices and keys, into one field"
                }
                _ => continue,
            };
            return Err(Error::new(ErrorKind::InvalidTrailer, message).at_path(tree.path(child)));
        }
        let wanted = match first {
            Select::Field => TargetValues::Single,
            Select::Index(_) => TargetValues::Indexed(0),
            Select::Key(key) => TargetValues::Keyed(MapKeys::new(key, types.of(same_field[0]).key)),
        };
        let end = start + index(same_field.len());
        fields.push(TargetField {
            number: tree.step(same_field[0]).field.0,
            children: start..end,
            wanted,
            wire: None,
            count: 0,
            is_listed: false,
            next_listed: None,
        });
        start = end;
    }
    Ok(())
}
