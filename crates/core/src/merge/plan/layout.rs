//! The input for planning a merge: each chunk's place in the message, and its kind.

use crate::container::{ChunkKind, ChunkTree, Trailer};

/// A description of a message's chunks, without their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) tree: &'a ChunkTree,
    pub(crate) kinds: &'a [ChunkKind],
    /// True if the file has a placeholder for each value that was cut.
    pub(crate) marked: bool,
}

impl<'a> Layout<'a> {
    /// Returns the layout of a trailer's chunks, with all of their places.
    pub(crate) fn of(trailer: &'a Trailer) -> Layout<'a> {
        Layout::within(trailer, trailer.chunk_tree())
    }

    /// Returns the layout of a trailer's chunks, with only the places in `tree`.
    pub(crate) fn within(trailer: &'a Trailer, tree: &'a ChunkTree) -> Layout<'a> {
        Layout {
            tree,
            kinds: trailer.kinds(),
            marked: trailer.is_marked(),
        }
    }
}
