//! The decisions that splitters have made about a message so far.

use bytes::Bytes;

use super::cuts::Cuts;
use super::size_requests::SizeRequests;
use super::slice_requests::Slices;
use super::split_plan::{Content, PlannedChunk};
use crate::container::ChunkKind;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;

/// A chunk whose bytes come from a splitter rather than from the source; see
/// [`SplitContext::add_chunk`](crate::split::SplitContext::add_chunk).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AddedChunk {
    /// A serialized message to merge into the value at the chunk's path.
    Message(Bytes),
    /// The value of the bytes or string field at the chunk's path.
    Bytes(Bytes),
}

/// An added chunk, and its index among all chunks. With the index `None`, the chunk is added at the
/// end.
#[derive(Debug)]
pub(in crate::split) struct Added {
    pub(in crate::split) chunk: PlannedChunk,
    pub(in crate::split) index: Option<usize>,
}

impl Added {
    /// Divides a value of more than `most` bytes into several consecutive chunks.
    pub(in crate::split) fn pieces(self, most: Option<u64>) -> Vec<Added> {
        let Added { chunk, index } = self;
        let most = most.and_then(|most| usize::try_from(most).ok());
        let (Content::Added(bytes), ChunkKind::Bytes, Some(most)) =
            (&chunk.content, chunk.kind(), most)
        else {
            return vec![Added { chunk, index }];
        };
        let count = bytes.len().div_ceil(most).max(1);
        let piece = |at: usize| {
            let piece = bytes.slice(at * most..bytes.len().min((at + 1) * most));
            Added {
                index: index.map(|index| index.saturating_add(at)),
                chunk: PlannedChunk {
                    size: piece.len() as u64,
                    content: Content::Added(piece),
                    ..chunk.clone()
                },
            }
        };
        (0..count).map(piece).collect()
    }

    /// Inserts the chunk into `chunks` at its index, but not before the index `first`.
    pub(in crate::split) fn insert_into(self, chunks: &mut Vec<PlannedChunk>, first: usize) {
        let last = chunks.len();
        let place = self.index.unwrap_or(last).clamp(first, last);
        if place < last {
            let parents = chunks.iter_mut().filter_map(|chunk| chunk.parent.as_mut());
            parents
                .filter(|parent| **parent >= place)
                .for_each(|parent| *parent += 1);
        }
        chunks.insert(place, self.chunk);
    }
}

/// The state that all splitters for one message share.
#[derive(Debug)]
pub(in crate::split) struct Decisions {
    pub(in crate::split) source: Source,
    pub(in crate::split) options: SplitOptions,
    pub(in crate::split) marks: Cuts,
    pub(in crate::split) fits: SizeRequests,
    pub(in crate::split) slices: Slices,
    pub(in crate::split) added: Vec<Added>,
    /// True if the remainder of the message, after all cuts, is also a chunk.
    pub(in crate::split) has_base: bool,
}
