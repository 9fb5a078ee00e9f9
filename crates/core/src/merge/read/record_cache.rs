//! A cache of decoded record chunks.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use record_file::{Chunk, DecodedChunk, ReadAt, RecordFile, RecordPosition};

use crate::{Error, ErrorKind, Result};

/// A cache of decoded record chunks that contain several records, so that nearby reads decode a
/// record chunk only once.
///
/// Keeps the most recently used record chunks, up to `max_size` bytes. Always keeps the most recent
/// one, since decoding it has already used the memory.
#[derive(Debug)]
pub(in crate::merge) struct RecordChunkCache {
    max_size: u64,
    /// Decoded record chunks. The most recently used is last.
    kept: Mutex<VecDeque<(Place, DecodedChunk)>>,
}

/// The number of the file that contains a record chunk, and the record chunk's offset in that file.
type Place = (usize, u64);

impl RecordChunkCache {
    pub(in crate::merge) fn new(max_size: u64) -> Self {
        RecordChunkCache {
            max_size,
            kept: Mutex::default(),
        }
    }

    /// Returns the record at `position` in the file `number`. Decodes `stored`, the record chunk
    /// that contains the record, if it isn't cached.
    pub(in crate::merge) fn record<S: ReadAt>(
        &self,
        (number, file): (usize, &RecordFile<S>),
        position: RecordPosition,
        stored: &Chunk,
    ) -> Result<Bytes> {
        let decoded_size = stored.header.decoded_data_size;
        // The lock is held while decoding, since a waiting thread most likely needs the same record
        // chunk.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (number, stored.begin().0);
        let chunk = match kept.iter().position(|(known, _)| *known == place) {
            Some(at) => match kept.remove(at) {
                Some((_, chunk)) => chunk,
                None => return Err(no_record(position)),
            },
            None => {
                let mut total: u64 = kept.iter().map(|(_, chunk)| chunk.decoded_size()).sum();
                while total.saturating_add(decoded_size) > self.max_size
                    && let Some((_, dropped)) = kept.pop_front()
                {
                    total -= dropped.decoded_size();
                }
                file.read_known_chunk(stored)?
            }
        };
        let index = usize::try_from(position.record_index()).ok();
        let record = index.and_then(|index| chunk.record_bytes(index));
        kept.push_back((place, chunk));
        record.ok_or_else(|| no_record(position))
    }
}

#[cold]
fn no_record(position: RecordPosition) -> Error {
    Error::new(ErrorKind::InvalidTrailer, "no record has this position")
        .at_offset(position.numeric())
}
