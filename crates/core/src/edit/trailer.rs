//! Updating the trailer after a change.

use crate::container::Trailer;
use crate::path::FieldPath;
use crate::proto::{ChunkMetadata, ChunkedMessage};
use crate::{Error, ErrorKind, Result};

/// Returns the lowest index of a chunk with a place at this path. If the value at the path is
/// empty, a merge fills it with this chunk.
pub(super) fn filler(trailer: &Trailer, path: &FieldPath) -> Option<usize> {
    let at = |place: &crate::container::ChunkPlace| place.path == *path && !place.packed;
    trailer
        .places()
        .iter()
        .position(|places| places.iter().any(at))
}

/// Removes the places at and below a path, except the place of the chunk with index `but` at the
/// path. Then removes the chunks that no path refers to. Returns a flag for each of the previous
/// chunks: true if the chunk remains.
pub(super) fn without_below(
    metadata: &mut ChunkMetadata,
    path: &FieldPath,
    but: Option<usize>,
) -> Result<Vec<bool>> {
    if let Some(message) = real(metadata) {
        let but = but.map(|but| but as u64);
        retain(message, &FieldPath::root(), &|place, below| {
            if place.strip_prefix(path).is_none() {
                return true;
            }
            below.chunked_fields.clear();
            place == path && but.is_some() && below.chunk_index == but
        })?;
    }
    Ok(without_unused_chunks(metadata))
}

/// Removes chunks that no path refers to, and files without chunks.
pub(super) fn without_unused(metadata: &mut ChunkMetadata) {
    without_unused_chunks(metadata);
    let mut numbers = vec![0; metadata.files.len() + 1];
    for chunk in &metadata.chunks {
        if let Some(number) = numbers.get_mut(chunk.file as usize) {
            *number = 1;
        }
    }
    // The main file always exists, and keeps the number 0.
    let (mut at, mut next) = (0, 0);
    for number in numbers.iter_mut().skip(1) {
        next += *number;
        *number *= next;
    }
    numbers[0] = 0;
    metadata.files.retain(|_| {
        at += 1;
        numbers.get(at).is_some_and(|number| *number > 0)
    });
    for chunk in &mut metadata.chunks {
        chunk.file = numbers.get(chunk.file as usize).copied().unwrap_or(0);
    }
}

/// Returns the `ChunkedMessage` that readers use: `extended_message` if present, otherwise
/// `message`.
pub(super) fn real(metadata: &mut ChunkMetadata) -> Option<&mut ChunkedMessage> {
    match &mut metadata.extended_message {
        Some(extended) => Some(extended),
        None => metadata.message.as_mut(),
    }
}

/// Removes chunks that no path refers to. Returns a flag for each of the previous chunks: true if
/// the chunk remains.
fn without_unused_chunks(metadata: &mut ChunkMetadata) -> Vec<bool> {
    let mut kept = vec![false; metadata.chunks.len()];
    let Some(message) = real(metadata) else {
        return kept;
    };
    mark(message, &mut kept);
    let mut next = 0;
    let indices: Vec<u64> = kept
        .iter()
        .map(|&kept| {
            let index = next;
            next += u64::from(kept);
            index
        })
        .collect();
    renumber(message, &indices);
    let mut keep = kept.iter();
    metadata.chunks.retain(|_| *keep.next().unwrap_or(&true));
    kept
}

/// Removes the places for which `keep` returns false, with all places below them, and the places
/// that become empty. `base` is the path of `message`. `keep` receives the path of a place and the
/// message there, and may change that message.
pub(super) fn retain(
    message: &mut ChunkedMessage,
    base: &FieldPath,
    keep: &dyn Fn(&FieldPath, &mut ChunkedMessage) -> bool,
) -> Result<()> {
    // Recursion is bounded, since the trailer's nesting was checked.
    for mut field in std::mem::take(&mut message.chunked_fields) {
        let tags = FieldPath::from_tags(&field.field_tag)
            .map_err(|error| Error::new(ErrorKind::InvalidTrailer, error.to_string()))?;
        let place = base.concat(&tags);
        if let Some(below) = field.message.as_mut() {
            if !keep(&place, below) {
                continue;
            }
            retain(below, &place, keep)?;
            // The message contained only removed parts.
            if below.chunk_index.is_none() && below.chunked_fields.is_empty() {
                continue;
            }
        }
        message.chunked_fields.push(field);
    }
    Ok(())
}

fn mark(message: &ChunkedMessage, kept: &mut [bool]) {
    let index = message
        .chunk_index
        .and_then(|index| usize::try_from(index).ok());
    if let Some(kept) = index.and_then(|index| kept.get_mut(index)) {
        *kept = true;
    }
    let below = message.chunked_fields.iter();
    below
        .filter_map(|field| field.message.as_ref())
        .for_each(|message| mark(message, kept));
}

fn renumber(message: &mut ChunkedMessage, indices: &[u64]) {
    if let Some(index) = &mut message.chunk_index
        && let Some(new) = usize::try_from(*index).ok().and_then(|at| indices.get(at))
    {
        *index = *new;
    }
    let below = message.chunked_fields.iter_mut();
    below
        .filter_map(|field| field.message.as_mut())
        .for_each(|message| renumber(message, indices));
}
