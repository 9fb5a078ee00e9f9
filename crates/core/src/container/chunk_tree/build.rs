//! Building a [`ChunkTree`] from the paths in a `ChunkedMessage`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::ops::Range;

use super::field_lists::{FieldLists, ListEntry};
use super::{ChunkRef, ChunkTree, Node, NodeId};
use crate::container::kind::ChunkKind;
use crate::container::limits::Limits;
use crate::path::{FieldPath, Step};
use crate::proto::{ChunkedField, ChunkedMessage};
use crate::wire::FieldNumber;
use crate::{Error, ErrorKind, Result};

/// Facts about a file that are needed to build a tree from its `ChunkedMessage`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkTreeOptions<'a> {
    /// Kind of each chunk, by index.
    pub(crate) kinds: &'a [ChunkKind],
    /// True if the file has placeholders.
    pub(crate) marked: bool,
    /// True if several BYTES chunks at one path are concatenated in list order, as join version 1
    /// allows.
    pub(crate) concatenates: bool,
    pub(crate) limits: &'a Limits,
}

/// A tree under construction. Its nodes have no ranges of chunks and children yet.
struct Builder<'a> {
    tree: ChunkTree,
    options: ChunkTreeOptions<'a>,
    /// Chunks with their nodes, in the order in which the `ChunkedMessage` lists the chunks.
    chunks: Vec<(NodeId, ChunkRef)>,
    /// The child with the greatest step of each node; `None` for a node without children. Writers
    /// usually list paths in ascending order, so most steps lead to this child or to a new one.
    last_children: Vec<Option<NodeId>>,
    hashes: RandomState,
    /// All nodes but the root, keyed by the hash of their parent and step or, after a collision, by
    /// the next free number; `None` while paths are in ascending order. A map keyed by steps would
    /// copy every step.
    by_hash: Option<HashMap<u64, NodeId, BuildHasherDefault<AsHash>>>,
    /// Nodes on the path of the previous field; the next path usually shares a prefix with it.
    way: Vec<NodeId>,
    /// The nested lists of chunked fields. Unused if placeholders determine where each chunk
    /// belongs.
    lists: FieldLists,
}

/// A hasher for values that are already hashes.
#[derive(Default)]
struct AsHash(u64);

impl Hasher for AsHash {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl ChunkTree {
    pub(crate) fn build(
        message: &ChunkedMessage,
        options: ChunkTreeOptions<'_>,
    ) -> Result<ChunkTree> {
        let root = Node {
            above: NodeId::ROOT,
            step: Step::field(0),
            depth: 0,
            chunks: 0..0,
            children: 0..0,
        };
        // Each tag of a path leads to at most one new node. The unused capacity is never touched.
        let tags = message
            .chunked_fields
            .iter()
            .map(|field| field.field_tag.len());
        let mut nodes = Vec::with_capacity(1 + tags.sum::<usize>());
        nodes.push(root);
        let mut builder = Builder {
            tree: ChunkTree {
                nodes,
                chunks: Vec::new(),
                children: Vec::new(),
            },
            options,
            chunks: Vec::new(),
            last_children: vec![None],
            hashes: RandomState::new(),
            by_hash: None,
            way: Vec::new(),
            lists: FieldLists::default(),
        };
        builder.add_all(message)?;
        let tree = builder.finish(message)?;
        tree.check(&options)?;
        Ok(tree)
    }

    fn check(&self, options: &ChunkTreeOptions<'_>) -> Result<()> {
        let mut used = vec![false; options.kinds.len()];
        for id in self.ids() {
            let chunks = self.chunks(id);
            let kind = |c: &ChunkRef| options.kinds[c.chunk];
            if let Some(value) = chunks.iter().find(|c| kind(c) == ChunkKind::Bytes) {
                let fail = |message: String| {
                    Err(invalid(message)
                        .at_path(self.path(id))
                        .in_chunk(value.chunk))
                };
                if id == NodeId::ROOT {
                    return fail("a BYTES chunk where the message itself belongs".into());
                }
                if !self.children(id).is_empty() {
                    return fail("a BYTES chunk with chunked fields below it".into());
                }
                if let Some(other) = chunks.iter().find(|c| kind(c) == ChunkKind::Message) {
                    return fail(format!(
                        "a BYTES chunk at the path of MESSAGE chunk {}",
                        other.chunk
                    ));
                }
                if chunks.len() > 1 && !options.concatenates {
                    let count = chunks.len();
                    return fail(format!(
                        "{count} BYTES chunks at one path, not allowed in join version 0"
                    ));
                }
            }
            for c in chunks {
                if c.packed && (!options.marked || kind(c) == ChunkKind::Bytes) {
                    let message = "a packed slice is only allowed in a file with placeholders";
                    return Err(invalid(message).at_path(self.path(id)).in_chunk(c.chunk));
                }
                let marked = options.marked && options.concatenates;
                if c.tail && (!marked || c.packed || kind(c) == ChunkKind::Bytes) {
                    let message = "a tail is only allowed for messages, in a file with placeholders of join version 1";
                    return Err(invalid(message).at_path(self.path(id)).in_chunk(c.chunk));
                }
                if c.within && !c.tail {
                    let message = "the chunk begins within a field, but is not a tail";
                    return Err(invalid(message).at_path(self.path(id)).in_chunk(c.chunk));
                }
                if std::mem::replace(&mut used[c.chunk], true) && options.marked {
                    let message = "the chunk is used in two places";
                    return Err(invalid(message).at_path(self.path(id)).in_chunk(c.chunk));
                }
            }
        }
        Ok(())
    }
}

impl Builder<'_> {
    fn add_all(&mut self, message: &ChunkedMessage) -> Result<()> {
        if let Some(index) = message.chunk_index {
            self.add_chunk(NodeId::ROOT, index, &ChunkedField::default())?;
        }
        // An explicit stack instead of recursion: a caller's `ChunkedMessage` may nest deeper than
        // a thread's stack allows.
        let mut open = vec![(NodeId::ROOT, message, 0, None)];
        while let Some((above, message, nesting, field)) = open.pop() {
            let most = self.options.limits.max_nesting;
            if nesting > most {
                let message = format!("chunked messages nest deeper than {most}");
                return Err(
                    Error::new(ErrorKind::LimitExceeded, message).at_path(self.tree.path(above))
                );
            }
            let list = index(self.lists.starts.len());
            if let Some(entry) = field.and_then(|at: usize| self.lists.entries.get_mut(at)) {
                entry.below = Some(list);
            }
            self.lists.starts.push(index(self.lists.entries.len()));
            for field in &message.chunked_fields {
                let chunks = self.chunks.len();
                let node = self.add_field(above, field)?;
                let at = self.lists.entries.len();
                if !self.options.marked {
                    self.lists.entries.push(ListEntry {
                        node,
                        chunk: (self.chunks.len() > chunks).then_some(index(chunks)),
                        below: None,
                    });
                }
                let nested = field.message.as_ref();
                if let Some(nested) = nested.filter(|nested| !nested.chunked_fields.is_empty()) {
                    open.push((node, nested, nesting + 1, Some(at)));
                }
            }
        }
        Ok(())
    }

    fn add_field(&mut self, above: NodeId, field: &ChunkedField) -> Result<NodeId> {
        let path = FieldPath::from_tags(&field.field_tag)
            .map_err(|error| error.at_path(self.tree.path(above)))?;
        let mut node = above;
        let mut way = std::mem::take(&mut self.way);
        for (at, step) in path.steps().iter().enumerate() {
            let same = way.get(at).filter(|&&known| {
                let known = self.tree.node(known);
                known.above == node && known.step == *step
            });
            node = match same {
                Some(&known) => known,
                None => {
                    way.truncate(at);
                    let child = self.child(node, step)?;
                    way.push(child);
                    child
                }
            };
        }
        self.way = way;
        let nested = field.message.as_ref();
        match nested.and_then(|message| message.chunk_index) {
            Some(index) => self.add_chunk(node, index, field)?,
            None if nested.is_none_or(|message| message.chunked_fields.is_empty()) => {
                let message = "a chunked field with neither a chunk nor fields below it";
                return Err(invalid(message).at_path(self.tree.path(node)));
            }
            None => {}
        }
        Ok(node)
    }

    /// Returns the child of `above` to which `step` leads. Adds it if it is new.
    fn child(&mut self, above: NodeId, step: &Step) -> Result<NodeId> {
        let last = self.last_children[above.index()];
        let order = last.map(|last| step.cmp(&self.tree.node(last).step));
        let known = match order {
            Some(Ordering::Equal) => last,
            Some(Ordering::Less) => self.known(above, step),
            Some(Ordering::Greater) | None => None,
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let nodes = &mut self.tree.nodes;
        let depth = nodes[above.index()].depth + 1;
        let most = self.options.limits.max_message_depth;
        let too_many = |message: String| Error::new(ErrorKind::LimitExceeded, message);
        if depth as usize > most {
            let message = format!("the path is longer than the maximum depth of {most} steps");
            return Err(too_many(message).at_path(self.tree.path(above)));
        }
        let Ok(id) = u32::try_from(nodes.len()).map(NodeId) else {
            return Err(too_many(format!("more than {} different paths", u32::MAX)));
        };
        nodes.push(Node {
            above,
            step: step.clone(),
            depth,
            chunks: 0..0,
            children: 0..0,
        });
        self.last_children.push(None);
        if order != Some(Ordering::Less) {
            self.last_children[above.index()] = Some(id);
        }
        if let Some(by_hash) = &mut self.by_hash {
            add(by_hash, &self.hashes, &self.tree, id);
        }
        Ok(id)
    }

    /// Returns the child of `above` to which `step` leads, if it was added before.
    fn known(&mut self, above: NodeId, step: &Step) -> Option<NodeId> {
        let by_hash = self.by_hash.get_or_insert_with(|| {
            let mut by_hash = HashMap::default();
            for id in self.tree.ids().skip(1) {
                add(&mut by_hash, &self.hashes, &self.tree, id);
            }
            by_hash
        });
        let mut hash = self.hashes.hash_one((above, step));
        while let Some(&known) = by_hash.get(&hash) {
            let node = self.tree.node(known);
            if node.above == above && node.step == *step {
                return Some(known);
            }
            hash = hash.wrapping_add(1);
        }
        None
    }

    fn add_chunk(&mut self, node: NodeId, index: u64, field: &ChunkedField) -> Result<()> {
        let count = self.options.kinds.len();
        match usize::try_from(index) {
            // A node's range of chunks has 32-bit bounds.
            Ok(chunk) if chunk < count && self.chunks.len() < u32::MAX as usize => {
                let said = (1..=FieldNumber::MAX.0).contains(&field.slice_of);
                let chunk = ChunkRef {
                    chunk,
                    packed: field.packed,
                    slice_of: said.then_some(FieldNumber(field.slice_of)),
                    elements: if said && !field.packed && self.options.marked {
                        field.elements
                    } else {
                        0
                    },
                    tail: field.tail,
                    within: field.within,
                };
                self.chunks.push((node, chunk));
                Ok(())
            }
            _ => {
                let message =
                    format!("chunk index {index} is out of range: there are {count} chunks");
                Err(invalid(message).at_path(self.tree.path(node)))
            }
        }
    }

    /// Builds the tree: gives every node its chunks in merge order, and its children in the order
    /// of their steps.
    fn finish(mut self, message: &ChunkedMessage) -> Result<ChunkTree> {
        self.by_hash = None;
        self.last_children = Vec::new();
        self.tree.nodes.shrink_to_fit();
        self.list_children();
        let by_lists = self.lists.starts.len() > 1 && !self.options.marked;
        if by_lists {
            self.chunks = self.lists.in_order(&self.tree, &self.chunks)?;
        }
        let ChunkTree { nodes, chunks, .. } = &mut self.tree;
        self.chunks.sort_by_key(|(node, _)| *node);
        chunks.reserve_exact(self.chunks.len());
        for at_node in self.chunks.chunk_by(|(a, _), (b, _)| a == b) {
            let start = chunks.len();
            chunks.extend(at_node.iter().map(|(_, chunk)| *chunk));
            let node = at_node[0].0;
            // The base chunk comes first, then the other chunks by index.
            let has_base = message.chunk_index.is_some();
            let first = usize::from(node == NodeId::ROOT && has_base);
            let sorted = &mut chunks[start + first..];
            let is_value = |c: &ChunkRef| self.options.kinds[c.chunk] == ChunkKind::Bytes;
            let is_sorted = by_lists || self.options.concatenates && sorted.iter().all(is_value);
            if !is_sorted {
                sorted.sort_by_key(|c| c.chunk);
            }
            nodes[node.index()].chunks = range(start, chunks.len());
        }
        Ok(self.tree)
    }

    fn list_children(&mut self) {
        let ChunkTree {
            nodes, children, ..
        } = &mut self.tree;
        // Children are counted first, so that each node's range is known.
        for at in 1..nodes.len() {
            let above = nodes[at].above;
            nodes[above.index()].children.end += 1;
        }
        let mut end = 0;
        for node in nodes.iter_mut() {
            let count = node.children.end;
            node.children = end..end;
            end += count;
        }
        children.resize(nodes.len() - 1, NodeId::ROOT);
        for at in 1..nodes.len() {
            let above = nodes[at].above;
            let siblings = &mut nodes[above.index()].children;
            children[siblings.end as usize] = NodeId(index(at));
            siblings.end += 1;
        }
        for Range { start, end } in nodes.iter().map(|node| node.children.clone()) {
            let siblings = &mut children[start as usize..end as usize];
            siblings.sort_unstable_by(|a, b| nodes[a.index()].step.cmp(&nodes[b.index()].step));
        }
    }
}

/// Adds a node to a map of nodes by hash.
fn add(
    by_hash: &mut HashMap<u64, NodeId, BuildHasherDefault<AsHash>>,
    hashes: &RandomState,
    tree: &ChunkTree,
    id: NodeId,
) {
    let node = tree.node(id);
    let mut hash = hashes.hash_one((node.above, &node.step));
    while by_hash.contains_key(&hash) {
        hash = hash.wrapping_add(1);
    }
    by_hash.insert(hash, id);
}

/// Converts an index to 32 bits. Every index fits, since the numbers of nodes and chunks were
/// checked.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn range(start: usize, end: usize) -> std::ops::Range<u32> {
    index(start)..index(end)
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidTrailer, message)
}
