//! Chunks of records that were decoded.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, OnceLock};

use bytes::Bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{Chunk, DecodedChunk, ReadAt};

use crate::recent::{Costly, lock};

/// A chunk of records that was decoded and verified.
#[derive(Debug)]
pub(super) enum Decoded {
    /// Concatenated records in memory, and the offset at which each record ends.
    Memory { data: Bytes, ends: Vec<usize> },
    /// Offset and length, in bytes, of a single record in the temporary file.
    Spilled(u64, u64),
    /// Uncompressed chunk with a single record, and the number of bytes before the record in the
    /// chunk's data. The record isn't in memory, but is read from the source.
    Stored(Chunk, u64),
}

impl Decoded {
    /// Keeps the records of a decoded chunk in memory.
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

    /// Returns the end of the record with this index, as an offset in the chunk's concatenated
    /// records.
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

/// A temporary file for decoded records that are too large for memory.
#[derive(Debug, Default)]
pub(super) struct SpilledFile {
    file: OnceLock<File>,
    len: Mutex<u64>,
}

impl SpilledFile {
    /// Appends a record, and returns its offset and length in bytes.
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
