//! A chunk's records in memory.
use bytes::Bytes;

use crate::codec::Memory;
use crate::error::{Error, Result};
use crate::position::RecordPosition;

/// The records of one chunk, decoded.
#[derive(Debug, Clone, Default)]
pub struct DecodedChunk {
    data: Bytes,
    start: usize,
    /// Offsets of the ends of the records, counted from `start`. Every end has been checked to be
    /// within `data`.
    ends: Vec<u64>,
}

impl DecodedChunk {
    pub(crate) fn new(data: Vec<u8>, start: usize, ends: Vec<u64>) -> Self {
        DecodedChunk {
            data: data.into(),
            start,
            ends,
        }
    }

    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the record at `index`, or `None` if the chunk has fewer records.
    #[inline]
    #[must_use]
    pub fn record(&self, index: usize) -> Option<&[u8]> {
        self.data.get(self.range(index)?)
    }

    /// Returns the record at `index`, or `None` if the chunk has fewer records. The returned bytes
    /// share the memory of the chunk.
    #[must_use]
    pub fn record_bytes(&self, index: usize) -> Option<Bytes> {
        self.range(index).map(|range| self.data.slice(range))
    }

    /// Returns the record at `position`, which must be in this chunk. The returned bytes share the
    /// chunk's memory.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if the chunk has fewer records.
    pub fn record_at(&self, position: RecordPosition) -> Result<Bytes> {
        usize::try_from(position.record_index())
            .ok()
            .and_then(|index| self.record_bytes(index))
            .ok_or_else(|| Error::no_record_at(position.numeric()))
    }

    /// Returns all records, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"three")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let chunk = file.read_chunk(file.locate(64)?.chunk_begin())?;
    /// assert_eq!(chunk.records().map(<[u8]>::len).sum::<usize>(), 8);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|index| self.record(index).unwrap_or_default())
    }

    /// Returns the concatenation of all records. The returned bytes share the memory of the chunk.
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"three")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let chunk = file.read_chunk(file.locate(64)?.chunk_begin())?;
    /// assert_eq!(chunk.data(), "onethree");
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn data(&self) -> Bytes {
        let end = self
            .range(self.len().wrapping_sub(1))
            .map_or(self.start, |last| last.end);
        self.data.slice(self.start..end)
    }

    /// Returns the total size of all records, in bytes.
    #[must_use]
    pub fn decoded_size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Gives the data's memory to `memory` for reuse, unless the data is shared.
    pub(crate) fn recycle(self, memory: &mut Memory) {
        memory.give_ends(self.ends);
        if let Ok(data) = self.data.try_into_mut() {
            memory.give(data.into());
        }
    }

    #[inline]
    fn range(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let end = *self.ends.get(index)?;
        let begin = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        // The data is in memory and was checked to contain every record, so the offset fits in a
        // `usize`.
        let place = |at: u64| usize::try_from(at).ok().map(|at| self.start + at);
        Some(place(begin)?..place(end)?)
    }
}
