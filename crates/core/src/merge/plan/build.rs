//! Planning the layout of the merged message from its chunks and their places.

use super::layout::Layout;
use super::merge_plan::MergePlan;
use super::node_types;
use super::node_types::NodeTypes;
use super::planner::Planner;
use super::segment_list::{Pos, SegmentList};
use super::states::States;
use crate::container::{LayoutReader, NodeId, Run, Trailer};
use crate::merge::read::chunk_store::{ChunkStore, damage_first};
use crate::merge::read_options::ReadOptions;
use crate::path::FieldPath;
use crate::spans::{SourceId, SpanList};
use crate::{Error, ErrorKind, Result};

/// Plans the merge of the chunks that a trailer describes.
///
/// # Errors
///
/// If a chunk that other chunks are spliced into can't be read, or isn't a message with places for
/// those chunks; [`ErrorKind::SchemaNeeded`] if the merge depends on the message's type.
pub fn plan<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    chunks: &S,
    options: &ReadOptions,
) -> Result<MergePlan> {
    if trailer.is_whole() {
        // The sizes are checked before any chunk is parsed, since parsing takes time proportional
        // to the size.
        let sizes = (0..chunks.len()).map(|chunk| chunks.size(chunk));
        let bytes = sizes.fold(0, u64::saturating_add);
        let stored = chunks.stored_len();
        options.limits.check_merged_size(bytes, stored)?;
    }
    if let Some(layout) = trailer.source_layout() {
        return plan_by_source(layout, chunks, options);
    }
    plan_layout(chunks, Layout::of(trailer), options)
}

/// Plans the merge from a trailer's source layout, which lists the literal bytes and chunk ranges
/// of the message in order.
fn plan_by_source<S: ChunkStore + ?Sized>(
    layout: &[u8],
    store: &S,
    options: &ReadOptions,
) -> Result<MergePlan> {
    let most = options.limits.max_trailer_memory;
    let mut runs = LayoutReader::new(layout, store.len(), most);
    let mut spans = SpanList::new();
    while let Some(run) = runs.next(|chunk| store.size(chunk))? {
        match run {
            Run::Literal(bytes) => spans.push_literal(bytes),
            Run::Chunk { chunk, range } => spans.push_span(SourceId::new(chunk)?, range),
        }
        if spans.len() == u64::MAX {
            let message = "the source layout has more bytes than can be counted";
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    let limits = &options.limits;
    limits.check_merged_size(spans.len(), store.stored_len())?;
    Ok(MergePlan::new(spans, store.len()))
}

/// Plans a merge of only the chunks that are needed for the value at `path`. In the merged message,
/// only this value is guaranteed to be correct.
pub(crate) fn plan_part<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    chunks: &S,
    path: &FieldPath,
    options: &ReadOptions,
) -> Result<MergePlan> {
    if path.is_root() {
        return plan_layout(chunks, Layout::of(trailer), options);
    }
    let tree = trailer.chunk_tree().pruned(path)?;
    plan_layout(chunks, Layout::within(trailer, &tree), options)
}

/// Plans the merge of the chunks in `store`.
///
/// Reads once, as a stream, every chunk that other chunks are spliced into. From any other chunk,
/// reads at most the first field or a value's text.
fn plan_layout<S: ChunkStore + ?Sized>(
    store: &S,
    layout: Layout<'_>,
    options: &ReadOptions,
) -> Result<MergePlan> {
    let (chunks, expected) = (store.len(), layout.kinds.len());
    if chunks != expected {
        let message = format!("{chunks} chunks, where the trailer has {expected}");
        return Err(Error::new(ErrorKind::InvalidTrailer, message));
    }
    let sizes = (0..chunks).map(|chunk| store.size(chunk));
    let bytes = sizes.fold(0, u64::saturating_add);
    let _span = tracing::debug_span!("plan", chunks, bytes).entered();
    // The total size is checked before any chunk is parsed. A chunk counts once for each place that
    // names it.
    let named = layout.tree.ids().flat_map(|id| layout.tree.chunks(id));
    let named = named.fold(0, |sum: u64, at| sum.saturating_add(store.size(at.chunk)));
    options
        .limits
        .check_merged_size(named, store.stored_len())?;
    let plan = planned(store, layout, options).map_err(|error| match error.chunk() {
        Some(chunk) => damage_first(store, chunk.to_usize(), error),
        None => error,
    })?;
    let limits = &options.limits;
    limits.check_merged_size(plan.total_len(), store.stored_len())?;
    Ok(plan)
}

fn planned<S: ChunkStore + ?Sized>(
    store: &S,
    layout: Layout<'_>,
    options: &ReadOptions,
) -> Result<MergePlan> {
    let Layout {
        tree,
        kinds,
        marked,
    } = layout;
    let mut types = match &options.descriptor {
        Some(descriptor) if !marked => node_types::resolve(tree, kinds, descriptor)?,
        _ => NodeTypes::default(),
    };
    let states = States::new(layout, &mut types)?;
    let mut segments = SegmentList::default();
    let root = segments.new_message();
    let mut planner = Planner {
        store,
        tree,
        kinds,
        marked,
        options,
        types,
        states,
        segments,
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
        // The content is dropped, since the node's descendants need only the fact that the node
        // exists, and the state of the fields that paths lead into.
        planner.state(node).content = None;
        open.extend(tree.children(node).iter().rev());
    }
    let Planner {
        segments, states, ..
    } = planner;
    drop(states);
    Ok(MergePlan::new(segments.lay_out(root)?, store.len()))
}
