//! Checking a plan against the limits of readers, before anything is written.

use prost::Message;
use prost_reflect::MessageDescriptor;

use super::metadata::largest_trailer;
use super::split_plan::SplitPlan;
use crate::container::{
    DEFAULT_MAX_FILES, DEFAULT_MAX_MESSAGE_DEPTH, DEFAULT_MAX_NESTING, DEFAULT_MAX_TRAILER_MEMORY,
    DEFAULT_MAX_TRAILER_SIZE, check_trailer_memory,
};
use crate::path::{FieldPath, MapKey, Select, Step};
use crate::proto::ChunkedMessage;
use crate::split::options::SplitOptions;
use crate::{Error, ErrorKind, Result};

/// Total number of path steps below which a trailer is within all limits except the depth limit.
/// Text counts, too: [`STEP_LEN`] bytes as one step.
const FEW_STEPS: usize = 100_000;

/// Number of bytes of a map's keys, or of the source layout, that count as one step of a path.
const STEP_LEN: usize = 256;

/// Fails if readers with the default [`Limits`](crate::merge::Limits) would refuse a file that is
/// written from this plan. Paths may be deeper than the default limit if the options set a larger
/// [depth limit](SplitOptions::depth_limit).
pub(super) fn check_reader_limits(plan: &SplitPlan, options: &SplitOptions) -> Result<()> {
    let mut steps = plan.chunks.len() + plan.source_layout.len() / STEP_LEN;
    for chunk in &plan.chunks {
        check_depth(chunk.path(), &plan.descriptor, options)?;
        steps += chunk.path().steps().iter().map(weight).sum::<usize>();
    }
    if steps < FEW_STEPS && plan.nested.is_empty() {
        return Ok(());
    }
    let trailer = largest_trailer(plan);
    let message = trailer
        .extended_message
        .as_ref()
        .or(trailer.message.as_ref());
    let nesting = message.map_or(0, nesting);
    if nesting > DEFAULT_MAX_NESTING {
        let message = format!(
            "chunks of map values nest {nesting} deep, but readers follow at most {DEFAULT_MAX_NESTING}; a larger maximum chunk size leaves the inner ones whole"
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    check_trailer(&trailer.encode_to_vec(), plan.chunks.len())
}

/// Returns the number of steps as which a step of a path counts.
fn weight(step: &Step) -> usize {
    match &step.select {
        Select::Key(MapKey::String(key)) => 1 + key.len() / STEP_LEN,
        _ => 1,
    }
}

/// Fails if the path of a chunk is too deep for readers.
pub(super) fn check_depth(
    path: &FieldPath,
    root: &MessageDescriptor,
    options: &SplitOptions,
) -> Result<()> {
    let most = DEFAULT_MAX_MESSAGE_DEPTH.max(options.effective_depth_limit() as usize);
    let depth = path.steps().len();
    if depth <= most {
        return Ok(());
    }
    let message = format!(
        "a chunk's path has {depth} steps, but readers follow at most {most}; a larger maximum chunk size leaves the chunk whole"
    );
    Err(Error::new(ErrorKind::LimitExceeded, message).at_path(path.display(Some(root))))
}

/// Fails if readers would refuse this serialized trailer, which describes `chunks` chunks.
fn check_trailer(trailer: &[u8], chunks: usize) -> Result<()> {
    let fits = trailer.len() as u64 <= DEFAULT_MAX_TRAILER_SIZE;
    match check_trailer_memory(trailer, DEFAULT_MAX_TRAILER_MEMORY) {
        Ok(()) if fits => Ok(()),
        _ => {
            let message = format!(
                "the trailer of {chunks} chunks is larger than readers accept; a larger maximum chunk size, or value chunk size, makes fewer chunks"
            );
            Err(Error::new(ErrorKind::LimitExceeded, message))
        }
    }
}

/// Fails if readers would refuse to open `files` files in addition to the main file.
pub(crate) fn check_file_count(files: usize) -> Result<()> {
    if files <= DEFAULT_MAX_FILES {
        return Ok(());
    }
    let message = format!(
        "the chunks are in {files} files, but readers open at most {DEFAULT_MAX_FILES}; a larger maximum file size makes fewer files"
    );
    Err(Error::new(ErrorKind::LimitExceeded, message))
}

/// Returns the maximum depth to which messages nest in a chunked message. Nested messages without
/// fields don't count.
fn nesting(message: &ChunkedMessage) -> usize {
    let (mut open, mut deepest) = (vec![(message, 0)], 0);
    while let Some((message, depth)) = open.pop() {
        deepest = deepest.max(depth);
        let fields = message.chunked_fields.iter();
        let inner = fields.filter_map(|field| field.message.as_ref());
        let inner = inner.filter(|message| !message.chunked_fields.is_empty());
        open.extend(inner.map(|message| (message, depth + 1)));
    }
    deepest
}
