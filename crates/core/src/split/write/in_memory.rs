//! Executing a plan in memory.

use std::io::Read;

use bytes::Bytes;

use super::chunk_reader::{ChunkReader, Span, source_crc32c};
use crate::Result;
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::proto::{ChunkMetadata, ChunkedMessage};
use crate::split::options::SplitOptions;
use crate::split::plan::metadata::{WrittenInfo, metadata};
use crate::split::plan::split_plan::{ChunkSegment, PlannedChunk, SplitPlan};
use crate::split::read::source::Source;

/// A chunk in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkBytes {
    /// Whether it holds a message or a bytes value.
    pub kind: ChunkKind,
    /// Where it belongs.
    pub path: FieldPath,
    /// Its bytes: those of the source, shared, if they are together in memory there.
    pub bytes: Bytes,
}

/// A message that was split in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Split {
    /// The chunks in the order of their indices.
    pub chunks: Vec<ChunkBytes>,
    /// What a file would have as its trailer: where each chunk belongs, sizes and checksums. The
    /// offsets are 0.
    pub metadata: ChunkMetadata,
}

impl Split {
    /// Where each chunk belongs.
    pub fn message(&self) -> ChunkedMessage {
        let extended = self.metadata.extended_message.as_ref();
        let message = extended.or(self.metadata.message.as_ref());
        message.cloned().unwrap_or_default()
    }

    /// The chunks' bytes, as [`Merger::merge`](crate::merge::Merger::merge) takes them.
    pub fn bytes(&self) -> Vec<Bytes> {
        self.chunks
            .iter()
            .map(|chunk| chunk.bytes.clone())
            .collect()
    }

    /// Whether a merge gives the very bytes of the source, and not just an equal message.
    pub fn byte_exact(&self) -> bool {
        self.metadata.byte_exact || !self.metadata.source_layout.is_empty()
    }
}

pub(in crate::split) fn split(
    plan: &SplitPlan,
    source: &Source,
    options: &SplitOptions,
) -> Result<Split> {
    let sizes = plan.chunks.iter().map(|chunk| chunk.size);
    let meter = options.progress.meter(sizes.sum());
    let mut chunks = Vec::with_capacity(plan.chunks.len());
    let mut infos = Vec::with_capacity(plan.chunks.len());
    let mut spans = Vec::new();
    for chunk in &plan.chunks {
        let (bytes, crc32c) = match shared(chunk, source) {
            Some((bytes, span)) => {
                meter.advance(chunk.size)?;
                spans.push(span);
                (bytes, span.crc32c)
            }
            None => {
                let mut bytes = Vec::new();
                let mut reader = ChunkReader::new(plan, chunk, source).metered(&meter);
                reader.read_to_end(&mut bytes)?;
                let crc32c = reader.crc32c();
                spans.append(&mut reader.spans);
                (bytes.into(), crc32c)
            }
        };
        infos.push(WrittenInfo {
            file: 0,
            offset: 0,
            crc32c,
        });
        chunks.push(ChunkBytes {
            kind: chunk.kind,
            path: chunk.path.clone(),
            bytes,
        });
    }
    let metadata = metadata(plan, &infos, source_crc32c(source, spans)?);
    source.check_unchanged()?;
    Ok(Split { chunks, metadata })
}

/// The bytes of a chunk that is one span of a source in memory.
fn shared(chunk: &PlannedChunk, source: &Source) -> Option<(Bytes, Span)> {
    let [ChunkSegment::Source(range)] = chunk.segments() else {
        return None;
    };
    let bytes = source.shared(range)?;
    let span = Span {
        start: range.start,
        len: bytes.len() as u64,
        crc32c: crc32c::crc32c(&bytes),
    };
    Some((bytes, span))
}
