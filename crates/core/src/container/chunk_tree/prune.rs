//! Reducing a tree to the chunks that one path needs.

use std::mem::discriminant;

use super::{ChunkRef, ChunkTree, Node, NodeId};
use prost_reflect::MessageDescriptor;

use crate::path::{FieldPath, FieldRef, Step, message_below};
use crate::{Error, ErrorKind, Result};

/// The relation of a node to the requested path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    No,
    /// A prefix of the path, with the given number of steps.
    Way(usize),
    /// The end of the path, or a node below the end.
    Inside,
}

fn way(path: &[Step], steps: usize) -> Kept {
    if steps == path.len() {
        Kept::Inside
    } else {
        Kept::Way(steps)
    }
}

impl ChunkTree {
    /// Returns true if a chunk may clear the value at a path in a message of type `root`, by
    /// setting another member of a oneof on the path.
    pub(crate) fn may_end(&self, path: &FieldPath, root: &MessageDescriptor) -> bool {
        let (mut node, mut message) = (NodeId::ROOT, Some(root.clone()));
        for wanted in path.steps() {
            let field = message
                .as_ref()
                .and_then(|message| FieldRef::by_number(message, wanted.field.0));
            let steps = self.children(node).iter().map(|&child| self.step(child));
            if let Some(oneof) = field.as_ref().and_then(FieldRef::oneof)
                && !oneof.is_synthetic()
                && let numbers = oneof.fields().map(|member| member.number())
                && let numbers = numbers.collect::<Vec<_>>()
                && steps
                    .filter(|step| step.field != wanted.field)
                    .any(|step| numbers.contains(&step.field.0))
            {
                return true;
            }
            let mut children = self.children(node).iter();
            let Some(&next) = children.find(|&&child| self.step(child) == wanted) else {
                return false;
            };
            node = next;
            message = field.as_ref().and_then(message_below);
        }
        false
    }

    /// Returns the tree that a merge of the value at a path needs: the chunks along the path, at
    /// its end and below its end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if a step of the path has no index or key where the file's paths
    /// have one, or the reverse.
    pub(crate) fn pruned(&self, path: &FieldPath) -> Result<ChunkTree> {
        let mut kept = Vec::with_capacity(self.len());
        for id in self.ids() {
            kept.push(match self.above(id) {
                None => way(path.steps(), 0),
                Some((above, step)) => match kept[above.index()] {
                    Kept::Way(steps) => match path.steps().get(steps) {
                        Some(wanted) if wanted == step => way(path.steps(), steps + 1),
                        Some(wanted) => {
                            differ(wanted, step).map_err(|error| error.at_path(path))?
                        }
                        None => Kept::No,
                    },
                    other => other,
                },
            });
        }
        // A node that no longer leads to a chunk isn't needed.
        let mut needed = vec![false; self.len()];
        for id in self.ids().collect::<Vec<_>>().into_iter().rev() {
            let at = id.index();
            needed[at] |= kept[at] != Kept::No && !self.chunks(id).is_empty();
            if let (true, Some((above, _))) = (needed[at], self.above(id)) {
                needed[above.index()] = true;
            }
        }
        needed[0] = true;
        Ok(self.only(&needed))
    }

    /// Returns a copy of the tree with only the nodes for which `needed` contains true. The parent
    /// of each of these nodes must be needed, too.
    fn only(&self, needed: &[bool]) -> ChunkTree {
        let mut ids = Vec::with_capacity(needed.len());
        let mut next = 0;
        for &needed in needed {
            ids.push(NodeId(next));
            next += u32::from(needed);
        }
        let (mut nodes, mut chunks, mut children) = (Vec::new(), Vec::new(), Vec::new());
        for id in self.ids().filter(|id| needed[id.index()]) {
            let old = self.node(id);
            let first_chunk = len(&chunks);
            chunks.extend_from_slice(self.chunks(id));
            let first_child = len(&children);
            let below = self.children(id).iter().filter(|id| needed[id.index()]);
            children.extend(below.map(|id| ids[id.index()]));
            nodes.push(Node {
                above: ids[old.above.index()],
                step: old.step.clone(),
                depth: old.depth,
                chunks: first_chunk..len::<ChunkRef>(&chunks),
                children: first_child..len(&children),
            });
        }
        ChunkTree {
            nodes,
            chunks,
            children,
        }
    }
}

/// Converts the length of a list to 32 bits. No list of the pruned tree is longer than the same
/// list of the whole tree, whose length fits in 32 bits.
fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn differ(wanted: &Step, step: &Step) -> Result<Kept> {
    if wanted.field == step.field && discriminant(&wanted.select) != discriminant(&step.select) {
        let message = format!(
            "chunks of the file are at {} of this field: add the index or key to the path",
            FieldPath::from_iter([step.clone()])
        );
        return Err(Error::new(ErrorKind::InvalidPath, message));
    }
    Ok(Kept::No)
}
