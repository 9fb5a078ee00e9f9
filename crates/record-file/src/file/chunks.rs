//! Methods that find chunks and records by reading only headers.
use super::RecordFile;
use crate::chunk::Chunk;
use crate::error::{Error, Result};
use crate::headers::{check_around, chunk_before};
use crate::position::{ChunkOffset, RecordPosition};
use crate::read_at::ReadAt;

impl<S: ReadAt> RecordFile<S> {
    /// Returns the chunks of all kinds, in order, reading only their headers.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ChunkType, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let kinds = file.chunks().map(|chunk| Ok(chunk?.header.kind));
    /// let kinds = kinds.collect::<Result<Vec<_>, record_file::Error>>()?;
    /// assert_eq!(kinds, [ChunkType::Signature, ChunkType::Simple]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn chunks(&self) -> Chunks<'_, S> {
        self.chunks_from(ChunkOffset(0))
    }

    /// Returns the chunks from the chunk at `begin` to the end of the file, like
    /// [`chunks`](Self::chunks).
    pub fn chunks_from(&self, begin: ChunkOffset) -> Chunks<'_, S> {
        Chunks {
            file: self,
            next: Some(begin.0),
        }
    }

    /// Returns the position of the record with this [number](RecordPosition::numeric).
    ///
    /// # Errors
    ///
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if no record has this number, or any
    /// error from reading headers.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"two")?;
    /// let number = writer.last_position().ok_or("two were written")?.numeric();
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// assert_eq!(file.read_record(file.locate(number)?)?, b"two"[..]);
    /// assert!(file.locate(number + 1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn locate(&self, numeric: u64) -> Result<RecordPosition> {
        self.locate_in_chunk(numeric).map(|(position, _)| position)
    }

    /// Returns the position of the record with this number, like [`locate`](Self::locate), and the
    /// record's chunk.
    ///
    /// # Errors
    ///
    /// The same errors as `locate`.
    pub fn locate_in_chunk(&self, numeric: u64) -> Result<(RecordPosition, Chunk)> {
        if numeric < self.size {
            for chunk in self.chunks_from(ChunkOffset(self.chunk_before(numeric)?)) {
                let chunk = chunk?;
                check_around(chunk.begin, chunk.end, numeric)?;
                if numeric - chunk.begin < chunk.header.num_records {
                    let position = RecordPosition::new(chunk.begin, numeric - chunk.begin);
                    return Ok((position, chunk));
                }
                if numeric < chunk.end {
                    break;
                }
            }
        }
        Err(Error::no_record_at(numeric))
    }

    /// Returns the position of the last record, or `None` if the file has no records. Reads only
    /// headers near the end.
    ///
    /// # Errors
    ///
    /// An error if the file doesn't end exactly at the end of a chunk, or any error from reading
    /// headers.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// for index in 0..1000u32 {
    ///     writer.write_record(&index.to_le_bytes())?;
    /// }
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let last = file.last_record()?.ok_or("there are 1000")?;
    /// assert_eq!(file.read_record(last)?, 999u32.to_le_bytes()[..]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_record(&self) -> Result<Option<RecordPosition>> {
        let mut end = self.size;
        while end > 0 {
            let start = self.chunk_before(end - 1)?;
            let mut last = None;
            let mut begin = start;
            while begin < end {
                let chunk = self.chunk_header_at(ChunkOffset(begin))?;
                check_around(begin, chunk.end, end - 1)?;
                if chunk.header.num_records > 0 {
                    last = Some(RecordPosition::new(begin, chunk.header.num_records - 1));
                }
                begin = chunk.end;
            }
            if begin > end {
                return Err(Error::corrupt(start, "chunks overlap"));
            }
            if last.is_some() {
                return Ok(last);
            }
            end = start;
        }
        Ok(None)
    }

    fn chunk_before(&self, pos: u64) -> Result<u64> {
        Ok(chunk_before(&mut &self.source, pos)?)
    }
}

/// An iterator over the chunks of a file, in order. The iterator ends after an error.
#[derive(Debug)]
pub struct Chunks<'a, S> {
    file: &'a RecordFile<S>,
    next: Option<u64>,
}

impl<S: ReadAt> Iterator for Chunks<'_, S> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        let begin = self.next.take().filter(|&begin| begin < self.file.size)?;
        let chunk = self.file.chunk_header_at(ChunkOffset(begin));
        if let Ok(chunk) = &chunk {
            self.next = Some(chunk.end);
        }
        Some(chunk)
    }
}

impl<S: ReadAt> std::iter::FusedIterator for Chunks<'_, S> {}
