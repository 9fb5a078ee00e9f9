//! Binary search in a file whose records are sorted.
use std::cmp::Ordering;

use super::RecordReader;
use crate::chunk::Chunk;
use crate::error::{ErrorKind, Result};
use crate::fault::Fault;
use crate::position::RecordPosition;
use crate::read_at::ReadAt;

/// The result of comparing a record with the wanted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchGuide {
    /// The record is less than, equal to, or greater than the wanted record.
    Order(Ordering),
    /// The record can't be compared; its neighbors may be comparable.
    Unordered,
    /// The search must stop at this record.
    Stop,
}

impl From<Ordering> for SearchGuide {
    fn from(order: Ordering) -> Self {
        SearchGuide::Order(order)
    }
}

/// The outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    /// A record equal to the wanted record was found. It will be read next.
    Equal,
    /// No record is equal to the wanted record. The first record that comes after the wanted record
    /// will be read next.
    Greater,
    /// All records come before the wanted record. The reader is at the end of the file.
    Nothing,
    /// The test stopped the search. The last tested record will be read next.
    Stopped,
}

/// The result of testing the records in a chunk, with the index of the record that determined the
/// result.
enum Judged {
    Order(Ordering, usize),
    Unordered,
    Stop(usize),
}

impl<S: ReadAt> RecordReader<S> {
    /// Searches a file whose records are sorted, reading only a few of its chunks.
    ///
    /// `test` compares a record with the wanted record: [`Ordering::Less`] means that the record
    /// comes before the wanted record. Damaged chunks count as [`SearchGuide::Unordered`].
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) or [`LimitExceeded`](crate::ErrorKind::LimitExceeded), as for
    /// [`read_record`](Self::read_record).
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{SearchResult, ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new().chunk_size(100))?;
    /// for number in 0..1000u32 {
    ///     writer.write_record(&(2 * number).to_be_bytes())?;
    /// }
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// let found = reader.search(|record| record.cmp(&777u32.to_be_bytes()).into())?;
    /// assert_eq!(found, SearchResult::Greater);
    /// assert_eq!(reader.read_record()?, Some(&778u32.to_be_bytes()[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn search(&mut self, mut test: impl FnMut(&[u8]) -> SearchGuide) -> Result<SearchResult> {
        self.last = None;
        let recovery = self.recovery.take();
        let result = self.search_chunks(&mut test);
        self.recovery = recovery;
        result
    }

    fn search_chunks(
        &mut self,
        test: &mut dyn FnMut(&[u8]) -> SearchGuide,
    ) -> Result<SearchResult> {
        let size = self.size()?;
        let (mut low, mut high) = (0, size);
        // `less` is the beginning of the last chunk whose first comparable record is known to come
        // before the wanted record, and the index of that record.
        let mut less = None;
        let mut greater = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut at = self.begin_of_chunk_at(middle)?.max(low);
            // Bytes from the middle up to `at`, if any, are damaged. A search among smaller records
            // ends before these bytes.
            let first = at.min(middle);
            let mut decided = false;
            // Skip chunks without comparable records.
            while at < high {
                let (judged, end) = self.judge(at, test)?;
                let position = |index: usize| RecordPosition::new(at, index as u64);
                match judged {
                    Judged::Order(Ordering::Equal, index) => {
                        return self.go_to(position(index), SearchResult::Equal);
                    }
                    Judged::Stop(index) => {
                        return self.go_to(position(index), SearchResult::Stopped);
                    }
                    Judged::Order(Ordering::Less, index) => {
                        less = Some((at, index));
                        low = end;
                        decided = true;
                    }
                    Judged::Order(Ordering::Greater, index) => {
                        greater = Some(position(index));
                        high = first;
                        decided = true;
                    }
                    Judged::Unordered => {
                        at = end;
                        continue;
                    }
                }
                break;
            }
            if !decided {
                high = first;
            }
        }
        if let Some((begin, index)) = less {
            match self.search_in_chunk(begin, index + 1, test)? {
                Judged::Order(Ordering::Equal, index) => {
                    return self.go_to(
                        RecordPosition::new(begin, index as u64),
                        SearchResult::Equal,
                    );
                }
                Judged::Order(_, index) => {
                    return self.go_to(
                        RecordPosition::new(begin, index as u64),
                        SearchResult::Greater,
                    );
                }
                Judged::Stop(index) => {
                    return self.go_to(
                        RecordPosition::new(begin, index as u64),
                        SearchResult::Stopped,
                    );
                }
                Judged::Unordered => {}
            }
        }
        if let Some(position) = greater {
            return self.go_to(position, SearchResult::Greater);
        }
        // Doesn't seek to the end, since a truncated file may end where no chunk can begin.
        self.unload();
        self.begin = size;
        Ok(SearchResult::Nothing)
    }

    fn go_to(&mut self, position: RecordPosition, found: SearchResult) -> Result<SearchResult> {
        self.seek(position)?;
        self.last = None;
        Ok(found)
    }

    /// Returns the beginning of the chunk that contains `pos`, or the end of the damage at `pos`.
    fn begin_of_chunk_at(&mut self, pos: u64) -> Result<u64> {
        match self.chunk_at(pos) {
            Ok(chunk) => Ok(chunk.map_or(pos, |chunk: Chunk| chunk.begin)),
            Err((begin, fault)) => self.past(begin, fault),
        }
    }

    fn past(&mut self, begin: u64, fault: Fault) -> Result<u64> {
        Ok(self.resync(begin, fault)?.end)
    }

    /// Tests the records of the chunk at `at` up to the first comparable record. Returns the result
    /// of the test, and the end of the chunk.
    fn judge(
        &mut self,
        at: u64,
        test: &mut dyn FnMut(&[u8]) -> SearchGuide,
    ) -> Result<(Judged, u64)> {
        self.unload();
        self.begin = at;
        match self.load() {
            Ok(true) => {}
            Ok(false) => return Ok((Judged::Unordered, u64::MAX)),
            // The wanted record may be in a chunk that is too large.
            Err(fault) if fault.error.kind() == ErrorKind::LimitExceeded => {
                return Err(fault.error);
            }
            Err(fault) => return Ok((Judged::Unordered, self.past(at, fault)?)),
        }
        let Some(loaded) = &self.loaded else {
            return Ok((Judged::Unordered, u64::MAX));
        };
        for (index, record) in loaded.records.records().enumerate() {
            match test(record) {
                SearchGuide::Order(order) => return Ok((Judged::Order(order, index), loaded.end)),
                SearchGuide::Stop => return Ok((Judged::Stop(index), loaded.end)),
                SearchGuide::Unordered => {}
            }
        }
        Ok((Judged::Unordered, loaded.end))
    }

    /// In the chunk at `begin`, finds the first record at or after index `low` that doesn't come
    /// before the wanted record.
    fn search_in_chunk(
        &mut self,
        begin: u64,
        mut low: usize,
        test: &mut dyn FnMut(&[u8]) -> SearchGuide,
    ) -> Result<Judged> {
        if self.loaded.is_none() || self.begin != begin {
            self.unload();
            self.begin = begin;
            self.load()?;
        }
        let Some(loaded) = &self.loaded else {
            return Ok(Judged::Unordered);
        };
        let records = &loaded.records;
        let mut high = records.len();
        let mut greater = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut at = middle;
            loop {
                let Some(record) = records.record(at).filter(|_| at < high) else {
                    high = middle;
                    break;
                };
                match test(record) {
                    SearchGuide::Order(Ordering::Equal) => {
                        return Ok(Judged::Order(Ordering::Equal, at));
                    }
                    SearchGuide::Stop => return Ok(Judged::Stop(at)),
                    SearchGuide::Order(Ordering::Less) => {
                        low = at + 1;
                        break;
                    }
                    SearchGuide::Order(Ordering::Greater) => {
                        greater = Some(at);
                        high = middle;
                        break;
                    }
                    SearchGuide::Unordered => at += 1,
                }
            }
        }
        Ok(greater.map_or(Judged::Unordered, |at| Judged::Order(Ordering::Greater, at)))
    }
}
