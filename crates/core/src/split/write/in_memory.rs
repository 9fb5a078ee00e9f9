//! Executing a plan in memory.

use std::io::Read;

use bytes::Bytes;
use record_file::{CompressionKind, RecordPosition};

use super::chunk_pieces::shared_piece;
use super::chunk_reader::ChunkReader;
use super::sink::{ChunkSink, Chunks, Record, Taken, write_chunks};
use crate::Result;
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::proto::{ChunkMetadata, ChunkedMessage};
use crate::split::options::SplitOptions;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;

/// A chunk in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkBytes {
    /// Kind of the chunk: a message or a bytes value.
    pub kind: ChunkKind,
    /// Path of the chunk in the message.
    pub path: FieldPath,
    /// Bytes of the chunk, shared with the source if they are contiguous in memory.
    pub bytes: Bytes,
}

/// The result of splitting a message in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Split {
    /// The chunks in index order.
    pub chunks: Vec<ChunkBytes>,
    /// The trailer that a file would have: the place, size and checksum of each chunk. Its offsets
    /// are 0.
    pub metadata: ChunkMetadata,
}

impl Split {
    /// Returns the places of all chunks in the message.
    pub fn message(&self) -> ChunkedMessage {
        let extended = self.metadata.extended_message.as_ref();
        let message = extended.or(self.metadata.message.as_ref());
        message.cloned().unwrap_or_default()
    }

    /// Returns the chunks' bytes, for [`Merger::merge`](crate::merge::Merger::merge).
    pub fn bytes(&self) -> Vec<Bytes> {
        self.chunks
            .iter()
            .map(|chunk| chunk.bytes.clone())
            .collect()
    }

    /// Returns true if a merge reproduces the exact bytes of the source, and not just an equal
    /// message.
    pub fn byte_exact(&self) -> bool {
        self.metadata.byte_exact || !self.metadata.source_layout.is_empty()
    }
}

pub(in crate::split) fn split(
    plan: &SplitPlan,
    source: &Source,
    options: &SplitOptions,
) -> Result<Split> {
    let mut memory = MemorySink::default();
    let metadata = write_chunks(plan, source, options, &mut memory)?.trailer()?;
    source.check_unchanged()?;
    Ok(Split {
        chunks: memory.chunks,
        metadata,
    })
}

/// A sink that holds chunks in memory. A chunk's bytes are newly allocated, or shared with the
/// source.
#[derive(Default)]
struct MemorySink {
    chunks: Vec<ChunkBytes>,
}

impl ChunkSink for MemorySink {
    /// False, since each chunk has separate bytes, or shares those of the source.
    const SHARES: bool = false;

    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        let Chunks { plan, source, .. } = chunks;
        let mut taken = Taken::default();
        for &index in chunks.indices {
            let chunk = &plan.chunks[index];
            let (bytes, crc32c) = match shared_piece(chunk, source, 0, chunk.size) {
                Some((bytes, span)) => {
                    chunks.meter.advance(chunk.size)?;
                    taken.spans.push(span);
                    (bytes, span.crc32c)
                }
                None => {
                    let mut bytes = Vec::new();
                    let mut reader = ChunkReader::new(chunk, source).metered(chunks.meter);
                    reader.read_to_end(&mut bytes)?;
                    let crc32c = reader.crc32c();
                    taken.spans.append(&mut reader.spans);
                    (bytes.into(), crc32c)
                }
            };
            taken.records.push(Record {
                file: 0,
                position: RecordPosition::new(0, 0),
                crc32c,
                leaf: None,
                stored_size: chunk.size,
                compression: CompressionKind::None,
            });
            self.chunks.push(ChunkBytes {
                kind: chunk.kind(),
                path: chunk.path().clone(),
                bytes,
            });
        }
        Ok(taken)
    }
}
