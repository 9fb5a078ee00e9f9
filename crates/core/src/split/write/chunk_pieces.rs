//! Reading the chunks of a split piece by piece, for sending them.

use std::io::Read;

use bytes::Bytes;

use super::chunk_reader::{ChunkReader, Span, source_crc32c, tell};
use crate::error::ChunkIndex;
use crate::io::combine;
use crate::proto::ChunkMetadata;
use crate::split::plan::metadata::{WrittenInfo, draft_trailer, metadata};
use crate::split::plan::split_plan::{PlannedChunk, SplitPlan};
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// A piece of one chunk: consecutive bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkPiece {
    /// Index of the chunk.
    pub chunk: ChunkIndex,
    /// Offset of the piece in the chunk, in bytes.
    pub offset: u64,
    /// The bytes, shared with the source if they are contiguous in memory.
    pub bytes: Bytes,
    /// crc32c of the whole chunk; `None` unless this piece is the chunk's last.
    pub crc32c: Option<u32>,
}

/// A reader of a split's chunks. It returns the pieces of all chunks in order, and the trailer
/// after the last piece.
///
/// Each piece is read on demand, without reading ahead or storing a chunk.
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::merge::{ChunkMerger, ReadOptions};
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
/// use prost::Message;
///
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let mut pieces = SizeSplitter.pieces(&file, &options)?;
///
/// let mut chunks = vec![Vec::new(); pieces.plan().chunks().len()];
/// while let Some(piece) = pieces.next_piece(4096)? {
///     chunks[piece.chunk.to_usize()].extend_from_slice(&piece.bytes);
/// }
/// let mut merger = ChunkMerger::new(pieces.finish()?, ReadOptions::new())?;
/// for (index, chunk) in chunks.into_iter().enumerate() {
///     merger.insert(index, chunk)?;
/// }
/// assert_eq!(merger.finish()?, file.encode_to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChunkPieces {
    plan: SplitPlan,
    source: Source,
    /// Data about the chunks that were read completely.
    infos: Vec<WrittenInfo>,
    spans: Vec<Span>,
    /// Number of bytes of the current chunk that were already read.
    offset: u64,
    /// crc32c of the bytes of the current chunk that were already read.
    crc32c: u32,
}

impl ChunkPieces {
    pub(in crate::split) fn new(plan: SplitPlan, source: Source) -> ChunkPieces {
        ChunkPieces {
            infos: Vec::with_capacity(plan.chunks.len()),
            plan,
            source,
            spans: Vec::new(),
            offset: 0,
            crc32c: 0,
        }
    }

    /// Returns the plan for these chunks.
    pub fn plan(&self) -> &SplitPlan {
        &self.plan
    }

    /// Returns the trailer without offsets and checksums, which are unknown before the chunks are
    /// read.
    pub fn draft_trailer(&self) -> ChunkMetadata {
        let mut trailer = draft_trailer(&self.plan);
        trailer.source_crc32c = None;
        for info in &mut trailer.chunks {
            info.crc32c = None;
        }
        trailer
    }

    /// Reads the next piece: at most `max_len` bytes of one chunk. Returns `None` after the last
    /// chunk. An empty chunk has one empty piece.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if `max_len` is 0; [`ErrorKind::SourceChanged`] if the source
    /// has become shorter; [`ErrorKind::Io`] if reading fails.
    pub fn next_piece(&mut self, max_len: usize) -> Result<Option<ChunkPiece>> {
        if max_len == 0 {
            let message = "pieces of a chunk must have at least 1 byte";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let index = self.infos.len();
        let Some(chunk) = self.plan.chunks.get(index) else {
            return Ok(None);
        };
        if self.offset == 0 {
            tell(&self.plan, &self.source, &[index]);
        }
        let len = (chunk.size - self.offset).min(max_len as u64);
        let shared = shared_piece(chunk, &self.source, self.offset, len);
        let (bytes, crc32c) = match shared {
            Some((bytes, span)) => {
                self.spans.push(span);
                (bytes, span.crc32c)
            }
            None => {
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(max_len)];
                let mut reader = ChunkReader::starting_at(chunk, &self.source, self.offset);
                reader.read_exact(&mut bytes)?;
                let crc32c = reader.crc32c();
                self.spans.append(&mut reader.spans);
                (bytes.into(), crc32c)
            }
        };
        let offset = self.offset;
        self.crc32c = combine(self.crc32c, crc32c, bytes.len() as u64);
        self.offset += bytes.len() as u64;
        let is_last = self.offset == chunk.size;
        let piece = ChunkPiece {
            chunk: index.into(),
            offset,
            bytes,
            crc32c: is_last.then_some(self.crc32c),
        };
        if is_last {
            self.infos.push(WrittenInfo {
                file: 0,
                offset: 0,
                crc32c: self.crc32c,
            });
            (self.offset, self.crc32c) = (0, 0);
        }
        Ok(Some(piece))
    }

    /// Returns the trailer, with the size and the checksum of each chunk; the offsets are 0.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if not all pieces were read; [`ErrorKind::SourceChanged`] if
    /// the source's file has changed; [`ErrorKind::Io`] if reading fails.
    pub fn finish(self) -> Result<ChunkMetadata> {
        let (read, all) = (self.infos.len(), self.plan.chunks.len());
        if read < all {
            let message = format!("only {read} of {all} chunks were read");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let trailer = metadata(
            &self.plan,
            &self.infos,
            source_crc32c(&self.source, self.spans)?,
        );
        self.source.check_unchanged()?;
        Ok(trailer)
    }
}

/// Returns a piece of a chunk without copying; `None` unless the chunk is one span of a source in
/// memory.
pub(super) fn shared_piece(
    chunk: &PlannedChunk,
    source: &Source,
    offset: u64,
    len: u64,
) -> Option<(Bytes, Span)> {
    let range = chunk.only_range()?;
    let start = range.start + offset;
    let bytes = source.shared(&(start..start + len))?;
    let span = Span {
        start,
        len,
        crc32c: crc32c::crc32c(&bytes),
    };
    Some((bytes, span))
}
