//! Random access to the records of a file.
mod chunks;
mod ends;
mod plain_part;
mod read_many;
mod runs;
pub(crate) mod stream;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

pub use chunks::Chunks;

pub(crate) use ends::WithEnds;

use crate::block::{CHUNK_HEADER, is_chunk_boundary, payload_position};
use crate::chunk::{Chunk, ChunkType, file_start};
use crate::codec::Decoders;
use crate::compression::CompressionKind;
use crate::decode_chunk::decode_chunk;
use crate::decoded::DecodedChunk;
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::headers::{header_ends, read_header};
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::position::{ChunkOffset, RecordPosition};
use crate::read_at::{ReadAt, read_full_at};
use crate::simple::compression_kind;
use crate::stored::Stored;
use crate::transpose::FieldProjection;
use stream::{RecordStream, WantedRecord};

/// A record file for random access. It has no cursor, so threads can share it.
///
/// Everything that is read is verified: the hashes of headers and data, and the consistency of all
/// lengths. To read one record after another, use [`RecordReader`](crate::RecordReader).
///
/// # Examples
///
/// ```
/// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
/// writer.write_record(b"one")?;
/// let position = writer.write_record_alone(b"another", Compression::ZSTD)?;
/// let bytes = writer.finish()?;
///
/// let file = RecordFile::open(bytes, ReaderOptions::new())?;
/// assert_eq!(file.read_record(position)?, b"another"[..]);
/// assert_eq!(file.last_record()?, Some(position));
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordFile<S> {
    pub(crate) source: WithEnds<S>,
    size: u64,
    pub(crate) options: ReaderOptions,
    projection: FieldProjection,
    /// Decompressors that no thread uses at the moment.
    decoders: Mutex<Vec<Decoders>>,
}

/// A description of how a record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Compression of the record's chunk.
    pub compression: CompressionKind,
    /// Chunk that contains the record. Its `header.data_size` is the stored size of all
    /// `header.num_records` records in the chunk.
    pub chunk: Chunk,
}

impl<S: ReadAt> RecordFile<S> {
    /// Opens a file. An empty file is valid, and has no records.
    ///
    /// # Errors
    ///
    /// [`NotARecordFile`](crate::ErrorKind::NotARecordFile) if the file doesn't begin with the 64
    /// bytes that begin every record file; [`Truncated`](crate::ErrorKind::Truncated) if the file
    /// ends within these bytes; [`Io`](crate::ErrorKind::Io) if they can't be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ErrorKind, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let bytes = RecordWriter::with_defaults(Vec::new()).finish()?;
    /// let file = RecordFile::open(&bytes, ReaderOptions::new())?;
    /// assert_eq!(file.last_record()?, None);
    ///
    /// let error = RecordFile::open(&b"something else"[..], ReaderOptions::new()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotARecordFile);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn open(source: S, options: ReaderOptions) -> Result<Self> {
        let size = source.size().map_err(|error| Error::io(None, error))?;
        RecordFile::of(WithEnds::none(source), size, options)
    }

    /// Opens a file, reads its first `head` and last `tail` bytes, and keeps these bytes in memory.
    /// Use this for a source for which even a short read takes a long time. If either range can't
    /// be read, the range is requested again when it is needed, and only then is an error returned.
    ///
    /// # Errors
    ///
    /// The same errors as [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// let bytes = writer.finish()?;
    /// // The whole file is in its two ends, and nothing else is read.
    /// let file = RecordFile::open_with_ends(bytes, ReaderOptions::new(), 1 << 16, 1 << 18)?;
    /// let last = file.last_record()?.ok_or("there is one")?;
    /// assert_eq!(file.read_record(last)?, b"one"[..]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with_ends(
        source: S,
        options: ReaderOptions,
        head: usize,
        tail: usize,
    ) -> Result<Self> {
        let size = source.size().map_err(|error| Error::io(None, error))?;
        RecordFile::of(WithEnds::read(source, size, head, tail), size, options)
    }

    fn of(source: WithEnds<S>, size: u64, options: ReaderOptions) -> Result<Self> {
        let mut start = [0; 64];
        let got =
            read_full_at(&source, 0, &mut start).map_err(|error| Error::io(Some(0), error))?;
        if start[..got] != file_start()[..got] {
            return Err(Error::not_ours());
        }
        if (1..start.len()).contains(&got) {
            return Err(header_ends(0, got));
        }
        Ok(RecordFile {
            source,
            size,
            options,
            projection: FieldProjection::all(),
            decoders: Mutex::default(),
        })
    }

    /// Returns the size that the file had when it was opened, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes the file read only the fields in `projection` from records in transposed chunks.
    ///
    /// The length of a projected record is known only after decoding, so
    /// [`record_len`](Self::record_len) decodes the record.
    #[must_use]
    pub fn with_field_projection(mut self, projection: FieldProjection) -> Self {
        self.projection = projection;
        self
    }

    /// Returns the metadata of the file: a serialized `RecordsMetadata` message, as defined in
    /// `riegeli/records/records_metadata.proto`. `None` if the file has no metadata.
    ///
    /// # Errors
    ///
    /// Any error from reading, verifying or decoding.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter, RecordsMetadata, WriterOptions};
    ///
    /// let about = RecordsMetadata {
    ///     file_comment: Some("measured on a Tuesday".into()),
    ///     ..RecordsMetadata::default()
    /// };
    /// let writer = RecordWriter::new(Vec::new(), WriterOptions::new().metadata(&about))?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let metadata = file.metadata()?.ok_or("there is some")?;
    /// assert_eq!(RecordsMetadata::parse(&metadata)?, about);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metadata(&self) -> Result<Option<Bytes>> {
        let Some(signature) = self.chunks().next().transpose()? else {
            return Ok(None);
        };
        if signature.end == self.size {
            return Ok(None);
        }
        let chunk = self.chunk_header_at(signature.end())?;
        if chunk.header.kind != ChunkType::Metadata {
            return Ok(None);
        }
        Ok(self.decode(&chunk)?.record_bytes(0))
    }

    /// Announces to the source the byte ranges that will be read next, as described for
    /// [`ReadAt::prefetch`]. Skips bytes that are already in memory.
    pub fn prefetch(&self, ranges: &[Range<u64>]) {
        self.source.prefetch(ranges);
    }

    /// Returns the source.
    pub fn get_ref(&self) -> &S {
        self.source.get_ref()
    }

    /// Returns the source, consuming the file.
    pub fn into_inner(self) -> S {
        self.source.into_inner()
    }

    /// Returns the options for reading the file.
    #[must_use]
    pub fn options(&self) -> &ReaderOptions {
        &self.options
    }

    /// Returns the chunk that begins at `begin`.
    ///
    /// # Errors
    ///
    /// Any error from reading and checking the chunk's header;
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if no chunk can begin there.
    pub fn chunk_header_at(&self, begin: ChunkOffset) -> Result<Chunk> {
        self.check_boundary(begin.0)?;
        let chunk = read_header(&mut &self.source, begin.0)?;
        let chunk = chunk.ok_or_else(|| shrank(begin.0))?;
        self.check_header(&chunk)?;
        Ok(chunk)
    }

    fn check_boundary(&self, begin: u64) -> Result<()> {
        if begin >= self.size || !is_chunk_boundary(begin) {
            return Err(Error::no_chunk_at(begin));
        }
        Ok(())
    }

    fn check_header(&self, chunk: &Chunk) -> Result<()> {
        if chunk.end > self.size {
            return Err(Fault::ends_inside(chunk, self.size).into());
        }
        chunk.header.check_claims(chunk.begin)
    }

    /// Reads and decodes a whole chunk.
    ///
    /// # Errors
    ///
    /// Any error from reading, verifying or decoding;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the chunk is larger than the options
    /// allow.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// writer.write_record(b"two")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let last = file.last_record()?.ok_or("there are two")?;
    /// let chunk = file.read_chunk(last.chunk_begin())?;
    /// assert!(chunk.records().eq([b"one", b"two"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_chunk(&self, begin: ChunkOffset) -> Result<DecodedChunk> {
        self.read_known_chunk(&self.chunk_header_at(begin)?)
    }

    /// Reads and decodes a chunk whose header was already read. Otherwise the same as
    /// [`read_chunk`](Self::read_chunk).
    ///
    /// # Errors
    ///
    /// The same errors as `read_chunk`.
    pub fn read_known_chunk(&self, chunk: &Chunk) -> Result<DecodedChunk> {
        self.check_boundary(chunk.begin)?;
        self.check_header(chunk)?;
        match chunk.header.kind {
            ChunkType::Metadata => Ok(DecodedChunk::default()),
            _ => self.decode(chunk),
        }
    }

    pub(crate) fn decode(&self, chunk: &Chunk) -> Result<DecodedChunk> {
        self.with_decoders(|decoders| {
            self.options
                .check_memory(chunk.begin, chunk.header.data_size)?;
            let data = Stored::read(
                &mut Payload::hashed(*chunk),
                &mut &self.source,
                decoders,
                self.projection.is_all(),
                &self.options,
            )?;
            decode_chunk(chunk, data, decoders, &self.options, &self.projection)
        })
    }

    /// Decodes the only record in a chunk. `read` is the beginning of the chunk's data, which was
    /// already read, and `payload` is the remaining data.
    pub(crate) fn decode_one(&self, mut read: Vec<u8>, mut payload: Payload) -> Result<Bytes> {
        let chunk = *payload.chunk();
        self.reserve(&chunk, &mut read)?;
        payload.append(&mut &self.source, u64::MAX, &mut read)?;
        payload.finish(&mut &self.source)?;
        let decoded = self.with_decoders(|decoders| {
            decode_chunk(
                &chunk,
                read.into(),
                decoders,
                &self.options,
                &self.projection,
            )
        })?;
        decoded
            .record_bytes(0)
            .ok_or_else(|| Error::no_record_at(chunk.begin))
    }

    /// Calls `run` with decompressors that are reused by later calls. Concurrent calls get
    /// different decompressors.
    pub(crate) fn with_decoders<T>(&self, run: impl FnOnce(&mut Decoders) -> T) -> T {
        let kept = || self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut decoders = kept().pop().unwrap_or_default();
        let result = run(&mut decoders);
        decoders.memory.shrink(self.options.stream_from);
        kept().push(decoders);
        result
    }

    /// Reserves memory in `data` for the complete data of a chunk, part of which may already be in
    /// `data`.
    fn reserve(&self, chunk: &Chunk, data: &mut Vec<u8>) -> Result<()> {
        let size = chunk.header.data_size;
        self.options.check_memory(chunk.begin, size)?;
        // The chunk was checked to end within the file, so its size isn't a false claim.
        usize::try_from(size)
            .ok()
            .and_then(|size| data.try_reserve_exact(size.saturating_sub(data.len())).ok())
            .ok_or_else(|| Error::no_room_for(size).or_at(chunk.begin))
    }

    /// Returns the chunk that contains a record. Fails if the record's index is too large for the
    /// chunk.
    fn chunk_of(&self, position: RecordPosition) -> Result<Chunk> {
        let chunk = self.chunk_header_at(position.chunk_begin())?;
        if position.record_index() < chunk.header.num_records {
            return Ok(chunk);
        }
        Err(Error::no_record_at(position.numeric()))
    }

    /// Reads one record. To decode all records of a chunk at once, use
    /// [`read_chunk`](Self::read_chunk).
    ///
    /// # Errors
    ///
    /// Any error from reading, verifying or decoding;
    /// [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if the record doesn't exist;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the record's chunk is larger than the
    /// options allow.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ErrorKind, ReaderOptions, RecordFile, RecordPosition, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(b"one")?;
    /// let position = writer.last_position().ok_or("it was written")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// assert_eq!(file.read_record(position)?, b"one"[..]);
    ///
    /// let behind = RecordPosition::new(position.chunk_begin().0, 1);
    /// let error = file.read_record(behind).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidPosition);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_record(&self, position: RecordPosition) -> Result<Bytes> {
        let chunk = self.chunk_of(position)?;
        self.decode(&chunk)?.record_at(position)
    }

    /// Reads one record into `buf`, whose length must be the record's length. A record in its own
    /// chunk can have any size, and is read directly into `buf`.
    ///
    /// # Errors
    ///
    /// The same errors as [`read_record`](Self::read_record);
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the lengths of the record and of `buf`
    /// differ.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let position = writer.write_record_alone(&[7; 100_000], Compression::None)?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let mut buf = vec![0; 100_000];
    /// file.read_record_into(position, &mut buf)?;
    /// assert_eq!(buf, [7; 100_000]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn read_record_into(&self, position: RecordPosition, buf: &mut [u8]) -> Result<()> {
        let wanted = WantedRecord {
            file: self,
            position,
            chunk: None,
            place: buf,
            watch: (),
        };
        wanted.read()
    }

    /// Returns the length of a record, reading only headers if the record has its own chunk.
    ///
    /// # Errors
    ///
    /// The same errors as [`read_record`](Self::read_record).
    pub fn record_len(&self, position: RecordPosition) -> Result<u64> {
        let chunk = self.chunk_of(position)?;
        if chunk.header.num_records == 1 && self.projection.is_all() {
            return Ok(chunk.header.decoded_data_size);
        }
        Ok(self.decode(&chunk)?.record_at(position)?.len() as u64)
    }

    /// Returns a reader for one record. A record in its own simple chunk is read in bounded memory;
    /// with snappy, such a record can be read only if no copy refers back by more than 64 KiB. For
    /// other records, the whole chunk is decoded.
    ///
    /// # Errors
    ///
    /// The errors of [`read_record`](Self::read_record) that can be found before the record's data
    /// is read. Reading from the stream returns the other errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// use record_file::{Compression, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let position = writer.write_record_alone(b"a long record", Compression::ZSTD)?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let mut stream = file.record_stream(position)?;
    /// stream.skip(7)?;
    /// let mut rest = String::new();
    /// stream.read_to_string(&mut rest)?;
    /// assert_eq!(rest, "record");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_stream(&self, position: RecordPosition) -> Result<RecordStream<'_, S>> {
        self.stream_of(position, None)
    }

    /// Returns a reader for a record, like [`record_stream`](Self::record_stream), but doesn't read
    /// the header of the record's chunk again. `chunk` comes, for example, from
    /// [`locate_in_chunk`](Self::locate_in_chunk).
    ///
    /// # Errors
    ///
    /// The same errors as `record_stream`.
    pub fn record_stream_in(
        &self,
        position: RecordPosition,
        chunk: &Chunk,
    ) -> Result<RecordStream<'_, S>> {
        self.stream_of(position, Some(chunk))
    }

    pub(crate) fn stream_of(
        &self,
        position: RecordPosition,
        known: Option<&Chunk>,
    ) -> Result<RecordStream<'_, S>> {
        let begin = position.chunk_begin().0;
        self.check_boundary(begin)?;
        let payload = match known.filter(|chunk| chunk.begin == begin) {
            Some(chunk) => Payload::open_known(&mut &self.source, *chunk)?,
            None => Payload::open(&mut &self.source, begin)?.ok_or_else(|| shrank(begin))?,
        };
        let chunk = *payload.chunk();
        self.check_header(&chunk)?;
        if position.record_index() >= chunk.header.num_records {
            return Err(Error::no_record_at(position.numeric()));
        }
        if chunk.header.kind == ChunkType::Simple && chunk.header.num_records == 1 {
            return RecordStream::open(self, payload);
        }
        let record = self.decode(&chunk)?.record_at(position)?;
        Ok(RecordStream::of_memory(self, record))
    }

    /// Returns the compression of a chunk. Only the first byte of the chunk's data is read.
    ///
    /// # Errors
    ///
    /// Any error from reading; [`Corrupt`](crate::ErrorKind::Corrupt) if the chunk has no data;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the compression is unknown.
    pub fn compression(&self, chunk: &Chunk) -> Result<CompressionKind> {
        // Reads only one byte, since callers that list many chunks of a remote file prefetch only
        // this byte.
        let mut first = [0; 1];
        let first = match chunk.header.data_size {
            0 => None,
            _ => {
                let position = payload_position(chunk.begin, CHUNK_HEADER);
                let read = self.source.read_exact_at(position, &mut first);
                read.map_err(|error| Fault::io(chunk.begin, error))?;
                first.first()
            }
        };
        compression_kind(first, chunk.begin)
    }

    /// Returns the chunk and compression of a record.
    ///
    /// # Errors
    ///
    /// Any error from reading headers; [`InvalidPosition`](crate::ErrorKind::InvalidPosition) if
    /// the record doesn't exist.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{Compression, CompressionKind, ReaderOptions, RecordFile, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// let position = writer.write_record_alone(&[7; 100_000], Compression::ZSTD)?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?;
    /// let stored = file.stored(position)?;
    /// assert_eq!(stored.compression, CompressionKind::Zstd);
    /// assert!(stored.chunk.header.data_size < 100);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn stored(&self, position: RecordPosition) -> Result<StoredRecord> {
        let chunk = self.chunk_of(position)?;
        Ok(StoredRecord {
            compression: self.compression(&chunk)?,
            chunk,
        })
    }
}

#[cold]
fn shrank(begin: u64) -> Error {
    Error::truncated(begin, "the file shrank")
}

pub(crate) fn check_len(buf: &[u8], record: u64) -> Result<()> {
    let len = buf.len();
    if len as u64 == record {
        return Ok(());
    }
    Err(Error::config(format!(
        "the buffer has {len} bytes, but the record has {record}"
    )))
}
