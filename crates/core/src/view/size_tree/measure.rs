//! Measuring a message, or a part of one.

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::arena::{Arena, ROOT};
use super::build::TreeBuilder;
use super::chunks::ChunkMap;
use super::node::SizeTree;
use super::options::TreeOptions;
use super::walk::walk;
use crate::Result;
use crate::merge::MergePlan;
use crate::path::{FieldPath, TargetKind};
use crate::view::MessageView;
use crate::wire::{Input, WireCursor};

/// Measures the message or value at a path, and returns the sizes by field path. Reads only tags
/// and lengths, and the names of the largest members. In a chunked message, reads only the chunks
/// that are messages, and the chunks into which other chunks are spliced.
///
/// # Errors
///
/// The errors of [`MessageView::get`];
/// [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) with the path and offset if a
/// value that is a message according to its type breaks the wire format.
pub fn measure(
    view: &MessageView<'_>,
    path: &FieldPath,
    options: &TreeOptions,
) -> Result<SizeTree> {
    let (mut portion, pieces) = view.find_some(path)?;
    let bytes: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    let _span = tracing::debug_span!("tree", bytes).entered();
    let kind = view.kind(path)?;
    let message = kind.as_ref().and_then(TargetKind::message).cloned();
    let plan = portion.plan_of_chunks().cloned();
    let target = Target {
        pieces: &pieces,
        is_message: kind.is_none() || message.is_some(),
        message,
        path,
        whole: view.descriptor(),
        plan: plan.as_ref(),
        max_depth: view.walked_depth(),
    };
    walked(WireCursor::new(&mut portion), &target, options)
        .map_err(|error| portion.damage_first(error))
}

/// The value to measure: its ranges in an input, and its path in the whole message.
struct Target<'a> {
    pieces: &'a [Range<u64>],
    /// True if the value is a message. `message` is the message's type, or `None` if the type is
    /// unknown.
    is_message: bool,
    message: Option<MessageDescriptor>,
    path: &'a FieldPath,
    whole: Option<&'a MessageDescriptor>,
    /// The merge plan; `None` if the message isn't chunked.
    plan: Option<&'a MergePlan>,
    /// Maximum depth of the traversal, in nested messages.
    max_depth: u32,
}

/// Traverses the value to measure, and returns its size tree.
fn walked<I: Input>(
    mut cursor: WireCursor<I>,
    target: &Target<'_>,
    options: &TreeOptions,
) -> Result<SizeTree> {
    let chunks = target.plan.map_or_else(ChunkMap::whole, ChunkMap::of);
    let message = target.message.clone();
    let mut arena = Arena::new(message, chunks, options);
    for piece in target.pieces {
        arena.node(ROOT).total += piece.end - piece.start;
        if target.plan.is_some() {
            arena.touch(ROOT, piece.start, piece.end);
        }
    }
    arena.node(ROOT).count = 1;
    if target.is_message {
        walk(&mut cursor, &mut arena, target.pieces, target.max_depth)?;
    }
    let finish = TreeBuilder {
        cursor,
        arena,
        rules: &options.names,
        prefix: target.path,
        whole: target.whole,
        wanted: Vec::new(),
    };
    let root = finish.tree(&target.path.display(target.whole))?;
    Ok(SizeTree { root })
}
