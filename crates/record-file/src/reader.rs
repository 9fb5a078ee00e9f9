//! Reading one record after another.
mod ahead;
mod metadata;
mod paired_verify;
mod records;
mod search;
mod seek;
mod skip;
mod streamed_record;

use std::io::Read;

use ahead::Ahead;
use bytes::Bytes;

use paired_verify::Verified;
pub use records::Records;
pub use search::{SearchGuide, SearchResult};
pub use skip::SkippedRegion;
pub use streamed_record::StreamedRecord;

use crate::chunk::{Chunk, ChunkHeader, ChunkType};
use crate::codec::Decoders;
use crate::decode_chunk::decode_chunk;
use crate::decoded::DecodedChunk;
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::headers::{read_first_header, read_header};
use crate::input::{ReadAhead, RecordInput, Sequential};
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::position::RecordPosition;
use crate::simple;
use crate::stored::Stored;
use crate::transpose::FieldProjection;

/// A reader that reads the records in a file in order, and can also seek.
///
/// The input is any [`ReadAt`](crate::ReadAt) source or, with
/// [`from_read`](RecordReader::from_read), a plain stream, which only moves forward. Damage is an
/// error, and reading again returns the same error. With a [recovery callback](Self::on_damage),
/// damaged regions are reported and skipped.
///
/// # Examples
///
/// ```
/// use record_file::{ReaderOptions, RecordReader, RecordWriter, WriterOptions};
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// let file = writer.finish()?;
///
/// let mut reader = RecordReader::new(&file, ReaderOptions::new());
/// while let Some(record) = reader.read_record()? {
///     println!("{} bytes", record.len());
/// }
/// let last = reader.last_position().expect("a record was read");
/// assert!(reader.seek_back()?);
/// assert_eq!(reader.read_record()?, Some(&b"second"[..]));
/// reader.seek_numeric(last.numeric())?;
/// assert_eq!(reader.read_record()?, Some(&b"second"[..]));
/// # Ok::<(), record_file::Error>(())
/// ```
pub struct RecordReader<I> {
    input: ReadAhead<I>,
    options: ReaderOptions,
    projection: FieldProjection,
    decoders: Decoders,
    /// Start of the current chunk, or of the next chunk if no chunk is loaded.
    begin: u64,
    loaded: Option<Loaded>,
    /// Index of the next record in the current chunk.
    index: usize,
    last: Option<RecordPosition>,
    recovery: Option<Callback>,
    skipped: Option<SkippedRegion>,
    /// The chunk whose header was read most recently.
    head: Option<Chunk>,
    /// The chunk at `begin`, if it isn't loaded and all its records were streamed or skipped.
    passed: Option<Chunk>,
    /// The chunk at `begin`, if it has records and its header was read, but its data couldn't be
    /// read.
    unread: Option<Chunk>,
    failed: Option<Failed>,
    ahead: Option<Ahead>,
    /// End of the chunk that `read_verified` read most recently.
    follows: u64,
    /// The next chunk, if it was read and verified together with the current chunk.
    verified: Option<Verified>,
}

/// The error after which a plain stream can't be read any further. Later reads return the same
/// error.
#[derive(Debug)]
struct Failed {
    error: Error,
    /// The chunk with the error, if its header was read, so that the chunk can still be skipped;
    /// otherwise `None`.
    chunk: Option<Chunk>,
}

/// Upper bound on the decompressed size of one stored byte, with any codec.
const MOST_EXPANDED: u64 = 1 << 24;

type Callback = Box<dyn FnMut(&SkippedRegion) -> bool + Send>;

#[derive(Debug)]
struct Loaded {
    end: u64,
    records: DecodedChunk,
}

impl<R: Read> RecordReader<Sequential<R>> {
    /// Returns a reader for a plain stream, starting at the stream's current position.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let (pipe, sink) = std::io::pipe()?;
    /// let mut writer = RecordWriter::with_defaults(sink);
    /// writer.write_record(b"through a pipe")?;
    /// drop(writer.finish()?);
    /// let mut reader = RecordReader::from_read(pipe, ReaderOptions::new());
    /// assert_eq!(reader.read_record()?, Some(&b"through a pipe"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_read(stream: R, options: ReaderOptions) -> Self {
        RecordReader::new(Sequential::new(stream), options)
    }
}

impl<I: RecordInput> RecordReader<I> {
    /// Returns a reader at the beginning of the file. Reads nothing yet.
    pub fn new(input: I, options: ReaderOptions) -> Self {
        let mut decoders = Decoders::default();
        if options.threads > 0 {
            // Other threads decode, so the reader's memory holds only stored data.
            decoders.memory.expect_alike();
        }
        RecordReader {
            input: ReadAhead::new(input),
            options,
            projection: FieldProjection::all(),
            decoders,
            begin: 0,
            loaded: None,
            index: 0,
            last: None,
            recovery: None,
            skipped: None,
            head: None,
            passed: None,
            unread: None,
            failed: None,
            ahead: None,
            follows: 0,
            verified: None,
        }
    }

    /// Reports damage to `callback` and skips it, instead of returning an error.
    ///
    /// Regions are reported in file order. If the callback returns `false`, the read that found the
    /// damage returns as if at the end of the file; the next read continues after the region.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
    /// for record in [b"one", b"two"] {
    ///     writer.write_record_alone(record, Compression::None)?;
    /// }
    /// let mut file = writer.finish()?;
    /// file[105] ^= 1;
    /// let mut reader = RecordReader::new(file, ReaderOptions::new()).on_damage(|region| {
    ///     assert_eq!((region.begin, region.end), (64, 110));
    ///     true
    /// });
    /// assert_eq!(reader.read_record()?, Some(&b"two"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn on_damage(
        mut self,
        callback: impl FnMut(&SkippedRegion) -> bool + Send + 'static,
    ) -> Self {
        self.recovery = Some(Box::new(callback));
        self
    }

    /// Makes the reader read only the fields in `projection` from records in transposed chunks,
    /// starting with the next record.
    ///
    /// For a plain stream, which can't go back, the projection must be set before the first read.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{FieldProjection, ReaderOptions, RecordReader, RecordWriter, WriterOptions};
    ///
    /// let options = WriterOptions::new().transpose(true);
    /// let mut writer = RecordWriter::new(Vec::new(), options)?;
    /// // Field 1 is 7, field 2 is "text".
    /// writer.write_record(b"\x08\x07\x12\x04text")?;
    /// let mut reader = RecordReader::new(writer.finish()?, ReaderOptions::new());
    /// reader.set_field_projection(FieldProjection::none().field(&[1]));
    /// assert_eq!(reader.read_record()?, Some(&b"\x08\x07"[..]));
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn set_field_projection(&mut self, projection: FieldProjection) {
        self.projection = projection;
        // Unloading the chunk causes it to be decoded again; the next record stays the same.
        let (index, passed) = (self.index, self.passed);
        self.unload();
        (self.index, self.passed) = (index, passed);
        self.ahead = None;
    }

    /// Returns the input, consuming the reader.
    pub fn into_inner(self) -> I {
        self.input.inner
    }

    /// Returns the input.
    pub fn get_ref(&self) -> &I {
        &self.input.inner
    }

    /// Returns the position of the next record, or the end of the current chunk if that chunk has
    /// no more records.
    #[must_use]
    pub fn position(&self) -> RecordPosition {
        RecordPosition::new(self.begin, self.index as u64)
    }

    /// Returns the position of the most recently read record; `None` before the first record is
    /// read, and after seeking.
    #[must_use]
    pub fn last_position(&self) -> Option<RecordPosition> {
        self.last
    }

    /// Returns the most recently skipped region.
    #[must_use]
    pub fn last_skipped(&self) -> Option<&SkippedRegion> {
        self.skipped.as_ref()
    }

    /// Reads the next record; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// Without a [callback](Self::on_damage), any kind of damage, including
    /// [`Truncated`](crate::ErrorKind::Truncated) if the file ends inside a chunk, and
    /// [`NotARecordFile`](crate::ErrorKind::NotARecordFile) if the file lacks the signature of
    /// record files. [`Io`](crate::ErrorKind::Io) if the input fails.
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the record's chunk is larger than the
    /// options allow; the record can still be [streamed](Self::read_record_stream) or
    /// [skipped](Self::skip_record). An error doesn't move the reader, so the read can be repeated
    /// after a temporary failure (such as the end of a file that is still being written).
    #[inline]
    pub fn read_record(&mut self) -> Result<Option<&[u8]>> {
        if !self.load_record()? {
            return Ok(None);
        }
        Ok(self.take_record().0)
    }

    /// Reads the next record like [`read_record`](Self::read_record), and returns bytes that share
    /// the memory of the record's chunk.
    ///
    /// # Errors
    ///
    /// The same errors as [`read_record`](Self::read_record).
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
    /// let mut records = Vec::new();
    /// while let Some(record) = reader.read_record_bytes()? {
    ///     records.push(record);
    /// }
    /// assert_eq!(records, ["one", "two"]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn read_record_bytes(&mut self) -> Result<Option<Bytes>> {
        if !self.load_record()? {
            return Ok(None);
        }
        let index = self.take_record().1;
        let loaded = self.loaded.as_ref();
        Ok(loaded.and_then(|loaded| loaded.records.record_bytes(index)))
    }

    /// Returns the next record, which must be loaded, and the index of the record in its chunk.
    /// Moves past the record.
    fn take_record(&mut self) -> (Option<&[u8]>, usize) {
        let index = self.index;
        self.last = Some(self.position());
        self.index += 1;
        let loaded = self.loaded.as_ref();
        (
            loaded.and_then(|loaded| loaded.records.record(index)),
            index,
        )
    }

    /// Makes sure that the next record is loaded. Returns false at the end of the file.
    #[inline]
    fn load_record(&mut self) -> Result<bool> {
        match &self.loaded {
            Some(loaded) if self.index < loaded.records.len() => Ok(true),
            _ => self.load_next(),
        }
    }

    #[inline(never)]
    fn load_next(&mut self) -> Result<bool> {
        if let Some(failed) = &self.failed {
            return Err(failed.error.again());
        }
        let result = self.find_record();
        self.remember_failure(&result);
        result
    }

    fn remember_failure<T>(&mut self, result: &Result<T>) {
        if let Err(error) = result
            && !self.input.goes_back()
        {
            self.failed = Some(Failed {
                error: error.again(),
                chunk: self.unread,
            });
        }
    }

    fn find_record(&mut self) -> Result<bool> {
        loop {
            if let Some(loaded) = &self.loaded {
                if self.index < loaded.records.len() {
                    return Ok(true);
                }
                self.begin = loaded.end;
                self.unload();
            }
            if let Err(fault) = self.leave_passed() {
                if !self.recover(fault)? {
                    return Ok(false);
                }
                continue;
            }
            let loaded = match self.options.threads {
                0 => self.load(),
                _ => self.load_ahead(),
            };
            match loaded {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(fault) => {
                    if !self.recover(fault)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Loads the chunk at `begin`. Returns false at the end of the file.
    fn load(&mut self) -> Result<bool, Fault> {
        self.drop_verified_elsewhere();
        let Some(chunk) = self.header_at(self.begin)? else {
            self.index = 0;
            return Ok(false);
        };
        let records = match chunk.header.kind {
            ChunkType::Simple | ChunkType::Transposed => self.decode(&chunk)?,
            // Metadata and padding are verified, although the reader doesn't need them.
            _ => {
                self.check_data(chunk)?;
                DecodedChunk::default()
            }
        };
        self.index = self.index.min(records.len());
        self.loaded = Some(Loaded {
            end: chunk.end,
            records,
        });
        Ok(true)
    }

    /// Reads and checks the header of the chunk at `begin`. Returns `None` if the file ends there.
    fn header_at(&mut self, begin: u64) -> Result<Option<Chunk>, Fault> {
        let header = match begin {
            // A file without the signature isn't reported as damaged, except to readers that
            // recover.
            0 if self.recovery.is_none() => read_first_header(&mut self.input),
            _ => read_header(&mut self.input, begin),
        };
        let Some(chunk) = header? else {
            return Ok(None);
        };
        let claims = chunk.header.check_claims(begin).and_then(|()| {
            if begin == 0 && chunk.header.kind != ChunkType::Signature {
                return Err(Error::not_ours());
            }
            Ok(())
        });
        claims.map_err(|error| Fault::in_data(&chunk, error))?;
        self.head = Some(chunk);
        Ok(Some(chunk))
    }

    /// Verifies the data of a chunk without keeping it.
    fn check_data(&mut self, chunk: Chunk) -> Result<(), Fault> {
        if self.input.goes_back() {
            self.check_end(&chunk)?;
        }
        Payload::hashed(chunk).finish(&mut self.input)?;
        self.check_reached(&chunk)
    }

    fn decode(&mut self, chunk: &Chunk) -> Result<DecodedChunk, Fault> {
        if chunk.header.kind == ChunkType::Simple
            && chunk.header.data_size > self.options.stream_from
        {
            self.check_room(chunk)?;
            let mut payload = Payload::hashed(*chunk);
            let records = simple::decode_streamed(
                &mut payload,
                &mut self.input,
                &mut self.decoders,
                &self.options,
            )?;
            self.check_reached(chunk)?;
            return Ok(records);
        }
        let data = self.read_verified(chunk)?;
        decode_chunk(
            chunk,
            data,
            &mut self.decoders,
            &self.options,
            &self.projection,
        )
        .map_err(|error| Fault::in_data(chunk, error))
    }

    /// Reads all data of a chunk into reused memory, and verifies the data if `payload` hashes it.
    fn read_data(&mut self, mut payload: Payload) -> Result<Stored, Fault> {
        let chunk = *payload.chunk();
        self.check_room(&chunk)?;
        let stored = Stored::read(
            &mut payload,
            &mut self.input,
            &mut self.decoders,
            self.projection.is_all(),
            &self.options,
        )?;
        self.check_reached(&chunk)?;
        Ok(stored)
    }

    /// Checks, before a chunk is read, that the chunk isn't too large. Unless the input is a plain
    /// stream, also checks that the file contains the whole chunk.
    fn check_room(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        if self.input.goes_back() {
            self.check_end(chunk)?;
        }
        let ChunkHeader {
            kind,
            data_size,
            decoded_data_size,
            ..
        } = chunk.header;
        let size = match kind {
            // If a chunk is rejected before its data is read, its record can still be streamed,
            // even from a plain stream. Chunks that claim impossible ratios fail when they are
            // decoded.
            ChunkType::Simple if decoded_data_size <= data_size.saturating_mul(MOST_EXPANDED) => {
                data_size.max(decoded_data_size)
            }
            _ => data_size,
        };
        self.options
            .check_memory(chunk.begin, size)
            .map_err(|error| Fault::in_data(chunk, error))
    }

    /// Checks, after a chunk of a plain stream is read, that the stream extends to the chunk's end.
    fn check_reached(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        if self.input.goes_back() {
            return Ok(());
        }
        self.check_end(chunk)
    }

    fn check_end(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        match self.input.reaches(chunk.end) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(have)) => Err(Fault::ends_inside(chunk, have)),
            Err(error) => Err(Fault::io(chunk.begin, error)),
        }
    }

    fn unload(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            loaded.records.recycle(&mut self.decoders.memory);
        }
        self.passed = None;
        self.index = 0;
    }
}

impl<I> std::fmt::Debug for RecordReader<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordReader")
            .field(
                "position",
                &RecordPosition::new(self.begin, self.index as u64),
            )
            .finish_non_exhaustive()
    }
}
