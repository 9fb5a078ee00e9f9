//! Writing records.
mod append;
mod copied;
mod encode;
mod encoded_record;
mod in_pieces;
mod later_position;
mod options;
mod pool;
mod sink;
mod streamed;
mod sync;
mod write_behind;

use std::io::Write;

pub use encoded_record::{EncodedRecord, plain_record_end};
pub use in_pieces::RecordInPieces;
pub use later_position::LaterPosition;
pub use options::{
    DEFAULT_BUCKET_FRACTION, DEFAULT_CHUNK_SIZE, DEFAULT_COMPRESSION, DEFAULT_MAX_COPIED,
    DEFAULT_PADDING, DEFAULT_UNCOMPRESSED_CHUNK_SIZE, LARGEST_PADDING, WriterOptions,
};
pub use sync::SyncData;

use crate::chunk::{ChunkHeader, MAX_RECORDS};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::position::RecordPosition;
use encode::{Encoder, Format, Gathered, encode_alone};
use later_position::Begin;
use pool::Pool;
use sink::{BlockSink, Patch};
use streamed::Source;

/// A writer that writes records to a file, and gathers small records in chunks.
///
/// [`finish`](Self::finish) completes the file; dropping an unfinished writer leaves a truncated
/// file. After an error, every later write fails.
///
/// # Memory
///
/// A writer holds the records of a chunk and their compressed form, once for each of its
/// [threads](WriterOptions::threads), and a few MiB in addition. A record in its own chunk is
/// copied only if a thread encodes it, but the record's compressed form is held, because the chunk
/// header, which is written first, contains the length and hash of that form. If the output can
/// seek back to fill in a header, as files can, call [`seekable`](Self::seekable) to make the
/// writer stream large records.
///
/// # Examples
///
/// ```
/// use record_file::{Compression, RecordWriter, WriterOptions};
///
/// let options = WriterOptions::new().compression(Compression::ZSTD);
/// let mut writer = RecordWriter::new(Vec::new(), options)?;
/// writer.write_record(b"a record")?;
/// writer.write_record_slices(&[b"one ", b"more"])?;
/// let file = writer.finish()?;
/// assert!(file.starts_with(b"\x83\xafp\xd1\r\x88J?"));
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordWriter<W> {
    sink: BlockSink<W>,
    /// The function that fills in headers later, if the writer is seekable.
    patch: Option<Patch<W>>,
    options: WriterOptions,
    format: Format,
    chunk_size: u64,
    encoder: Encoder,
    /// The records for the next chunk, which isn't encoded yet.
    gathered: Gathered,
    begin: Begin,
    /// Size of the gathered records that counts toward the chunk's limit, including 8 bytes per
    /// record.
    counted: u64,
    /// Reusable memory for encoded data.
    data: Vec<u8>,
    /// The threads that encode chunks; `None` if the caller's thread encodes all chunks.
    pool: Option<Pool>,
    /// Position of the last record in the most recently closed chunk; `None` if no chunk was
    /// closed.
    last: Option<LaterPosition>,
    /// Size of the most recently written chunk's data, in bytes.
    last_data_size: u64,
    failed: bool,
    /// An error to be returned by the next call.
    unsaid: Option<Error>,
}

/// Number of bytes counted for each record in addition to the record's content. This limits the
/// number of empty records in a chunk.
const RECORD_OVERHEAD: u64 = 8;
/// Minimum size of an uncompressed chunk that a thread hashes, in bytes: a smaller chunk takes less
/// time to hash than to hand over.
const MIN_HASHED_APART: u64 = 64 << 10;
/// Minimum size of an uncompressed record that is worth copying on another thread, in bytes.
const MIN_BEHIND: u64 = 1 << 20;

impl<W: Write> RecordWriter<W> {
    /// Creates a writer for a new file, which begins at the current position of `inner`.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option is out of range, in which
    /// case nothing is written; [`Io`](crate::ErrorKind::Io) if writing the metadata fails.
    pub fn new(inner: W, options: WriterOptions) -> Result<Self> {
        options.validate()?;
        let mut writer = Self::on(BlockSink::new(inner), options);
        if let Some(metadata) = &writer.options.metadata {
            let compression = &writer.options.compression;
            let mut data = Vec::new();
            let header = writer
                .encoder
                .encode_metadata(compression, metadata, &mut data)?;
            writer.write_chunk(&header, &data, &[])?;
        }
        Ok(writer)
    }

    fn on(sink: BlockSink<W>, options: WriterOptions) -> Self {
        let format = Format::new(&options);
        let threads = options.threads;
        RecordWriter {
            begin: Begin::Known(sink.pos()),
            sink,
            patch: None,
            format,
            chunk_size: options.effective_chunk_size(),
            encoder: Encoder::default(),
            gathered: Gathered::default(),
            counted: 0,
            data: Vec::new(),
            pool: (threads > 0).then(|| Pool::new(format, threads)),
            last: None,
            last_data_size: 0,
            failed: false,
            unsaid: None,
            options,
        }
    }

    /// Creates a writer for a new file with the default options.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::RecordWriter;
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"a record")?;
    /// assert!(writer.finish()?.len() > 64);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn with_defaults(inner: W) -> Self {
        Self::on(BlockSink::new(inner), WriterOptions::new())
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the underlying writer fails;
    /// [`Closed`](crate::ErrorKind::Closed) if an earlier write failed;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the record is too long for the
    /// compression.
    pub fn write_record(&mut self, record: &[u8]) -> Result<()> {
        self.write_record_slices(&[record])
    }

    /// Writes a record that is the concatenation of `parts`. A large record isn't copied.
    ///
    /// The file doesn't depend on how a record is divided into parts.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record).
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record_slices(&[b"a header, ", b"and ", b"a body"])?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// assert_eq!(reader.read_record()?, Some(&b"a header, and a body"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn write_record_slices(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.attempt(|writer| writer.add(parts))
    }

    /// Writes a record in its own chunk, with its own compression, and returns the record's
    /// position.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record);
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the compression's parameters are out
    /// of range, in which case the writer remains usable.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"shares a chunk")?;
    /// let position = writer.write_record_alone(b"has one", Compression::None)?;
    /// assert_eq!(position.record_index(), 0);
    /// assert_eq!(writer.last_position(), Some(position));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn write_record_alone(
        &mut self,
        record: &[u8],
        compression: Compression,
    ) -> Result<RecordPosition> {
        self.write_record_slices_alone(&[record], compression)
    }

    /// Writes the concatenation of `parts` as a record in its own chunk, like
    /// [`write_record_alone`](Self::write_record_alone).
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record_alone`](Self::write_record_alone).
    pub fn write_record_slices_alone(
        &mut self,
        parts: &[&[u8]],
        compression: Compression,
    ) -> Result<RecordPosition> {
        compression.validate()?;
        self.attempt(|writer| {
            writer.close_chunk()?;
            writer.settle()?;
            let begin = writer.sink.pos();
            writer.write_alone(parts, &compression)?;
            Ok(writer.wrote_alone(begin))
        })
    }

    /// Passes all pending records to the underlying writer, without flushing that writer.
    /// This method guarantees less than [`flush`](Self::flush) and [`sync`](Self::sync).
    ///
    /// Each push ends a chunk, and pads the file if the [options](WriterOptions::final_padding) ask
    /// for it, so frequent pushes make a file larger. Without new records, a push writes nothing.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record).
    pub fn push(&mut self) -> Result<()> {
        self.attempt(Self::push_all)
    }

    /// Pushes all records like [`push`](Self::push), and flushes the underlying writer. Afterwards,
    /// the records are in the file, even if this process ends abruptly, and other processes can
    /// read them.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record).
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut file = Vec::new();
    /// let mut writer = RecordWriter::with_defaults(&mut file);
    /// writer.write_record(b"flushed")?;
    /// writer.flush()?;
    /// writer.write_record(b"lost")?;
    /// drop(writer);
    /// let mut reader = RecordReader::new(&file, ReaderOptions::new());
    /// assert_eq!(reader.read_record()?, Some(&b"flushed"[..]));
    /// assert_eq!(reader.read_record()?, None);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn flush(&mut self) -> Result<()> {
        self.attempt(|writer| {
            writer.push_all()?;
            let flushed = writer.sink.get_mut().flush();
            flushed.map_err(|error| writer.io(error))
        })
    }

    /// Flushes all records like [`flush`](Self::flush), and waits until they would survive a crash
    /// of the machine.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record).
    pub fn sync(&mut self) -> Result<()>
    where
        W: SyncData,
    {
        self.flush()?;
        self.attempt(|writer| {
            let synced = writer.sink.get_mut().sync_data();
            synced.map_err(|error| writer.io(error))
        })
    }

    /// Completes the file, and returns the underlying writer.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_record`](Self::write_record).
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        Ok(self.sink.into_inner())
    }

    /// Returns the position that the next record will have if it fits in the current chunk.
    ///
    /// With [`threads`](WriterOptions::threads), this waits for all chunks to be encoded and
    /// written. If one of the chunks fails, the next write, flush or [`finish`](Self::finish)
    /// returns the error.
    pub fn position(&mut self) -> RecordPosition {
        if !self.failed
            && let Err(error) = self.settle()
        {
            self.fail_later(error);
        }
        RecordPosition::new(self.sink.pos(), self.gathered.num_records)
    }

    /// Returns the position of the most recently written record; `None` if there are no records, or
    /// the writer has failed.
    ///
    /// With [`threads`](WriterOptions::threads), this waits until the chunks before the record are
    /// encoded and written. To get the position of every record, use
    /// [`last_position_later`](Self::last_position_later), which doesn't stall the threads. If one
    /// of the chunks fails, the next write, flush or [`finish`](Self::finish) returns the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::RecordWriter;
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// assert_eq!(writer.last_position(), None);
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"two")?;
    /// let position = writer.last_position().ok_or("two were written")?;
    /// assert_eq!((position.chunk_begin().0, position.record_index()), (64, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_position(&mut self) -> Option<RecordPosition> {
        let last = self.last_position_later()?;
        while last.get().is_none() && !self.failed {
            match self.write_next() {
                Ok(true) => {}
                // No chunk is left to wait for.
                Ok(false) => break,
                Err(error) => self.fail_later(error),
            }
        }
        last.get()
    }

    /// Returns the position of the most recently written record, which may not be known yet.
    #[must_use]
    pub fn last_position_later(&self) -> Option<LaterPosition> {
        let Some(index) = self.gathered.num_records.checked_sub(1) else {
            return self.last.clone();
        };
        Some(LaterPosition {
            begin: self.begin.clone(),
            index,
        })
    }

    /// Returns the size of the most recently written chunk's data, in bytes. The chunk's header
    /// contains this size. It is the size after compression, without the chunk header and block
    /// headers. Returns 0 before the first chunk.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let position = writer.write_record_alone(&[7; 100_000], Compression::ZSTD)?;
    /// let size = writer.last_data_size();
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// assert_eq!(file.stored(position)?.chunk.header.data_size, size);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn last_data_size(&self) -> u64 {
        self.last_data_size
    }

    /// Returns the current size of the file, in bytes. Records in chunks that aren't encoded and
    /// written yet don't count.
    #[must_use]
    pub fn estimated_size(&self) -> u64 {
        self.sink.pos()
    }

    /// Returns the underlying writer, which may not have received all records yet; see
    /// [`flush`](Self::flush).
    pub fn get_ref(&self) -> &W {
        self.sink.get_ref()
    }

    /// Runs `step` unless an earlier step has failed. After a failed step, the content of the file
    /// is unknown, so no more steps are run.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            let unsaid = self.unsaid.take();
            return Err(unsaid.unwrap_or_else(|| Error::closed("writing failed before")));
        }
        let result = step(self);
        self.failed = result.is_err();
        result
    }

    /// Stores an error that the current method can't return. The next call returns the error.
    fn fail_later(&mut self, error: Error) {
        self.failed = true;
        self.unsaid = Some(error);
    }

    fn io(&self, error: std::io::Error) -> Error {
        Error::io(Some(self.sink.pos()), error)
    }

    fn add(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let added = len.saturating_add(RECORD_OVERHEAD);
        if self.gathered.num_records == MAX_RECORDS
            || self.gathered.num_records > 0 && self.overfull(self.counted, added)
        {
            self.close_chunk()?;
        }
        if self.format.transposed.is_none()
            && self.gathered.num_records == 0
            && self.overfull(added, RECORD_OVERHEAD)
        {
            // The chunk would be closed right after this record, so the record isn't gathered.
            return if self.is_for_threads(len) && len <= self.options.max_copied {
                if self.format.keeps_values() && len >= MIN_BEHIND {
                    self.write_behind(len, parts)
                } else {
                    self.submit_alone(len, parts)
                }
            } else {
                self.settle()?;
                let begin = self.sink.pos();
                let compression = self.options.compression;
                self.write_alone(parts, &compression)?;
                self.wrote_alone(begin);
                Ok(())
            };
        }
        if self.gathered.num_records == 0 {
            self.begin = self.next_begin();
        }
        if self.format.transposed.is_some() {
            self.gathered.add_apart(len, parts);
        } else {
            self.gathered.add(len, parts, self.chunk_size);
        }
        self.counted += added;
        if self.overfull(self.counted, RECORD_OVERHEAD) {
            self.close_chunk()?;
        }
        Ok(())
    }

    /// Returns true if adding `more` bytes to a chunk of `counted` bytes would exceed the chunk's
    /// size limit.
    fn overfull(&self, counted: u64, more: u64) -> bool {
        counted.saturating_add(more) > self.chunk_size
    }

    /// Returns true if a chunk with `len` bytes of records is encoded by a thread of the pool.
    fn is_for_threads(&self, len: u64) -> bool {
        self.pool.is_some() && (len >= MIN_HASHED_APART || !self.format.keeps_values())
    }

    /// Returns the beginning of the next chunk, which isn't known while threads encode earlier
    /// chunks.
    fn next_begin(&self) -> Begin {
        match &self.pool {
            Some(pool) if !pool.is_empty() => Begin::later(),
            _ => Begin::Known(self.sink.pos()),
        }
    }

    /// Writes a chunk with one record, without copying the record.
    fn write_alone(&mut self, parts: &[&[u8]], compression: &Compression) -> Result<()> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        if let Some(patch) = self.patch
            && *compression != Compression::None
            && len >= self.options.stream_from
        {
            return self.stream_compressed(Source::Parts(parts), len, compression, patch);
        }
        let mut data = std::mem::take(&mut self.data);
        let header = encode_alone(&mut self.encoder, compression, parts, &mut data)?;
        let values = match compression {
            Compression::None => parts,
            _ => &[],
        };
        self.write_chunk(&header, &data, values)?;
        self.keep_data(data);
        Ok(())
    }

    /// Sets the last position to that of the only record in the chunk at `begin`, and returns the
    /// position.
    fn wrote_alone(&mut self, begin: u64) -> RecordPosition {
        self.last = Some(LaterPosition {
            begin: Begin::Known(begin),
            index: 0,
        });
        RecordPosition::new(begin, 0)
    }

    fn close_chunk(&mut self) -> Result<()> {
        if self.gathered.num_records == 0 {
            return Ok(());
        }
        self.last = self.last_position_later();
        self.counted = 0;
        if self.is_for_threads(self.gathered.size()) {
            let begin = std::mem::replace(&mut self.begin, Begin::Known(0));
            return self.submit(begin);
        }
        self.settle()?;
        let mut full = std::mem::take(&mut self.gathered);
        let mut data = std::mem::take(&mut self.data);
        let header = self.encoder.encode(&self.format, &mut full, &mut data)?;
        self.write_gathered(&header, &data, &full)?;
        self.keep_data(data);
        full.clear(self.usual_size(), self.chunk_size);
        self.gathered = full;
        Ok(())
    }

    fn push_all(&mut self) -> Result<()> {
        self.close_chunk()?;
        self.settle()?;
        self.sink
            .write_padding(self.options.final_padding)
            .and_then(|()| self.sink.write_buffer())
            .map_err(|error| self.io(error))
    }

    /// Writes a chunk with gathered records that were encoded into `data`.
    fn write_gathered(
        &mut self,
        header: &ChunkHeader,
        data: &[u8],
        gathered: &Gathered,
    ) -> Result<()> {
        if self.format.keeps_values() || self.format.transposed.is_some() {
            let values: Vec<_> = gathered.values().collect();
            return self.write_chunk(header, data, &values);
        }
        self.write_chunk(header, data, &[])
    }

    fn write_chunk(&mut self, header: &ChunkHeader, data: &[u8], values: &[&[u8]]) -> Result<()> {
        self.last_data_size = header.data_size;
        self.sink
            .write_chunk(header, data, values)
            .map_err(|error| self.io(error))
    }

    /// Keeps memory for the data of the next chunk, unless the memory is too large to be held
    /// unused.
    fn keep_data(&mut self, mut data: Vec<u8>) {
        if data.capacity() as u64 <= self.usual_size() {
            data.clear();
            self.data = data;
        }
    }

    /// Returns the usual amount of memory held for one chunk, in bytes.
    fn usual_size(&self) -> u64 {
        2 * self.chunk_size.max(self.options.max_copied).min(1 << 62)
    }
}
