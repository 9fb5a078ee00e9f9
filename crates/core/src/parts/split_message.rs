//! The chunks of a split as a plan's file has them.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use prost_reflect::MessageDescriptor;

use crate::container::{ChunkKind, Profile};
use crate::path::FieldPath;
use crate::proto::ChunkInfo;
use crate::proto::chunk_info::Type;
use crate::proto::parts::split_plan::Chunk;
use crate::split::{ChunkSegment, Content, PlannedChunk, SplitPlan};
use crate::{Error, ErrorKind, Result};

/// A planned chunk for the file.
pub(super) fn chunk_of(chunk: &PlannedChunk) -> Chunk {
    let mut pieces = Vec::new();
    match &chunk.content {
        Content::Added(bytes) => {
            let added = Some(bytes.clone());
            return Chunk { pieces, added };
        }
        Content::Segments(segments) => {
            for segment in segments {
                let (begin, is_literal) = match segment {
                    ChunkSegment::Source(range) => (range.start, 0),
                    ChunkSegment::Literal(range) => (range.start as u64, 1),
                };
                pieces.extend([begin, segment.len() << 1 | is_literal]);
            }
        }
    }
    Chunk {
        pieces,
        added: None,
    }
}

/// The chunks of a file as a plan whose chunks have no paths, checked against what the trailer says
/// of them.
pub(super) fn decoded(
    chunks: Vec<Chunk>,
    infos: &[ChunkInfo],
    literals: Bytes,
    source_size: u64,
    descriptor: MessageDescriptor,
) -> Result<SplitPlan> {
    let mut planned = Vec::with_capacity(chunks.len());
    for (at, (chunk, info)) in chunks.into_iter().zip(infos).enumerate() {
        let chunk = planned_chunk(chunk, info, literals.len(), source_size);
        planned.push(chunk.map_err(|error| error.in_chunk(at))?);
    }
    Ok(SplitPlan {
        descriptor,
        source_size,
        chunks: planned,
        literals: literals.into(),
        nested: BTreeSet::new(),
        byte_exact: false,
        source_layout: Vec::new(),
        splitter_version: 0,
        profile: Profile::Extended,
        always_chunked: true,
    })
}

fn planned_chunk(
    chunk: Chunk,
    info: &ChunkInfo,
    literals: usize,
    source_size: u64,
) -> Result<PlannedChunk> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidMessage, format!("the plan {why}"));
    let content = match chunk.added {
        Some(bytes) => Content::Added(bytes),
        None => {
            let mut segments = Vec::with_capacity(chunk.pieces.len() / 2);
            for piece in chunk.pieces.chunks(2) {
                let segment = segment(piece, literals as u64, source_size);
                let outside = || invalid("has a piece of a chunk that lies nowhere".into());
                segments.push(segment.ok_or_else(outside)?);
            }
            Content::Segments(segments)
        }
    };
    let size = match &content {
        Content::Added(bytes) => bytes.len() as u64,
        Content::Segments(segments) => {
            let lengths = segments.iter().map(ChunkSegment::len);
            lengths.fold(0, u64::saturating_add)
        }
    };
    if size != info.size {
        let why = format!("has {size} bytes, where its trailer says {}", info.size);
        return Err(invalid(why));
    }
    Ok(PlannedChunk {
        kind: if info.r#type == i32::from(Type::Bytes) {
            ChunkKind::Bytes
        } else {
            ChunkKind::Message
        },
        path: FieldPath::root(),
        slice_of: None,
        elements: 0,
        packed: false,
        tail: false,
        within: false,
        parent: None,
        size,
        content,
    })
}

/// What a pair of numbers means, if it lies where it says.
fn segment(piece: &[u64], literals: u64, source_size: u64) -> Option<ChunkSegment> {
    let &[begin, form] = piece else { return None };
    let (len, is_literal) = (form >> 1, form & 1 == 1);
    let end = begin.checked_add(len)?;
    let most = if is_literal { literals } else { source_size };
    if end > most {
        return None;
    }
    let range = begin..end;
    Some(if is_literal {
        ChunkSegment::Literal(within(&range)?)
    } else {
        ChunkSegment::Source(range)
    })
}

fn within(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_lie_outside_are_refused() {
        assert_eq!(segment(&[3, 8], 0, 7), Some(ChunkSegment::Source(3..7)));
        assert_eq!(segment(&[3, 9], 7, 0), Some(ChunkSegment::Literal(3..7)));
        for piece in [&[3, 10][..], &[4, 8], &[u64::MAX, 2], &[1, u64::MAX], &[3]] {
            assert_eq!(segment(piece, 7, 7), None, "{piece:?}");
        }
    }
}
