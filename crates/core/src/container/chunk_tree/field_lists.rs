//! The nested lists of chunked fields, and the merge order that they determine.

use super::{ChunkRef, ChunkTree, NodeId};
use crate::path::Select;
use crate::{Error, ErrorKind, Result};

/// A chunked field in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListEntry {
    pub(super) node: NodeId,
    /// Position of the field's chunk in the builder's list of chunks; `None` if the field has no
    /// chunk.
    pub(super) chunk: Option<u32>,
    /// Index in `FieldLists::starts` of the list of fields below this field; `None` if there is no
    /// such list.
    pub(super) below: Option<u32>,
}

/// All lists of fields in a `ChunkedMessage`, beginning with the root's. Each list is a range of
/// `entries`.
#[derive(Debug, Default)]
pub(super) struct FieldLists {
    pub(super) entries: Vec<ListEntry>,
    /// Start of each list in `entries`. A list ends at the start of the next list.
    pub(super) starts: Vec<u32>,
}

impl FieldLists {
    fn entries_of(&self, list: u32) -> &[ListEntry] {
        let bound = |list: usize| self.starts.get(list).map(|&at| at as usize);
        let start = bound(list as usize).unwrap_or(self.entries.len());
        let end = bound(list as usize + 1).unwrap_or(self.entries.len());
        &self.entries[start..end]
    }

    /// Returns the chunks in TensorFlow's merge order: each list is sorted by path, then by chunk,
    /// and each field is followed by the list below it.
    ///
    /// In a merge plan, the chunks at a path precede the chunks below the path, and the fields of a
    /// message are in ascending order. A list can contradict this order if its paths cross the
    /// paths of another list. No known splitter writes lists of this kind, so they are an error.
    pub(super) fn in_order(
        &self,
        tree: &ChunkTree,
        chunks: &[(NodeId, ChunkRef)],
    ) -> Result<Vec<(NodeId, ChunkRef)>> {
        let mut ranks = vec![0u32; tree.len()];
        for (rank, id) in (0u32..).zip(tree.ids_in_depth()) {
            ranks[id.index()] = rank;
        }
        let chunk_of = |entry: &ListEntry| entry.chunk.map(|at| chunks[at as usize].1);
        let sorted = |list: u32| {
            let mut entries = self.entries_of(list).to_vec();
            entries.sort_by_key(|entry| {
                let chunk = chunk_of(entry).map(|chunk| chunk.chunk);
                (ranks[entry.node.index()], chunk)
            });
            entries.into_iter()
        };
        let mut merged = Merged {
            tree,
            is_above: vec![false; tree.len()],
            latest: vec![0; tree.len()],
            chunks: Vec::with_capacity(chunks.len()),
        };
        // The base chunk needs no field: it belongs to the root message itself.
        if let Some(&(NodeId::ROOT, base)) = chunks.first()
            && !self.entries.iter().any(|entry| entry.chunk == Some(0))
        {
            merged.add(NodeId::ROOT, base)?;
        }
        let mut open = vec![sorted(0)];
        while let Some(list) = open.last_mut() {
            let Some(entry) = list.next() else {
                open.pop();
                continue;
            };
            if let Some(chunk) = chunk_of(&entry) {
                merged.add(entry.node, chunk)?;
            }
            open.extend(entry.below.map(sorted));
        }
        Ok(merged.chunks)
    }
}

struct Merged<'a> {
    tree: &'a ChunkTree,
    /// For each node, true if a chunk below the node was merged.
    is_above: Vec<bool>,
    /// For each node, the highest field number among its singular fields with merged chunks. A
    /// chunk of a field with a lower number must not follow: the last member of a oneof supersedes
    /// the others, so the order of the fields matters.
    latest: Vec<u32>,
    chunks: Vec<(NodeId, ChunkRef)>,
}

impl Merged<'_> {
    fn add(&mut self, node: NodeId, chunk: ChunkRef) -> Result<()> {
        let mut crosses = self.is_above[node.index()];
        let mut at = node;
        while let Some((above, step)) = self.tree.above(at) {
            self.is_above[above.index()] = true;
            if step.select == Select::Field {
                let latest = &mut self.latest[above.index()];
                crosses |= step.field.0 < *latest;
                *latest = step.field.0.max(*latest);
            }
            at = above;
        }
        if crosses {
            let message = "the paths of two lists of fields cross: this list is merged after \
                           fields that must follow it";
            let error = Error::new(ErrorKind::InvalidTrailer, message);
            return Err(error.at_path(self.tree.path(node)).in_chunk(chunk.chunk));
        }
        self.chunks.push((node, chunk));
        Ok(())
    }
}
