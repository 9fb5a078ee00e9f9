//! Merging chunks that arrive one at a time, in any order.

use std::io::Write;

use bytes::Bytes;

use super::plan::build::plan;
use crate::container::{Trailer, TrailerUse};
use crate::error::ChunkIndex;
use crate::merge::read_options::ReadOptions;
use crate::merge::write::execute::{Merged, check_chunk, execute, to_bytes};
use crate::proto::ChunkMetadata;
use crate::{Error, ErrorKind, Result};

/// Maximum number of missing chunks to name in an error.
const MOST_NAMED: usize = 10;

/// A merger of chunks that arrive in memory one at a time, in any order.
///
/// ```
/// use proto_splitter_core::merge::{ChunkMerger, ReadOptions};
/// use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use prost::Message;
///
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let split = SizeSplitter.split_with(&file, &SplitOptions::new().max_chunk_size(1000))?;
///
/// let mut merger = ChunkMerger::new(split.metadata.clone(), ReadOptions::new())?;
/// for (index, chunk) in split.bytes().into_iter().enumerate().rev() {
///     assert!(merger.missing().any(|missing| missing == index.into()));
///     merger.insert(index, chunk)?;
/// }
/// assert_eq!(merger.finish()?, file.encode_to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChunkMerger {
    trailer: Trailer,
    options: ReadOptions,
    chunks: Vec<Option<Bytes>>,
}

impl ChunkMerger {
    /// Creates a merger for the chunks that `metadata` describes. Ignores the offsets and files in
    /// `metadata`.
    ///
    /// # Errors
    ///
    /// The same errors as [`Trailer::from_metadata`](crate::container::Trailer::from_metadata).
    pub fn new(metadata: ChunkMetadata, options: ReadOptions) -> Result<Self> {
        let trailer = Trailer::from_metadata(metadata, TrailerUse::Whole, &options.limits)?;
        let chunks = vec![None; trailer.kinds().len()];
        Ok(ChunkMerger {
            trailer,
            options,
            chunks,
        })
    }

    /// Inserts the chunk with this index, after checking its size and checksum.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`] if there is no chunk with this index, its size differs from
    /// the one in the metadata, or it was already inserted; [`ErrorKind::ChecksumMismatch`] if its
    /// checksum differs from the one in the metadata. After an error, the chunk is still missing,
    /// or the chunk that was already inserted is kept.
    pub fn insert(&mut self, index: impl Into<ChunkIndex>, chunk: impl Into<Bytes>) -> Result<()> {
        let index = index.into().to_usize();
        let chunk = chunk.into();
        let count = self.chunks.len();
        let infos = &self.trailer.metadata().chunks;
        let (Some(place), Some(info)) = (self.chunks.get_mut(index), infos.get(index)) else {
            let message = format!("chunk index {index} is out of range: there are {count} chunks");
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        };
        let invalid = |error: Error| error.in_chunk(index);
        if place.is_some() {
            let message = "the chunk was inserted before";
            return Err(invalid(Error::new(ErrorKind::InvalidTrailer, message)));
        }
        check_chunk(&chunk, info.size, info.crc32c).map_err(invalid)?;
        *place = Some(chunk);
        Ok(())
    }

    /// Returns the indices of the chunks that are still missing.
    pub fn missing(&self) -> impl Iterator<Item = ChunkIndex> {
        let chunks = self.chunks.iter().enumerate();
        chunks.filter_map(|(index, chunk)| chunk.is_none().then_some(index.into()))
    }

    /// Merges the message, once all chunks are present.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`], naming the missing chunks, if there are any; otherwise the
    /// same errors as [`Merger::merge`](super::Merger::merge).
    pub fn finish(self) -> Result<Bytes> {
        let chunks = self.complete()?;
        to_bytes(&self.trailer, &chunks[..], &self.options)
    }

    /// Merges the message into `sink`, once all chunks are present.
    ///
    /// # Errors
    ///
    /// The same errors as [`finish`](Self::finish), and [`ErrorKind::Io`] if writing fails.
    pub fn finish_to(self, sink: &mut impl Write) -> Result<Merged> {
        let chunks = self.complete()?;
        let plan = plan(&self.trailer, &chunks[..], &self.options)?;
        execute(&self.trailer, &chunks[..], &plan, sink, &self.options)
    }

    fn complete(&self) -> Result<Vec<Bytes>> {
        let missing: Vec<ChunkIndex> = self.missing().collect();
        if missing.is_empty() {
            return Ok(self.chunks.iter().flatten().cloned().collect());
        }
        let named = missing.iter().take(MOST_NAMED).map(ChunkIndex::to_string);
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if missing.len() > MOST_NAMED {
            " ..."
        } else {
            ""
        };
        let (missing, all) = (missing.len(), self.chunks.len());
        let message = format!("{missing} of {all} chunks are missing: {named}{more}");
        Err(Error::new(ErrorKind::InvalidTrailer, message))
    }
}
