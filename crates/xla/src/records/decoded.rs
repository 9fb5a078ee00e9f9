//! Decoded chunks, and the cache of them.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{Chunk, DecodedChunk, ReadAt};

/// A chunk that was decoded and verified.
#[derive(Debug)]
pub(super) enum Decoded {
    /// The records, one after another, and the end of each.
    Memory { data: Bytes, ends: Vec<usize> },
    /// A single record in the temporary file: its offset and its length.
    Spilled(u64, u64),
    /// A single record in place: the number of bytes before it in the chunk's data.
    Stored(Chunk, u64),
}

impl Decoded {
    /// Returns a chunk in memory.
    pub(super) fn memory(chunk: &DecodedChunk) -> Decoded {
        let mut total = 0;
        let ends: Vec<usize> = chunk
            .records()
            .map(|record| {
                total += record.len();
                total
            })
            .collect();
        let data = chunk.data();
        Decoded::Memory { data, ends }
    }

    /// Returns the end of a record among the bytes of the chunk.
    pub(super) fn end_of(&self, record: usize) -> Option<u64> {
        match self {
            Decoded::Memory { ends, .. } => ends.get(record).map(|end| *end as u64),
            Decoded::Spilled(_, len) => (record == 0).then_some(*len),
            Decoded::Stored(chunk, _) => (record == 0).then_some(chunk.header.decoded_data_size),
        }
    }
}

/// A chunk, once it was decoded. The decoding thread holds the lock.
type Slot = Arc<Mutex<Option<Arc<Decoded>>>>;

/// The recently used chunks, by their index.
#[derive(Debug)]
pub(super) struct Kept {
    most: u64,
    /// Most recently used last.
    recent: Mutex<VecDeque<(usize, u64, Slot)>>,
    /// Chunks that take almost no memory.
    settled: Mutex<BTreeMap<usize, Arc<Decoded>>>,
}

impl Kept {
    pub(super) fn new(most: u64) -> Kept {
        Kept {
            most,
            recent: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// Returns the chunk with this index and size, decoding it with `decode` unless it is cached.
    /// Other threads wait for the one that decodes it, and can decode other chunks meanwhile.
    pub(super) fn get_or_decode(
        &self,
        index: usize,
        size: u64,
        decode: impl FnOnce() -> Result<Decoded>,
    ) -> Result<Arc<Decoded>> {
        if let Some(decoded) = lock(&self.settled).get(&index) {
            return Ok(Arc::clone(decoded));
        }
        let slot = self.slot(index, size);
        let mut slot = lock(&slot);
        if let Some(decoded) = &*slot {
            return Ok(Arc::clone(decoded));
        }
        let decoded = Arc::new(decode()?);
        if !matches!(&*decoded, Decoded::Memory { .. }) {
            lock(&self.settled).insert(index, Arc::clone(&decoded));
            lock(&self.recent).retain(|(at, ..)| *at != index);
        }
        *slot = Some(Arc::clone(&decoded));
        Ok(decoded)
    }

    /// Returns true if a chunk was decoded and is kept without memory.
    pub(super) fn is_settled(&self, index: usize) -> bool {
        lock(&self.settled).contains_key(&index)
    }

    fn slot(&self, index: usize, size: u64) -> Slot {
        let mut recent = lock(&self.recent);
        if let Some(at) = recent.iter().rposition(|(known, ..)| *known == index)
            && let Some(found) = recent.remove(at)
        {
            let slot = Arc::clone(&found.2);
            recent.push_back(found);
            return slot;
        }
        let mut total: u64 = recent.iter().map(|(_, size, _)| size).sum();
        while total.saturating_add(size) > self.most
            && let Some((_, dropped, _)) = recent.pop_front()
        {
            total -= dropped;
        }
        let slot = Slot::default();
        recent.push_back((index, size, Arc::clone(&slot)));
        slot
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file of records that are too large for memory.
#[derive(Debug, Default)]
pub(super) struct SpilledFile {
    file: OnceLock<File>,
    len: Mutex<u64>,
}

impl SpilledFile {
    /// Adds a record; returns its offset and its length.
    pub(super) fn add(&self, mut record: impl Read) -> Result<(u64, u64)> {
        let mut end = lock(&self.len);
        let mut file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile()?;
                self.file.get_or_init(|| file)
            }
        };
        file.seek(SeekFrom::Start(*end))?;
        let len = io::copy(&mut record, &mut file)?;
        let start = *end;
        *end = start.checked_add(len).ok_or_else(|| {
            let message = "the records are larger than a file can be";
            Error::new(ErrorKind::LimitExceeded, message)
        })?;
        Ok((start, len))
    }

    pub(super) fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        match self.file.get() {
            Some(file) => file.read_exact_at(at, buf),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
