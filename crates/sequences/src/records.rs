//! Reading the records of a Riegeli file by position, as if they were concatenated. Chunks are
//! decoded when they are read.

mod decoded;

use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use proto_splitter_core::wire::{Input, SourceInput, StreamInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{
    Chunk, ChunkType, CompressionKind, ReadAt, ReaderOptions, RecordFile, RecordPosition,
};

use crate::recent::Recent;
use decoded::{Decoded, SpilledFile};

/// Maximum size of a decoded chunk in memory, in bytes. A larger chunk is decoded to a temporary
/// file or, if it isn't compressed, read directly from the source.
const MAX_IN_MEMORY: u64 = 16 << 20;

/// Maximum total size of decoded chunks in the cache, in bytes.
const MAX_KEPT: u64 = 32 << 20;

/// The concatenated records of a Riegeli file, which can be read by position.
///
/// When a position is read, the chunk of records that contains it is decoded, and its hash is
/// verified.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_sequences::Records;
/// use record_file::{ReadAt, RecordWriter};
///
/// let mut writer = RecordWriter::with_defaults(Vec::new());
/// writer.write_record(b"\x0a\x01a")?;
/// writer.write_record(b"\x0a\x02bc")?;
///
/// let mut records = Records::new(Arc::new(writer.finish()?))?;
/// assert_eq!(records.find(u64::MAX)?.records, 2);
/// assert_eq!(records.range(1..2)?, 3..7);
/// let mut second = [0; 4];
/// records.read_exact_at(3, &mut second)?;
/// assert_eq!(&second, b"\x0a\x02bc");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Records {
    file: RecordFile<Arc<dyn ReadAt>>,
    chunks: Vec<Placed>,
    /// Indices of the records that needn't be messages, as sorted ranges.
    opaque: Vec<Range<u64>>,
    size: u64,
    kept: Recent<Decoded>,
    spilled: SpilledFile,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("chunks", &self.chunks.len())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A chunk of records, and its position in the concatenation of all records.
#[derive(Clone, Copy, Debug)]
struct Placed {
    chunk: Chunk,
    /// Offset of the chunk's first record in the concatenation of all records.
    start: u64,
    /// Index of the chunk's first record in the file.
    first: u64,
}

impl Placed {
    fn size(&self) -> u64 {
        self.chunk.header.decoded_data_size
    }

    fn count(&self) -> u64 {
        self.chunk.header.num_records
    }

    /// Returns the size of the decoded chunk in memory, in bytes: that of its records, and of the
    /// offsets at which they end. Records without bytes take memory, too.
    fn memory(&self) -> u64 {
        let ends = self.count().saturating_mul(size_of::<usize>() as u64);
        self.size().saturating_add(ends)
    }
}

/// The number of records that have been found in a file, and the end of the last chunk that
/// contains any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of records in the chunks that were found.
    pub records: u64,
    /// Offset in the file, in bytes, at which the last chunk that was found ends.
    pub end: u64,
}

impl Records {
    /// Opens a Riegeli file. Before reading, call [`find`](Self::find) to find the records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Record`] if the source isn't a Riegeli file; [`ErrorKind::Io`] if the source
    /// can't be read.
    pub fn new(source: Arc<dyn ReadAt>) -> Result<Records> {
        Ok(Records {
            file: RecordFile::open(source, ReaderOptions::new())?,
            chunks: Vec::new(),
            opaque: Vec::new(),
            size: 0,
            kept: Recent::new(MAX_KEPT),
            spilled: SpilledFile::default(),
        })
    }

    /// Returns the record file.
    pub fn file(&self) -> &RecordFile<Arc<dyn ReadAt>> {
        &self.file
    }

    /// Returns the first record if it has at most `most` bytes. Returns `None` if it is larger, or
    /// there are no records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Record`] if the first chunk is damaged; [`ErrorKind::Io`] if the file can't be
    /// read.
    pub fn first(&mut self, most: u64) -> Result<Option<Bytes>> {
        self.find(1)?;
        let Some(placed) = self.chunks.first().copied() else {
            return Ok(None);
        };
        let alone = placed.count() == 1;
        if placed.size() > if alone { most } else { most.max(MAX_IN_MEMORY) } {
            return Ok(None);
        }
        let position = RecordPosition::new(placed.chunk.begin().0, 0);
        let record = self.file.read_record(position)?;
        Ok((record.len() as u64 <= most).then_some(record))
    }

    /// Finds records until at least `wanted` records have been found or the file ends. Only the
    /// headers of chunks are read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Record`] with the index of the next record if a header is damaged;
    /// [`ErrorKind::Io`] if the file can't be read.
    pub fn find(&mut self, wanted: u64) -> Result<Found> {
        let mut found = self.found();
        if found.records < wanted {
            for chunk in self.file.chunks_from(found.end.into()) {
                let chunk = chunk.map_err(|error| {
                    Error::from(error).context(format!("record {}", found.records))
                })?;
                found.end = chunk.end().0;
                if !matches!(chunk.header.kind, ChunkType::Simple | ChunkType::Transposed)
                    || chunk.header.num_records == 0
                {
                    continue;
                }
                let (start, first) = (self.size, found.records);
                self.size = start
                    .checked_add(chunk.header.decoded_data_size)
                    .ok_or_else(too_large)?;
                found.records = first
                    .checked_add(chunk.header.num_records)
                    .ok_or_else(too_large)?;
                self.chunks.push(Placed {
                    chunk,
                    start,
                    first,
                });
                if found.records >= wanted {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns the number of records that have been found, and the offset in the file at which the
    /// last chunk of these records ends.
    pub fn found(&self) -> Found {
        self.chunks
            .last()
            .map_or(Found { records: 0, end: 0 }, |last| Found {
                records: last.first + last.count(),
                end: last.chunk.end().0,
            })
    }

    /// Sets the indices of records that needn't be messages, as sorted ranges. By default, all
    /// records must be messages. Reading fails if a record that must be a message isn't one.
    pub fn set_opaque(&mut self, numbers: Vec<Range<u64>>) {
        self.opaque = numbers;
    }

    /// Returns the byte range that the records with the indices `records` occupy in the
    /// concatenation of all records. These records must have been [found](Self::find). If the range
    /// begins or ends in the middle of a chunk, that chunk is decoded.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Record`] if a decoded chunk is damaged; [`ErrorKind::Io`] if the file can't be
    /// read.
    pub fn range(&self, records: Range<u64>) -> Result<Range<u64>> {
        if records.is_empty() {
            return Ok(0..0);
        }
        let start = self.start_of(records.start)?;
        Ok(start..self.start_of(records.end)?)
    }

    /// Returns the byte range of each chunk in the concatenation of all records, and the range of
    /// indices of the chunk's records.
    pub(crate) fn chunks(&self) -> impl ExactSizeIterator<Item = (Range<u64>, Range<u64>)> + '_ {
        self.chunks.iter().map(|placed| {
            let (start, first) = (placed.start, placed.first);
            (start..start + placed.size(), first..first + placed.count())
        })
    }

    /// Passes each record of the chunk with the index `chunk` to `take`. Fails for a single record
    /// that is too large for memory, so don't call this for a chunk with only one record.
    pub(crate) fn records_in(
        &self,
        chunk: usize,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Decoded::Memory { data, ends } = &*self.decoded(chunk)? else {
            let message = "a record alone in its chunk must be read by position";
            return Err(Error::new(ErrorKind::Record, message));
        };
        let mut start = 0;
        for &end in ends {
            take(data.get(start..end).unwrap_or_default())?;
            start = end;
        }
        Ok(())
    }

    fn start_of(&self, record: u64) -> Result<u64> {
        let index = self
            .chunks
            .partition_point(|placed| placed.first + placed.count() <= record);
        let Some(placed) = self.chunks.get(index) else {
            return Ok(self.size);
        };
        if record == placed.first {
            return Ok(placed.start);
        }
        let decoded = self.decoded(index)?;
        let skipped = usize::try_from(record - placed.first).unwrap_or(usize::MAX);
        decoded
            .end_of(skipped - 1)
            .map(|end| placed.start + end)
            .ok_or_else(|| {
                let message = "a chunk has fewer records than its header claims";
                let error = Error::new(ErrorKind::Record, message);
                let error = error.at_offset(placed.chunk.begin().0);
                error.context(Self::numbers(placed))
            })
    }

    /// Returns the chunk that contains the byte at `offset`, with the chunk's index. Returns `None`
    /// if `offset` is at or after the end of the records.
    fn placed(&self, offset: u64) -> Option<(usize, &Placed)> {
        // If several chunks start at the offset, all except the last have only empty records.
        let behind = self.chunks.partition_point(|placed| placed.start <= offset);
        let index = behind.checked_sub(1).filter(|_| offset < self.size)?;
        Some((index, self.chunks.get(index)?))
    }

    /// Returns the indices of a chunk's records as text, for error messages.
    fn numbers(placed: &Placed) -> String {
        match placed.count() {
            1 => format!("record {}", placed.first),
            more => format!("records {} to {}", placed.first, placed.first + more - 1),
        }
    }

    /// Returns the chunk with this index from the cache. If it isn't there, decodes and checks it.
    fn decoded(&self, index: usize) -> Result<Arc<Decoded>> {
        let Some(placed) = self.chunks.get(index) else {
            let message = "there is no such chunk of records";
            return Err(Error::new(ErrorKind::Record, message));
        };
        self.kept.get_or_make(index, placed.memory(), || {
            self.decode(placed)
                .map_err(|error| error.context(Self::numbers(placed)))
        })
    }

    fn decode(&self, placed: &Placed) -> Result<Decoded> {
        let streams = placed.chunk.header.kind == ChunkType::Simple
            && placed.count() == 1
            && placed.size() > MAX_IN_MEMORY;
        if streams {
            let decoded = self.decode_stream(placed);
            let reaches_far = |error: &Error| error.kind() == ErrorKind::LimitExceeded;
            if !decoded.as_ref().is_err_and(reaches_far) {
                return decoded;
            }
            // A snappy stream that refers far back can only be decompressed as a whole. No known
            // writer creates such streams.
        }
        let decoded = Decoded::memory(&self.file.read_known_chunk(&placed.chunk)?);
        self.checked(placed, decoded)
    }

    /// Decodes a chunk whose only record is too large for memory.
    fn decode_stream(&self, placed: &Placed) -> Result<Decoded> {
        let chunk = &placed.chunk;
        let kind = self.file.compression(chunk);
        let position = RecordPosition::new(chunk.begin().0, 0);
        let stream = self.file.record_stream_in(position, chunk)?;
        if kind? == CompressionKind::None {
            if self.is_opaque(placed.first) {
                StreamInput::new(stream, placed.size()).finish()?;
            } else {
                let mut cursor = WireCursor::new(StreamInput::new(stream, placed.size()));
                let hopped = hop(&mut cursor, placed.first);
                // Reports damage of the chunk first, since it may be the cause of an error in
                // `hopped`.
                cursor.into_input().finish()?;
                hopped?;
            }
            // The record is at the end of the chunk's data.
            let front = chunk.header.data_size.checked_sub(placed.size());
            let front = front.ok_or_else(too_large)?;
            return Ok(Decoded::Stored(*chunk, front));
        }
        let (at, len) = self.spilled.add(stream)?;
        if len != placed.size() {
            let message = format!("the record has {len} bytes, expected {}", placed.size());
            return Err(Error::new(ErrorKind::Record, message));
        }
        self.checked(placed, Decoded::Spilled(at, len))
    }

    /// Reads a whole chunk directly into `buf` if its only record is too large for the cache.
    /// Returns false, without reading, for any other chunk.
    fn read_whole(&self, index: usize, placed: &Placed, buf: &mut [u8]) -> Result<bool> {
        let is_one = placed.chunk.header.kind == ChunkType::Simple && placed.count() == 1;
        if !is_one || placed.size() <= MAX_IN_MEMORY || self.kept.is_settled(index) {
            return Ok(false);
        }
        let position = RecordPosition::new(placed.chunk.begin().0, 0);
        let read = self
            .file
            .record_stream_in(position, &placed.chunk)
            .map_err(io::Error::from)
            .and_then(|mut stream| stream.read_exact(buf))
            .map_err(Error::from);
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::LimitExceeded => return Ok(false),
            Err(error) => return Err(error.context(Self::numbers(placed))),
        }
        if !self.is_opaque(placed.first) {
            hop(&mut WireCursor::new(&*buf), placed.first)?;
        }
        Ok(true)
    }

    /// Returns the decoded chunk. Fails if a record that must be a message isn't one.
    fn checked(&self, placed: &Placed, decoded: Decoded) -> Result<Decoded> {
        match &decoded {
            Decoded::Memory { data, ends } => {
                let mut start = 0;
                for (number, &end) in (placed.first..).zip(ends) {
                    if !self.is_opaque(number) {
                        let record = data.get(start..end).unwrap_or_default();
                        hop(&mut WireCursor::new(record), number)?;
                    }
                    start = end;
                }
            }
            Decoded::Spilled(at, len) if !self.is_opaque(placed.first) => {
                let reader = SpilledRecord {
                    records: self,
                    at: *at,
                    len: *len,
                };
                hop(
                    &mut WireCursor::new(SourceInput::new(&reader, *len)),
                    placed.first,
                )?;
            }
            Decoded::Spilled(..) | Decoded::Stored(..) => {}
        }
        Ok(decoded)
    }

    fn is_opaque(&self, number: u64) -> bool {
        let index = self.opaque.partition_point(|range| range.end <= number);
        self.opaque
            .get(index)
            .is_some_and(|range| range.contains(&number))
    }

    fn read_decoded(&self, decoded: &Decoded, skip: u64, buf: &mut [u8]) -> io::Result<usize> {
        match decoded {
            Decoded::Memory { data, .. } => data.read_at(skip, buf),
            Decoded::Spilled(at, len) => {
                let left = usize::try_from(len.saturating_sub(skip)).unwrap_or(usize::MAX);
                let len = left.min(buf.len());
                self.spilled.read_at(at + skip, &mut buf[..len])?;
                Ok(len)
            }
            Decoded::Stored(chunk, front) => {
                let (position, left) = chunk.data_position(front + skip);
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
                self.file
                    .get_ref()
                    .read_exact_at(position, &mut buf[..len])?;
                Ok(len)
            }
        }
    }
}

impl ReadAt for Records {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some((index, placed)) = self.placed(offset).filter(|_| !buf.is_empty()) else {
            return Ok(0);
        };
        let skip = offset - placed.start;
        let left = usize::try_from(placed.size() - skip).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        if len as u64 == placed.size() && self.read_whole(index, placed, &mut buf[..len])? {
            return Ok(len);
        }
        let decoded = self.decoded(index)?;
        self.read_decoded(&decoded, skip, &mut buf[..len])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn extent(&self, offset: u64) -> Option<Range<u64>> {
        let (_, placed) = self.placed(offset)?;
        Some(placed.start..placed.start + placed.size())
    }
}

/// A reader for a record in the temporary file.
struct SpilledRecord<'a> {
    records: &'a Records,
    at: u64,
    len: u64,
}

impl ReadAt for SpilledRecord<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let decoded = Decoded::Spilled(self.at, self.len);
        self.records.read_decoded(&decoded, offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

/// Checks that a record is a message, by skipping over its fields. `number` is the record's index.
fn hop<I: Input>(cursor: &mut WireCursor<I>, number: u64) -> Result<()> {
    loop {
        match cursor.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) => {
                return Err(error.context(format!("record {number} is not a message")));
            }
        }
    }
}

#[cold]
fn too_large() -> Error {
    let message = "the records claim more bytes than a file can have";
    Error::new(ErrorKind::Record, message)
}

#[cfg(test)]
mod tests {
    use record_file::RecordWriter;

    use super::*;

    #[test]
    fn records_without_bytes_are_kept_only_while_their_offsets_fit_in_the_cache() {
        const COUNT: u64 = 1000;
        let mut writer = RecordWriter::with_defaults(Vec::new());
        for _ in 0..COUNT {
            writer.write_record(b"").unwrap();
        }
        let file = writer.finish().unwrap();
        let mut records = Records::new(Arc::new(file)).unwrap();
        assert_eq!(records.find(u64::MAX).unwrap().records, COUNT);
        for index in 0..records.chunks.len() {
            records.decoded(index).unwrap();
        }
        assert!(records.kept.size() >= COUNT * size_of::<usize>() as u64);
    }
}
