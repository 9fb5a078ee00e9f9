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

pub use encoded_record::{EncodedRecord, PlainRecord, plain_record_end};
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

/// Writes records to a file, many small ones to a chunk.
///
/// [`finish`](Self::finish) completes the file; a writer that is dropped before leaves it cut
/// short. After an error nothing more can be written.
///
/// # Memory
///
/// A writer holds the records of a chunk and what they are compressed to, as many times as it has
/// [threads](WriterOptions::threads), and a few MiB. A record that has a chunk for itself isn't
/// copied, unless it is for a thread; but what it is compressed to is held, because the header in
/// front of that tells its length and its hash. For files and the like, which can be gone back in
/// to fill in a header, say [`seekable`](Self::seekable): then large records stream.
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
    /// How headers are filled in later, if it was said that they can be.
    patch: Option<Patch<W>>,
    options: WriterOptions,
    format: Format,
    chunk_size: u64,
    encoder: Encoder,
    /// The records of the chunk that isn't encoded yet, and where it begins if there are any.
    gathered: Gathered,
    begin: Begin,
    /// What that chunk counts for, 8 bytes a record included.
    counted: u64,
    /// Memory for encoded data.
    data: Vec<u8>,
    /// Threads that encode, if there are any.
    pool: Option<Pool>,
    /// Where the last record is that isn't among the gathered ones.
    last: Option<LaterPosition>,
    /// Bytes of the data of the chunk written last.
    last_data_size: u64,
    failed: bool,
    /// What it failed with, if that is still to be said.
    unsaid: Option<Error>,
}

/// What a record counts for in its chunk besides its bytes: it bounds how many empty ones share a chunk.
const RECORD_OVERHEAD: u64 = 8;
/// Bytes of an uncompressed chunk from which on a thread hashes it: fewer are hashed in the time
/// that it takes to hand them over.
const MIN_HASHED_APART: u64 = 64 << 10;
/// Bytes of an uncompressed record from which on it is worth starting a thread to copy it.
const MIN_BEHIND: u64 = 1 << 20;

impl<W: Write> RecordWriter<W> {
    /// Begins a new file, at what is the beginning of `inner`.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option is out of its range; nothing
    /// is written then. [`Io`](crate::ErrorKind::Io) if there is metadata, and the underlying
    /// writer fails to take it.
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

    /// Begins a new file with the default options.
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
    /// [`Io`](crate::ErrorKind::Io) if the underlying writer fails,
    /// [`Closed`](crate::ErrorKind::Closed) if it did
    /// before; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it is too long for the
    /// compression.
    pub fn write_record(&mut self, record: &[u8]) -> Result<()> {
        self.write_record_slices(&[record])
    }

    /// Writes a record that is the concatenation of `parts`. A large one is not copied on its way.
    ///
    /// The file is the same however a record is cut.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
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

    /// Writes a record in a chunk of its own, compressed in its own way, and returns its position.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record); [`InvalidConfig`](crate::ErrorKind::InvalidConfig)
    /// if the compression's parameters are out of range, after which the writer goes on
    /// working.
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

    /// [`write_record_alone`](Self::write_record_alone) for a record that is the concatenation of
    /// `parts`.
    ///
    /// # Errors
    ///
    /// As [`write_record_alone`](Self::write_record_alone).
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

    /// Hands all records so far to the underlying writer, without flushing that: the least of the
    /// three flushes.
    ///
    /// Each flush ends a chunk, and pads the file if the [options](WriterOptions::final_padding)
    /// say so: many make a file larger. Without new records none writes anything.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
    pub fn push(&mut self) -> Result<()> {
        self.attempt(Self::push_all)
    }

    /// As [`push`](Self::push), and flushes the underlying writer: a file then has the records,
    /// also if this process ends abruptly, and other processes can read them.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
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

    /// As [`flush`](Self::flush), and waits until the records would survive a crash of the machine.
    ///
    /// # Errors
    ///
    /// As [`write_record`](Self::write_record).
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
    /// As [`write_record`](Self::write_record).
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        Ok(self.sink.into_inner())
    }

    /// The position that the next record gets, unless it no longer fits in the same chunk.
    ///
    /// With [`threads`](WriterOptions::threads), this waits for all chunks to be encoded
    /// and written. What goes wrong with them is the error of the next write, flush or
    /// [`finish`](Self::finish).
    pub fn position(&mut self) -> RecordPosition {
        if !self.failed
            && let Err(error) = self.settle()
        {
            self.fail_later(error);
        }
        RecordPosition::new(self.sink.pos(), self.gathered.num_records)
    }

    /// The position of the record written last; `None` if there is none, or nothing can be written
    /// any more.
    ///
    /// With [`threads`](WriterOptions::threads), this waits for the chunks before the
    /// record: where it is asked for every record,
    /// [`last_position_later`](Self::last_position_later) leaves threads their work. What goes
    /// wrong with those chunks is the error of the next write, flush or
    /// [`finish`](Self::finish).
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
                // Nothing is left to wait for.
                Ok(false) => break,
                Err(error) => self.fail_later(error),
            }
        }
        last.get()
    }

    /// The position of the record written last, to be asked for when it is known.
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

    /// Returns the bytes of data of the chunk written last, as its header has them: after compression
    /// and without headers. 0 before the first chunk.
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

    /// Bytes of the file so far; records whose chunk isn't encoded and written yet aren't counted.
    #[must_use]
    pub fn estimated_size(&self) -> u64 {
        self.sink.pos()
    }

    /// The underlying writer. It may not have got everything yet: see [`flush`](Self::flush).
    pub fn get_ref(&self) -> &W {
        self.sink.get_ref()
    }

    /// Runs a step of writing; once one failed, it is not known what is in the file, so none is run
    /// any more.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            let unsaid = self.unsaid.take();
            return Err(unsaid.unwrap_or_else(|| Error::closed("writing failed before")));
        }
        let result = step(self);
        self.failed = result.is_err();
        result
    }

    /// Notes a failure of what can't say it itself.
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
            // The chunk would be closed right after it: no need to gather it first.
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

    /// Returns whether a chunk that counts for this much has no room for `more`.
    fn overfull(&self, counted: u64, more: u64) -> bool {
        counted.saturating_add(more) > self.chunk_size
    }

    /// Returns whether a chunk of this many bytes of records is encoded by a thread.
    fn is_for_threads(&self, len: u64) -> bool {
        self.pool.is_some() && (len >= MIN_HASHED_APART || !self.format.keeps_values())
    }

    /// Returns where a chunk begins that follows all others.
    fn next_begin(&self) -> Begin {
        match &self.pool {
            Some(pool) if !pool.is_empty() => Begin::later(),
            _ => Begin::Known(self.sink.pos()),
        }
    }

    /// Writes a chunk of one record, from where it is.
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

    /// Notes that a chunk of one record was written at `begin`, and says its position.
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

    /// Writes a chunk of gathered records that were encoded to `data`.
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

    /// Keeps memory for the data of the next chunk, unless it is too much to be held for nothing.
    fn keep_data(&mut self, mut data: Vec<u8>) {
        if data.capacity() as u64 <= self.usual_size() {
            data.clear();
            self.data = data;
        }
    }

    /// Bytes that are held for one chunk from then on.
    fn usual_size(&self) -> u64 {
        2 * self.chunk_size.max(self.options.max_copied).min(1 << 62)
    }
}
