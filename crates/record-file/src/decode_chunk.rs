//! Decoding the data of a chunk of any kind into records.

use crate::chunk::{Chunk, ChunkType};
use crate::codec::Decoders;
use crate::decoded::DecodedChunk;
use crate::error::Result;
use crate::options::ReaderOptions;
use crate::simple;
use crate::stored::Stored;
use crate::transpose::{self, FieldProjection};

/// Decodes a chunk into its records. The caller has checked the hash of the data. A metadata chunk
/// has a single record.
pub(crate) fn decode_chunk(
    chunk: &Chunk,
    data: Stored,
    decoders: &mut Decoders,
    options: &ReaderOptions,
    projection: &FieldProjection,
) -> Result<DecodedChunk> {
    match chunk.header.kind {
        ChunkType::Simple => simple::decode(chunk, data.into_vec(), decoders, options),
        ChunkType::Transposed => transpose::decode(
            chunk,
            chunk.header.num_records,
            data,
            decoders,
            options,
            projection,
        ),
        // The header doesn't count the chunk's only record, which is the serialized metadata.
        ChunkType::Metadata => {
            transpose::decode(chunk, 1, data, decoders, options, &FieldProjection::all())
        }
        _ => Ok(DecodedChunk::default()),
    }
}
