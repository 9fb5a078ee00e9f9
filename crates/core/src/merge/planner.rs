//! From the chunks and where they belong to the layout of the merged message.

use prost_reflect::MessageDescriptor;

use super::MergeOptions;
use super::plan::MergePlan;
use super::rope::{Part, Pos, Rope, UseId};
use super::schema::{self, NodeTypes};
use super::state::{self, LastFields, Occurrence, State, Wanted};
use super::store::{ChunkStore, damage_first};
use super::tree::{ChunkRef, NodeId, PathTree};
use super::walk::{Role, Runs, Walk};
use crate::container::ChunkKind;
use crate::wire::{Field, FieldNumber};
use crate::{Error, ErrorKind, Result};

/// What is known of the chunks besides their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) tree: &'a PathTree,
    pub(crate) kinds: &'a [ChunkKind],
    /// Placeholders were left.
    pub(crate) marked: bool,
}

/// Plans the merge of the chunks in `store`.
///
/// Every chunk that others are spliced into is read once, as a stream; of others at most the first
/// field is, or a value's text.
pub(crate) fn plan<S: ChunkStore + ?Sized>(
    store: &S,
    layout: Layout<'_>,
    options: &MergeOptions,
) -> Result<MergePlan> {
    planned(store, layout, options).map_err(|error| {
        let chunk = error.chunk().and_then(|chunk| usize::try_from(chunk).ok());
        match chunk {
            Some(chunk) => damage_first(store, chunk, error),
            None => error,
        }
    })
}

fn planned<S: ChunkStore + ?Sized>(
    store: &S,
    layout: Layout<'_>,
    options: &MergeOptions,
) -> Result<MergePlan> {
    let Layout {
        tree,
        kinds,
        marked,
    } = layout;
    let types = match &options.descriptor {
        Some(descriptor) if !marked => schema::resolve(tree, kinds, descriptor)?,
        _ => NodeTypes::default(),
    };
    let states = state::states(layout, &types)?;
    let mut rope = Rope::default();
    let root = rope.new_message();
    let mut planner = Planner {
        store,
        tree,
        kinds,
        marked,
        options,
        types,
        states,
        rope,
        slice_tail: None,
    };
    let home = Pos::start_of(root);
    planner.state(NodeId::ROOT).open(home.clone(), home);
    let mut open = vec![NodeId::ROOT];
    while let Some(node) = open.pop() {
        if marked {
            planner.complete_marked(node)?;
        } else {
            planner.complete_unmarked(node)?;
        }
        // Others need of it only whether it was there and what its paths wanted.
        planner.state(node).content = None;
        open.extend(tree.children(node).iter().rev());
    }
    let Planner { rope, states, .. } = planner;
    drop(states);
    let (segments, literals) = rope.lay_out(root)?;
    Ok(MergePlan::new(segments, literals, store.len()))
}

pub(super) struct Planner<'a, S: ?Sized> {
    pub(super) store: &'a S,
    pub(super) tree: &'a PathTree,
    pub(super) kinds: &'a [ChunkKind],
    pub(super) marked: bool,
    pub(super) options: &'a MergeOptions,
    pub(super) types: NodeTypes,
    pub(super) states: Vec<State>,
    pub(super) rope: Rope,
    /// The last field of the slice that was walked last.
    pub(super) slice_tail: Option<Occurrence>,
}

impl<'a, S: ChunkStore + ?Sized> Planner<'a, S> {
    pub(super) fn state(&mut self, node: NodeId) -> &mut State {
        &mut self.states[node.index()]
    }

    pub(super) fn chunks(&self, node: NodeId) -> &'a [ChunkRef] {
        self.tree.chunks(node)
    }

    pub(super) fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.options.descriptor.as_ref()
    }

    /// The path of a node as text.
    pub(super) fn show(&self, node: NodeId) -> String {
        self.tree.show(node, self.descriptor())
    }

    pub(super) fn fail<T>(
        &self,
        kind: ErrorKind,
        node: NodeId,
        message: impl Into<String>,
    ) -> Result<T> {
        Err(Error::new(kind, message).at_path(self.show(node)))
    }

    pub(super) fn use_whole(&mut self, chunk: usize) -> UseId {
        let size = self.store.size(chunk);
        self.rope.new_use(chunk, 0..size)
    }

    /// Makes a chunk the content of the node, at the end of what it has.
    pub(super) fn fill(
        &mut self,
        node: NodeId,
        chunk: usize,
        at: &Pos,
        walked: bool,
    ) -> Result<()> {
        let whole = self.use_whole(chunk);
        self.rope.insert(at, 0, Part::Splice(whole));
        if let Some(content) = &mut self.state(node).content
            && content.fields.is_empty()
        {
            content.begin = None;
        }
        if walked {
            self.walk(node, chunk, whole, Role::Content)?;
        }
        Ok(())
    }

    pub(super) fn walk(
        &mut self,
        node: NodeId,
        chunk: usize,
        whole: UseId,
        role: Role,
    ) -> Result<Runs> {
        Walk::run(self, node, chunk, whole, role)
    }

    /// A field of the message at `node` is met that, by the type, clears other members of its
    /// oneof.
    pub(super) fn end_others(&mut self, node: NodeId, field: &Field) {
        let children = self.tree.children(node);
        let met = (field.number.0, field.wire_type);
        for at in 0..self.states[node.index()].wants.len() {
            let want = &self.states[node.index()].wants[at];
            if let Wanted::Single = want.wanted
                && want.number != field.number.0
                && let [child] = *want.among(children)
                && self.types.of(child).oneof.contains(&met)
            {
                self.forget(child);
            }
        }
    }

    /// Forgets what was seen of a node and of all below it: something later has taken its place.
    ///
    /// Only its own empty pieces still count in a marked file: of two placeholders, none says which
    /// was cut.
    pub(super) fn forget(&mut self, forgotten: NodeId) {
        let tree = self.tree;
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
            }
            if !counts {
                state.empties = 0;
            }
            for want in &mut state.wants {
                want.count = 0;
                if let Wanted::Indexed(passed) = &mut want.wanted {
                    *passed = 0;
                }
            }
            open.extend(tree.children(node));
        }
    }

    /// A map entry's key was met that means one number as int32 or int64 and another as sint32 or
    /// sint64.
    pub(super) fn need_plain_keys(&self, node: NodeId, field: FieldNumber) -> Result<()> {
        if self.marked || self.options.assume_plain {
            return Ok(());
        }
        let mut children = self.tree.children(node).iter().copied();
        let child = children
            .find(|&child| self.tree.step(child).field == field)
            .unwrap_or(node);
        self.need_type(child, "how the map's keys are encoded")
    }

    /// Stops because only the message's type could tell.
    pub(super) fn need_type<T>(&self, node: NodeId, what: &str) -> Result<T> {
        let chunk = match self.tree.first_chunk(node) {
            Some(chunk) => format!("chunk {chunk} can't be put in"),
            None => "nothing can be put in".to_owned(),
        };
        let message = format!("{chunk} without the message's type, which says {what}");
        self.fail(ErrorKind::SchemaNeeded, node, message)
    }
}
