//! Reading the first field of a chunk without parsing the fields after it, and reading the bytes of
//! a short chunk.

use super::chunk_store::{ChunkInput, ChunkStore};
use crate::wire::Input;
use crate::wire::{Field, WireCursor};
use crate::{Error, ErrorKind, Result};

/// Returns the first field of a chunk, and true if it is the only field.
pub(in crate::merge) fn first_field<S: ChunkStore + ?Sized>(
    store: &S,
    chunk: usize,
) -> Result<(Field, bool)> {
    let first = || {
        let mut cursor = WireCursor::new(ChunkInput::open(store, chunk)?);
        let Some(field) = cursor.header()? else {
            return Err(Error::new(
                ErrorKind::InvalidMessage,
                "a slice without elements",
            ));
        };
        let all = field.end == cursor.end();
        Ok((field, all))
    };
    first().map_err(|error: Error| error.in_chunk(chunk))
}

/// Returns the bytes of a chunk that contains a scalar value as text; `None` if it has more than
/// `limit` bytes.
pub(in crate::merge) fn short_bytes<S: ChunkStore + ?Sized>(
    store: &S,
    chunk: usize,
    limit: u64,
) -> Result<Option<Vec<u8>>> {
    let size = store.size(chunk);
    if size > limit {
        return Ok(None);
    }
    let mut input = ChunkInput::open(store, chunk)?;
    let want = usize::try_from(size).unwrap_or(usize::MAX);
    let bytes = input.fetch(0, want).map(<[u8]>::to_vec);
    let bytes = bytes.map_err(|error| error.in_chunk(chunk))?;
    input.finish().map_err(|error| error.in_chunk(chunk))?;
    Ok(Some(bytes))
}
