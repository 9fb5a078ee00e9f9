//! The chunks of a split, in the form in which a plan's file contains them.

use bytes::Bytes;
use prost_reflect::MessageDescriptor;

use crate::proto::split_plan::Chunk;
use proto_splitter_core::container::ChunkKind;
use proto_splitter_core::proto::ChunkInfo;
use proto_splitter_core::proto::chunk_info::Type;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource};
use proto_splitter_core::split::{PlannedChunk, SplitPlan};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Converts a planned chunk to the form in which a plan's file contains chunks, and appends the
/// chunk's literal bytes to `literals`.
pub(super) fn chunk_of(chunk: &PlannedChunk, literals: &mut Vec<u8>) -> Chunk {
    let mut pieces = Vec::with_capacity(2 * chunk.spans().span_count());
    for span in chunk.spans().iter() {
        let (begin, is_literal) = match span.source {
            SpanSource::Stored(_, start) => (start, 0),
            SpanSource::Literal(bytes) => {
                let begin = literals.len() as u64;
                literals.extend_from_slice(bytes);
                (begin, 1)
            }
        };
        pieces.extend([begin, span.len << 1 | is_literal]);
    }
    Chunk {
        pieces,
        added: chunk.added().cloned(),
    }
}

/// Converts the chunks in a plan's file to a [`SplitPlan`], whose chunks have no paths. Checks the
/// chunks against the entries `infos` of the trailer.
pub(super) fn decoded(
    chunks: Vec<Chunk>,
    infos: &[ChunkInfo],
    literals: Bytes,
    source_size: u64,
    descriptor: MessageDescriptor,
) -> Result<SplitPlan> {
    let mut planned = Vec::with_capacity(chunks.len());
    let mut pieces = Pieces {
        left: literals.len() as u64,
        literals,
        source_size,
    };
    for (at, (chunk, info)) in chunks.into_iter().zip(infos).enumerate() {
        let chunk = planned_chunk(chunk, info, &mut pieces);
        planned.push(chunk.map_err(|error| error.in_chunk(at))?);
    }
    Ok(SplitPlan::of_chunks(descriptor, source_size, planned))
}

fn planned_chunk(chunk: Chunk, info: &ChunkInfo, pieces: &mut Pieces) -> Result<PlannedChunk> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidMessage, format!("the plan {why}"));
    let kind = if info.r#type == i32::from(Type::Bytes) {
        ChunkKind::Bytes
    } else {
        ChunkKind::Message
    };
    let planned = match chunk.added {
        Some(bytes) => PlannedChunk::of_bytes(kind, bytes),
        None => {
            let mut spans = SpanList::new();
            for piece in chunk.pieces.chunks(2) {
                let outside = || invalid("has a piece of a chunk that is out of range".into());
                pieces.add(piece, &mut spans).ok_or_else(outside)?;
            }
            PlannedChunk::of_spans(kind, spans)
        }
    };
    if planned.size() != info.size {
        let size = planned.size();
        let why = format!("has {size} bytes, but its trailer says {}", info.size);
        return Err(invalid(why));
    }
    Ok(planned)
}

/// The sources of the bytes in chunks.
struct Pieces {
    literals: Bytes,
    /// Number of literal bytes that further chunks may use. Each literal byte belongs to only one
    /// chunk.
    left: u64,
    source_size: u64,
}

impl Pieces {
    /// Appends to a chunk the piece that a pair of numbers describes. Returns `None` if the piece
    /// is invalid or out of range.
    fn add(&mut self, piece: &[u64], to: &mut SpanList) -> Option<()> {
        let &[begin, form] = piece else { return None };
        let (len, is_literal) = (form >> 1, form & 1 == 1);
        let end = begin.checked_add(len)?;
        if is_literal {
            let range = usize::try_from(begin).ok()?..usize::try_from(end).ok()?;
            let bytes = self.literals.get(range)?;
            self.left = self.left.checked_sub(len)?;
            to.push_literal(bytes);
        } else if end <= self.source_size {
            to.push_span(SourceId::FIRST, begin..end);
        } else {
            return None;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(pieces: &[&[u64]]) -> Option<SpanList> {
        let mut to = SpanList::new();
        let mut of = Pieces {
            literals: Bytes::from_static(b"literal"),
            left: 7,
            source_size: 7,
        };
        for piece in pieces {
            of.add(piece, &mut to)?;
        }
        Some(to)
    }

    #[test]
    fn pieces_that_lie_outside_are_refused() {
        let sound = added(&[&[3, 8], &[3, 9]]).unwrap();
        let sources: Vec<_> = sound.iter().map(|span| span.source).collect();
        let expected = [
            SpanSource::Stored(SourceId::FIRST, 3),
            SpanSource::Literal(b"eral"),
        ];
        assert_eq!((sources, sound.len()), (expected.into(), 8));
        for piece in [&[3, 10][..], &[4, 8], &[u64::MAX, 2], &[1, u64::MAX], &[3]] {
            assert_eq!(added(&[piece]), None, "{piece:?}");
        }
    }

    #[test]
    fn literals_that_several_chunks_have_are_refused() {
        assert!(added(&[&[0, 15]]).is_some());
        assert_eq!(added(&[&[0, 15], &[0, 3]]), None);
    }
}
