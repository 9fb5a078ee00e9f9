use bytes::Bytes;

use super::store::ChunkStore;
use super::{MergeOptions, write};
use crate::container::{Trailer, TrailerUse};
use crate::proto::ChunkMetadata;
use crate::{Error, ErrorKind, Result};

/// Merges chunks to the message that they were cut from.
#[derive(Debug)]
pub struct Merger;

impl Merger {
    /// Merges chunks in memory: chunk `i` is what `metadata` says about chunk `i`; their offsets don't count.
    ///
    /// # Errors
    ///
    /// If the metadata or a chunk is not right; [`ErrorKind::SchemaNeeded`] if the type has to be known and isn't;
    /// [`ErrorKind::ChecksumMismatch`] if the merge is not what was split.
    pub fn merge(chunks: &[Bytes], metadata: &ChunkMetadata, options: &MergeOptions) -> Result<Bytes> {
        let trailer = Trailer::from_metadata(metadata.clone(), TrailerUse::Whole, &options.limits)?;
        for (at, (chunk, info)) in chunks.iter().zip(&metadata.chunks).enumerate() {
            check_chunk(chunk, info.size, info.crc32c).map_err(|error| error.in_chunk(at as u64))?;
        }
        to_bytes(&trailer, chunks, options)
    }
}

fn check_chunk(chunk: &[u8], size: u64, crc32c: Option<u32>) -> Result<()> {
    if chunk.len() as u64 != size {
        let message = format!("{} bytes, where the trailer says {size}", chunk.len());
        return Err(Error::new(ErrorKind::InvalidTrailer, message));
    }
    let found = crc32c::crc32c(chunk);
    match crc32c {
        Some(expected) if expected != found => {
            let message = format!("crc32c is {found:08x} where the trailer says {expected:08x}");
            Err(Error::new(ErrorKind::ChecksumMismatch, message))
        }
        _ => Ok(()),
    }
}

fn to_bytes<S: ChunkStore + ?Sized>(
    trailer: &Trailer,
    store: &S,
    options: &MergeOptions,
) -> Result<Bytes> {
    let plan = trailer.plan(store, options)?;
    let mut out = Vec::new();
    write::write(&plan, store, &mut out)?;
    Ok(out.into())
}
