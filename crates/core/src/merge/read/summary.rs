//! Summaries of chunks, made without reading their content.

use std::sync::Arc;

use record_file::{CompressionKind, ReadAt, RecordPosition};

use super::chunk_store::ChunkStore;
use super::record_lookup::is_close;
use super::record_store::RecordStore;
use super::records::Record;
use crate::Result;
use crate::container::{ChunkKind, ChunkPlace};
use crate::error::ChunkIndex;
use crate::io::threads;

/// A description of how a chunk is stored, and of its places in the message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChunkSummary {
    /// Index of the chunk.
    pub index: ChunkIndex,
    /// Kind of the chunk: a message or a value.
    pub kind: ChunkKind,
    /// Places of the chunk in the message, usually one.
    pub places: Vec<ChunkPlace>,
    /// Uncompressed size of the chunk, in bytes.
    pub size: u64,
    /// Stored size of the chunk, in bytes; `None` if other records share its record chunk, or the
    /// record chunk's header wasn't read.
    pub stored_size: Option<u64>,
    /// The other chunks in the chunk's record chunk: chunks that are compressed together with it,
    /// and chunks that are stored in the same record.
    pub shared_with: SharedWith,
    /// Compression of the chunk; `None` if the record chunk's header wasn't read.
    pub compression: Option<CompressionKind>,
    /// Number of the file that contains the chunk's record: 0 is the file with the trailer, and the
    /// others are numbered as in the trailer.
    pub file: usize,
    /// Position of the chunk's record in its file.
    pub position: RecordPosition,
    /// crc32c of the chunk's bytes, if the trailer has it.
    pub crc32c: Option<u32>,
}

/// The other chunks in a chunk's record chunk.
///
/// All chunks in a record chunk share one list of indices. This saves memory, since a file may
/// claim that a million chunks are in one record chunk.
#[derive(Clone, Debug, Default)]
pub struct SharedWith {
    /// Indices of all chunks in the record chunk, in order, including the chunk itself; `None` if
    /// the chunk is alone.
    together: Option<Arc<[usize]>>,
    own: usize,
}

impl SharedWith {
    /// Returns the indices of the other chunks in the record chunk, in order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkIndex> {
        let together = self.together.iter().flat_map(|all| all.iter());
        let others = together.filter(|&&index| index != self.own);
        others.map(|&index| index.into())
    }

    /// Returns the number of other chunks in the record chunk.
    pub fn len(&self) -> usize {
        self.together.as_ref().map_or(0, |all| all.len() - 1)
    }

    /// Returns true if the chunk is alone in its record chunk.
    pub fn is_empty(&self) -> bool {
        self.together.is_none()
    }
}

/// Summarizes every chunk without reading its content.
pub(crate) fn summaries<S: ReadAt>(store: &RecordStore<S>) -> Result<Vec<ChunkSummary>> {
    let all: Vec<usize> = (0..store.len()).collect();
    store.tell_headers(&all);
    store.find_records(threads::count(None));
    let records = all.into_iter().map(|chunk| {
        let record = store.record(chunk);
        record.map_err(|error| error.in_chunk(chunk))
    });
    let records = records.collect::<Result<Vec<Record>>>()?;
    let mut shared = shared(&records);
    let mut summaries = Vec::with_capacity(records.len());
    for (index, places) in store.trailer.places().into_iter().enumerate() {
        let (record, info) = (&records[index], &store.trailer.metadata().chunks[index]);
        let (file, named) = store.numbered(record.file);
        let stored = file
            .stored(record.position)
            .map_err(|error| named(error.into()).in_chunk(index))?;
        summaries.push(ChunkSummary {
            index: index.into(),
            kind: store.trailer.kinds()[index],
            places,
            size: info.size,
            stored_size: (!record.shared).then_some(record.stored_size),
            shared_with: std::mem::take(&mut shared[index]),
            compression: Some(stored.compression),
            file: record.file,
            position: record.position,
            crc32c: info.crc32c,
        });
    }
    Ok(summaries)
}

/// Summarizes every chunk from the trailer alone. Reads nothing.
pub(crate) fn listed<S: ReadAt>(store: &RecordStore<S>) -> Vec<ChunkSummary> {
    let infos = &store.trailer.metadata().chunks;
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_by_key(|&at| (infos[at].file, infos[at].offset));
    let mut shared = vec![SharedWith::default(); infos.len()];
    let are_close = |a: &usize, b: &usize| is_close(&infos[*a], &infos[*b]);
    share(&order, are_close, &mut shared);
    let places = store.trailer.places().into_iter().enumerate();
    let listed = places.map(|(index, places)| ChunkSummary {
        index: index.into(),
        kind: store.trailer.kinds()[index],
        places,
        size: infos[index].size,
        stored_size: None,
        shared_with: std::mem::take(&mut shared[index]),
        compression: None,
        file: infos[index].file as usize,
        position: RecordPosition::new(infos[index].offset, 0),
        crc32c: infos[index].crc32c,
    });
    listed.collect()
}

fn shared(records: &[Record]) -> Vec<SharedWith> {
    let begin = |&index: &usize| {
        let record = &records[index];
        (record.file, record.position.chunk_begin())
    };
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(begin);
    let mut shared = vec![SharedWith::default(); order.len()];
    let are_one = |a: &usize, b: &usize| begin(a) == begin(b);
    share(&order, are_one, &mut shared);
    shared
}

/// Sets, in `shared`, the other chunks in each chunk's record chunk. Chunks in the same record
/// chunk are adjacent in `order`.
fn share(
    order: &[usize],
    are_together: impl Fn(&usize, &usize) -> bool,
    shared: &mut [SharedWith],
) {
    for together in order.chunk_by(are_together) {
        if together.len() > 1 {
            let mut all = together.to_vec();
            all.sort_unstable();
            let all: Arc<[usize]> = all.into();
            for &own in together {
                let together = Some(Arc::clone(&all));
                shared[own] = SharedWith { together, own };
            }
        }
    }
}
