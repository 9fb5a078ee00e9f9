//! Reading one record as a stream.
mod one_record;
mod paired_read;

use std::io::{self, Read};

use bytes::Bytes;

pub(crate) use one_record::{Access, OneRecord, Opened};
pub use paired_read::{PairStep, RecordPair, WantedRecord, Watch};

use crate::codec::Decoders;
use crate::error::Result;
use crate::file::{RecordFile, WithEnds};
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::read_at::ReadAt;

/// A single record, read as a stream.
///
/// The hash of a record can be verified only after all bytes of the record are read. If the record
/// is damaged, the read that would return the last bytes fails, with an [`io::Error`] that wraps an
/// [`Error`](crate::Error). If the data can't be decompressed, the error is returned only after the
/// remaining data is read, since the error for a wrong hash takes precedence over other errors.
pub struct RecordStream<'a, S> {
    access: FileAccess<'a, S>,
    record: OneRecord,
}

/// Access to a record in a file.
struct FileAccess<'a, S> {
    file: &'a RecordFile<S>,
    source: &'a WithEnds<S>,
}

impl<'a, S: ReadAt> Access for FileAccess<'a, S> {
    type RecordInput = &'a WithEnds<S>;

    fn options(&self) -> &ReaderOptions {
        &self.file.options
    }

    fn input(&mut self) -> &mut &'a WithEnds<S> {
        &mut self.source
    }

    fn with_decoders<T>(&mut self, run: impl FnOnce(&mut Decoders) -> T) -> T {
        self.file.with_decoders(run)
    }
}

impl<'a, S: ReadAt> RecordStream<'a, S> {
    /// Opens the only record in a simple chunk. If the record can't be streamed, decodes the whole
    /// record.
    pub(crate) fn open(file: &'a RecordFile<S>, payload: Payload) -> Result<Self> {
        let mut access = FileAccess::new(file);
        let record = match OneRecord::open(&mut access, payload)? {
            Opened::Stream(record) => record,
            Opened::Whole(read, payload) => OneRecord::of_memory(file.decode_one(read, *payload)?),
        };
        Ok(RecordStream { access, record })
    }

    pub(crate) fn of_memory(file: &'a RecordFile<S>, record: Bytes) -> Self {
        RecordStream {
            access: FileAccess::new(file),
            record: OneRecord::of_memory(record),
        }
    }

    /// Returns the number of bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.record.remaining()
    }

    /// Skips `n` bytes, or all remaining bytes if there are fewer. Skipped bytes are still
    /// verified.
    ///
    /// # Errors
    ///
    /// Any error from reading the bytes.
    pub fn skip(&mut self, n: u64) -> Result<()> {
        self.record.skip(&mut self.access, n)
    }
}

impl<'a, S> FileAccess<'a, S> {
    fn new(file: &'a RecordFile<S>) -> Self {
        FileAccess {
            file,
            source: &file.source,
        }
    }
}

impl<S: ReadAt> Read for RecordStream<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.record.read(&mut self.access, buf)?)
    }
}

impl<S> std::fmt::Debug for RecordStream<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordStream")
            .field("remaining", &self.record.remaining())
            .finish_non_exhaustive()
    }
}
