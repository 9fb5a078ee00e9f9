//! Measuring a message, or a part of one.

use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::arena::{Arena, ROOT};
use super::build::Finish;
use super::chunks::ChunkMap;
use super::node::SizeTree;
use super::options::TreeOptions;
use super::walk::walk;
use crate::Result;
use crate::merge::MergePlan;
use crate::path::{FieldPath, TargetKind};
use crate::view::MessageView;
use crate::wire::{Input, WireCursor};

/// Sizes by field path of the message, or the value, at a path. No value is read but what the
/// largest members are called by; of a chunked message, the chunks that others are spliced
/// into, and those that are messages.
///
/// # Errors
///
/// As [`MessageView::get`]; [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) with the path and offset if a message
/// breaks the wire format that the type knows as one.
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

/// What is measured: pieces of an input, and where in which message they are.
struct Target<'a> {
    pieces: &'a [Range<u64>],
    /// Whether it is a message at all, and its type.
    is_message: bool,
    message: Option<MessageDescriptor>,
    path: &'a FieldPath,
    whole: Option<&'a MessageDescriptor>,
    /// Where the chunks are, if there are any.
    plan: Option<&'a MergePlan>,
    /// How many messages deep it is walked.
    max_depth: u32,
}

/// Walks a part of a message.
fn walked<I: Input>(
    mut cursor: WireCursor<I>,
    target: &Target<'_>,
    options: &TreeOptions,
) -> Result<SizeTree> {
    let chunks = target.plan.map_or_else(ChunkMap::whole, ChunkMap::of);
    let message = target.message.clone();
    let mut arena = Arena::new(message, chunks, options.top, options.min_member_size);
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
    let finish = Finish {
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
