//! What a plan is made of: where chunks belong, and their kinds.

use crate::container::{ChunkKind, ChunkTree, Trailer};

/// What is known of the chunks besides their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) tree: &'a ChunkTree,
    pub(crate) kinds: &'a [ChunkKind],
    /// Placeholders were left.
    pub(crate) marked: bool,
}

impl<'a> Layout<'a> {
    /// The chunks of a trailer, at all of their places.
    pub(crate) fn of(trailer: &'a Trailer) -> Layout<'a> {
        Layout::within(trailer, trailer.chunk_tree())
    }

    /// The chunks of a trailer, at these of their places.
    pub(crate) fn within(trailer: &'a Trailer, tree: &'a ChunkTree) -> Layout<'a> {
        Layout {
            tree,
            kinds: trailer.kinds(),
            marked: trailer.is_marked(),
        }
    }
}
