//! Decoded chunks of records.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, OnceLock};

use bytes::Bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{Chunk, DecodedChunk, ReadAt};

use crate::recent::{Costly, lock};

/// A chunk that was decoded and verified.
#[derive(Debug)]
pub(super) enum Decoded {
    /// The records, one after another, and the end of each.
    Memory { data: Bytes, ends: Vec<usize> },
    /// A single record in the temporary file, with its offset and its length.
    Spilled(u64, u64),
    /// A single record that is read from its chunk on demand: the chunk, and the number of bytes
    /// before the record in the chunk's data.
    Stored(Chunk, u64),
}

impl Decoded {
    /// Holds the records of a decoded chunk in memory.
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

    /// Returns the end of a record, as an offset in the bytes of the chunk.
    pub(super) fn end_of(&self, record: usize) -> Option<u64> {
        match self {
            Decoded::Memory { ends, .. } => ends.get(record).map(|end| *end as u64),
            Decoded::Spilled(_, len) => (record == 0).then_some(*len),
            Decoded::Stored(chunk, _) => (record == 0).then_some(chunk.header.decoded_data_size),
        }
    }
}

impl Costly for Decoded {
    fn is_costly(&self) -> bool {
        matches!(self, Decoded::Memory { .. })
    }
}

/// A temporary file of records that are too large for memory.
#[derive(Debug, Default)]
pub(super) struct SpilledFile {
    file: OnceLock<File>,
    len: Mutex<u64>,
}

impl SpilledFile {
    /// Adds a record, and returns its offset and its length.
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
