//! Checking a plan against the limits of readers, before anything is written.

use prost::Message;
use prost_reflect::MessageDescriptor;

use super::metadata::{WrittenInfo, metadata};
use super::split_plan::SplitPlan;
use crate::container::{
    DEFAULT_MAX_FILES, DEFAULT_MAX_MESSAGE_DEPTH, DEFAULT_MAX_NESTING, DEFAULT_MAX_TRAILER_MEMORY,
    DEFAULT_MAX_TRAILER_SIZE, check_trailer_memory,
};
use crate::path::FieldPath;
use crate::proto::ChunkedMessage;
use crate::split::options::SplitOptions;
use crate::{Error, ErrorKind, Result};

/// Total number of path steps below which a trailer is within all limits except the depth limit.
const FEW_STEPS: usize = 100_000;

/// Fails if readers with the default [`Limits`](crate::merge::Limits) would refuse a file that is
/// written from this plan. Paths may be deeper than the default limit if the options set a larger
/// [depth limit](SplitOptions::depth_limit).
pub(super) fn check_reader_limits(plan: &SplitPlan, options: &SplitOptions) -> Result<()> {
    let mut steps = plan.chunks.len();
    for chunk in &plan.chunks {
        check_depth(&chunk.path, &plan.descriptor, options)?;
        steps += chunk.path.steps().len();
    }
    if steps < FEW_STEPS && plan.nested.is_empty() {
        return Ok(());
    }
    let largest = WrittenInfo {
        file: u32::MAX,
        offset: u64::MAX,
        crc32c: u32::MAX,
    };
    let trailer = metadata(plan, &vec![largest; plan.chunks.len()], 0);
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
