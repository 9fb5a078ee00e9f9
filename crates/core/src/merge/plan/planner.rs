//! The planner's state: the chunks, the state of every node, and the segments so far.

use prost_reflect::MessageDescriptor;

use super::node_state::{LastFields, NodeState, Occurrence};
use super::node_types::NodeTypes;
use super::segment_list::{SegmentList, UseId};
use super::states::States;
use crate::container::{ChunkKind, ChunkRef, ChunkTree, NodeId};
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read_options::ReadOptions;
use crate::wire::{Field, FieldNumber};
use crate::{Error, ErrorKind, Result};

/// The state of planning a merge: the chunks, the state of every node, and the segments so far.
pub(in crate::merge) struct Planner<'a, S: ?Sized> {
    pub(in crate::merge) store: &'a S,
    pub(in crate::merge) tree: &'a ChunkTree,
    pub(in crate::merge) kinds: &'a [ChunkKind],
    pub(in crate::merge) marked: bool,
    pub(in crate::merge) options: &'a ReadOptions,
    pub(in crate::merge) types: NodeTypes,
    pub(in crate::merge) states: States,
    pub(in crate::merge) segments: SegmentList,
    /// The last field of the most recently parsed slice.
    pub(in crate::merge) slice_tail: Option<Occurrence>,
}

impl<'a, S: ChunkStore + ?Sized> Planner<'a, S> {
    pub(in crate::merge) fn state(&mut self, node: NodeId) -> &mut NodeState {
        &mut self.states[node]
    }

    pub(in crate::merge) fn chunks(&self, node: NodeId) -> &'a [ChunkRef] {
        self.tree.chunks(node)
    }

    pub(in crate::merge) fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.options.descriptor.as_ref()
    }

    /// Formats the path of a node as text.
    pub(in crate::merge) fn show(&self, node: NodeId) -> String {
        self.tree.show(node, self.descriptor())
    }

    pub(in crate::merge) fn fail<T>(
        &self,
        kind: ErrorKind,
        node: NodeId,
        message: impl Into<String>,
    ) -> Result<T> {
        Err(Error::new(kind, message).at_path(self.show(node)))
    }

    pub(in crate::merge) fn use_whole(&mut self, chunk: usize) -> UseId {
        let size = self.store.size(chunk);
        self.segments.new_use(chunk, 0..size)
    }

    /// Resets the state of the oneof member that `field` clears. `field` is in the message at
    /// `node`, and the type of this message determines the oneofs.
    pub(in crate::merge) fn end_other(&mut self, node: NodeId, field: &Field) {
        let number = field.number.0;
        if let Some(content) = &mut self.states[node].content
            && let Some(oneofs) = &content.oneofs
            && let Some((oneof, wire)) = oneofs.of(number)
            && wire == field.wire_type
            && let Some(last) = content.last_members.insert(oneof, number)
            && last != number
        {
            self.end_member(node, last);
        }
    }

    /// Resets the state of the member of a oneof with this number, if a path leads to it.
    pub(in crate::merge) fn end_member(&mut self, node: NodeId, number: u32) {
        let want = self.states.field(node, FieldNumber(number));
        if let Some(&[child]) = want.map(|want| want.among(self.tree.children(node))) {
            self.forget(child);
        }
    }

    /// Resets the state of a node and all nodes below it, since a later value replaces the values
    /// found before.
    ///
    /// In a marked file, the number of the node's empty pieces is kept. Each of them may be the
    /// placeholder of a chunk, so more than one is an error, even if a later value replaced the
    /// first.
    pub(in crate::merge) fn forget(&mut self, forgotten: NodeId) {
        let mut open = vec![forgotten];
        while let Some(node) = open.pop() {
            let counts = self.marked && node == forgotten;
            let state = self.state(node);
            if !state.is_present() && state.entry.is_none() {
                continue;
            }
            state.last = None;
            state.entry = None;
            if let Some(content) = &mut state.content {
                content.begin = None;
                content.end = None;
                content.fields = LastFields::default();
                content.last_members.clear();
            }
            if !counts {
                state.empties = 0;
            }
            self.states.take_found(node, &mut open);
        }
    }

    /// Fails if the merge needs the type to interpret a map entry's key, because the key would be a
    /// different number as int32 or int64 than as sint32 or sint64.
    pub(in crate::merge) fn need_plain_keys(&self, node: NodeId, field: FieldNumber) -> Result<()> {
        if self.marked || self.options.assume_plain {
            return Ok(());
        }
        let mut children = self.tree.children(node).iter().copied();
        let child = children
            .find(|&child| self.tree.step(child).field == field)
            .unwrap_or(node);
        self.need_type(child, "how the map's keys are encoded")
    }

    /// Returns the error for a chunk that can't be merged at a node without the message's type.
    /// `what` is the missing information, which the type determines.
    pub(in crate::merge) fn need_type<T>(&self, node: NodeId, what: &str) -> Result<T> {
        let chunk = match self.tree.first_chunk(node) {
            Some(chunk) => format!("chunk {chunk} can't be put in"),
            None => "nothing can be put in".to_owned(),
        };
        let message = format!("{chunk} without the message's type, which says {what}");
        self.fail(ErrorKind::SchemaNeeded, node, message)
    }
}
