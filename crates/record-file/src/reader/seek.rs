//! Moving a reader to a position in the file.
use super::RecordReader;
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::{Fault, FaultPlace};
use crate::headers::{check_around, chunk_before};
use crate::position::RecordPosition;
use crate::read_at::ReadAt;

impl<S: ReadAt> RecordReader<S> {
    /// Returns the current size of the file, in bytes.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if the input fails.
    pub fn size(&self) -> Result<u64> {
        self.input
            .inner
            .size()
            .map_err(|error| Error::io(None, error))
    }

    /// Moves to a record. If the index is beyond the chunk's last record, moves to the end of the
    /// chunk.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](ErrorKind::InvalidPosition) if the chunk would begin beyond the end of
    /// the file, or where no chunk can begin; any error from reading the chunk, unless the index is
    /// 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let mut positions = Vec::new();
    /// for record in ["one", "two", "three"] {
    ///     writer.write_record(record.as_bytes())?;
    ///     positions.extend(writer.last_position());
    /// }
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// reader.seek(positions[1])?;
    /// assert_eq!(reader.read_record()?, Some(&b"two"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn seek(&mut self, position: RecordPosition) -> Result<()> {
        let begin = position.chunk_begin().0;
        self.check_within(begin)?;
        if !crate::block::is_chunk_boundary(begin) {
            return Err(Error::no_chunk_at(begin));
        }
        self.last = None;
        if begin != self.begin || self.loaded.is_none() {
            self.unload();
            self.begin = begin;
        }
        self.index = usize::try_from(position.record_index()).unwrap_or(usize::MAX);
        match &self.loaded {
            Some(loaded) => self.index = self.index.min(loaded.records.len()),
            None if self.index > 0 => {
                if let Err(fault) = self.go_into() {
                    self.recover(fault)?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Loads the chunk at the reader's position. If the chunk is too large to load and has no
    /// record at `index`, moves to the chunk's end instead.
    fn go_into(&mut self) -> Result<(), Fault> {
        match self.load() {
            Err(fault) if fault.error.kind() == ErrorKind::LimitExceeded => {
                let end = |chunk: &Chunk| {
                    chunk.begin == self.begin && self.index as u64 >= chunk.records()
                };
                let chunk = self.head.filter(end).ok_or(fault)?;
                self.index = usize::try_from(chunk.records()).unwrap_or(usize::MAX);
                self.passed = Some(chunk);
                Ok(())
            }
            loaded => loaded.map(drop),
        }
    }

    /// Moves to the record with this [number](RecordPosition::numeric) or, if no record has this
    /// number, to the first record with a larger number.
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](ErrorKind::InvalidPosition) if the number is beyond the end of the file;
    /// any error from reading headers and the chunk.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let first = writer.write_record_alone(b"one", Compression::None)?;
    /// writer.write_record(b"two")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// reader.seek_numeric(first.numeric())?;
    /// assert_eq!(reader.read_record()?, Some(&b"one"[..]));
    /// // No record has this number.
    /// reader.seek_numeric(first.numeric() + 1)?;
    /// assert_eq!(reader.read_record()?, Some(&b"two"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn seek_numeric(&mut self, numeric: u64) -> Result<()> {
        self.check_within(numeric)?;
        self.last = None;
        if let Some(loaded) = &self.loaded
            && (self.begin..loaded.end).contains(&numeric)
        {
            return self.seek(RecordPosition::new(self.begin, numeric - self.begin));
        }
        self.unload();
        let mut found = self.chunk_at(numeric);
        let chunk = loop {
            match found {
                Ok(chunk) => break chunk,
                Err((begin, fault)) => {
                    self.begin = begin;
                    if !self.recover(fault)? || self.begin > numeric {
                        return Ok(());
                    }
                    // The damage ends before the record.
                    found = self.chunk_from(self.begin, numeric, 0);
                }
            }
        };
        match chunk {
            Some(chunk) if numeric - chunk.begin < chunk.header.num_records => {
                self.seek(RecordPosition::new(chunk.begin, numeric - chunk.begin))
            }
            // The beginning of a chunk is a valid position even if the chunk has no records.
            Some(chunk) if numeric == chunk.begin => self.seek(RecordPosition::new(numeric, 0)),
            Some(chunk) => {
                self.begin = chunk.end;
                Ok(())
            }
            None => {
                self.begin = self.size()?;
                Ok(())
            }
        }
    }

    /// Moves one record back, so that the previous record is read next. Returns false, without
    /// moving, if there is no previous record, or if the callback for damage ends the search.
    ///
    /// # Errors
    ///
    /// Any error from reading headers and a chunk. An error doesn't move the reader.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"two")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// reader.seek_numeric(reader.size()?)?;
    /// assert!(reader.seek_back()?);
    /// assert_eq!(reader.read_record()?, Some(&b"two"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn seek_back(&mut self) -> Result<bool> {
        self.last = None;
        let (begin, index, passed) = (self.begin, self.index, self.passed);
        let moved = self.go_back();
        if !matches!(moved, Ok(true)) {
            // The search may have visited earlier chunks.
            if (self.begin, self.index) != (begin, index) {
                self.unload();
                (self.begin, self.index) = (begin, index);
            }
            self.passed = passed;
        }
        moved
    }

    /// Does the same as [`seek_back`](Self::seek_back), but may also move the reader if it fails or
    /// returns false.
    fn go_back(&mut self) -> Result<bool> {
        let mut end = self.begin;
        // If the chunk is damaged, the previous record is in an earlier chunk.
        if self.index > 0
            && self.loaded.is_none()
            && self.passed.is_none()
            && let Err(fault) = self.go_into()
            && !self.recover(fault)?
        {
            return Ok(false);
        }
        if self.index > 0 {
            self.passed = None;
            self.index -= 1;
            return Ok(true);
        }
        while end > 0 {
            match self.last_chunk_with_records(end) {
                Ok((start, None)) => end = start,
                Ok((_, Some(chunk))) => {
                    let index = chunk.header.num_records - 1;
                    self.unload();
                    self.begin = chunk.begin;
                    self.index = usize::try_from(index).unwrap_or(usize::MAX);
                    if self.index > 0
                        && let Err(fault) = self.go_into()
                    {
                        // The chunk is damaged, so the previous record is in an earlier chunk.
                        if !self.recover(fault)? {
                            return Ok(false);
                        }
                        end = chunk.begin;
                        continue;
                    }
                    return Ok(true);
                }
                Err((begin, fault)) => {
                    // When the reader moves backwards, unreadable chunks are skipped only with
                    // recovery.
                    if self.recovery.is_none() || begin >= end {
                        self.input.forget();
                        return Err(fault.error);
                    }
                    let region = self.resync(begin, fault)?;
                    if let Some(callback) = &mut self.recovery
                        && !callback(&region)
                    {
                        return Ok(false);
                    }
                    self.skipped = Some(region);
                    end = begin;
                }
            }
        }
        Ok(false)
    }

    /// Reads the headers of the chunks up to `end`, beginning with the chunk that the last block
    /// header before `end` locates. Returns the beginning of that chunk, and the last of these
    /// chunks that has records. Returns the last fault instead if no chunk after it has records.
    fn last_chunk_with_records(&mut self, end: u64) -> Result<(u64, Option<Chunk>), (u64, Fault)> {
        let before = crate::block::block_of(end - 1);
        let start = chunk_before(&mut self.input, end - 1).map_err(|fault| (before, fault))?;
        let mut begin = start;
        let mut last = Ok((start, None));
        while begin < end {
            let next = match self.header_at(begin) {
                Ok(Some(chunk)) => {
                    if chunk.header.num_records > 0 {
                        last = Ok((start, Some(chunk)));
                    }
                    chunk.end
                }
                Ok(None) => break,
                Err(fault) => {
                    let FaultPlace::Data { end } = fault.place else {
                        return Err((begin, fault));
                    };
                    last = Err((begin, fault));
                    end
                }
            };
            check_around(begin, next, end - 1).map_err(|fault| (before, fault))?;
            begin = next;
        }
        last
    }

    /// Returns the chunk that contains the file position `numeric`, or `None` at the end of the
    /// file. An error contains the position of the chunk or block in which a fault was found, and
    /// the fault.
    pub(super) fn chunk_at(&mut self, numeric: u64) -> Result<Option<Chunk>, (u64, Fault)> {
        if matches!(self.size(), Ok(size) if size == numeric) {
            return Ok(None);
        }
        let block = crate::block::block_of(numeric);
        let begin = chunk_before(&mut self.input, numeric).map_err(|fault| (block, fault))?;
        self.chunk_from(begin, numeric, block)
    }

    /// Does the same as [`chunk_at`](Self::chunk_at), but reads the headers of the chunks from
    /// `begin` on, which is the beginning of a chunk. Fails if a chunk before `block`, whose header
    /// gave `begin`, isn't around the block.
    fn chunk_from(
        &mut self,
        mut begin: u64,
        numeric: u64,
        block: u64,
    ) -> Result<Option<Chunk>, (u64, Fault)> {
        loop {
            let chunk = self.header_at(begin).map_err(|fault| (begin, fault))?;
            let Some(chunk) = chunk else { return Ok(None) };
            check_around(begin, chunk.end, block).map_err(|fault| (block, fault))?;
            if numeric < chunk.end {
                return Ok(Some(chunk));
            }
            begin = chunk.end;
        }
    }

    fn check_within(&self, position: u64) -> Result<()> {
        let size = self.size()?;
        if position <= size {
            return Ok(());
        }
        Err(Error::at(
            ErrorKind::InvalidPosition,
            position,
            format!("the file ends at {size:#x}"),
        ))
    }
}
