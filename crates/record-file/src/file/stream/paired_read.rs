//! Reading records into their buffers, two at a time.
use super::RecordStream;
use super::one_record::OneRecord;
use crate::chunk::Chunk;
use crate::codec::resize;
use crate::compression::CompressionKind;
use crate::error::{Error, ErrorKind, Result};
use crate::file::{RecordFile, check_len};
use crate::hash::{Hasher, InStep, hash_in_step};
use crate::payload::Payload;
use crate::position::RecordPosition;
use crate::read_at::ReadAt;

/// Number of bytes of a record to read at once: few enough for the bytes of two records to stay in
/// a core's cache until they are hashed.
const STEP: usize = 128 << 10;

/// Maximum size, in bytes, of a record that is decoded as a whole although an observer looks at its
/// bytes. A record of this size is still in the cache when it is observed.
const MOST_LOOKED_AT: u64 = 1 << 20;

/// An observer of a record's bytes while they are read.
pub trait Watch {
    /// True if the observer looks at the bytes. If false, a record of any size may be decoded as a
    /// whole, rather than in pieces.
    const LOOKS: bool = true;

    /// Receives the next bytes, a small piece at a time. The bytes are verified only once the whole
    /// record is read.
    fn see(&mut self, bytes: &[u8]);
}

/// An observer that doesn't look at the bytes.
impl Watch for () {
    const LOOKS: bool = false;

    fn see(&mut self, _bytes: &[u8]) {}
}

/// A request to read one record into a buffer.
#[derive(Debug)]
pub struct WantedRecord<'f, 'b, S, W> {
    /// File that contains the record.
    pub file: &'f RecordFile<S>,
    /// Position of the record in the file.
    pub position: RecordPosition,
    /// Chunk that contains the record, if the chunk's header was already read. If `None`, the
    /// header is read.
    pub chunk: Option<Chunk>,
    /// Buffer for the record. Its length must be the record's length.
    pub place: &'b mut [u8],
    /// Observer of the record's bytes.
    pub watch: W,
}

impl<S: ReadAt, W: Watch> WantedRecord<'_, '_, S, W> {
    /// Reads the record and returns its observer. No other record is read at the same time.
    ///
    /// # Errors
    ///
    /// The same errors as [`RecordFile::read_record_into`].
    pub fn read(self) -> Result<W> {
        let mut wanted = Some(self);
        let mut pair = RecordPair::new();
        loop {
            match pair.step(|_| wanted.take()) {
                Some(PairStep::Read) => {}
                Some(PairStep::Ended(watch, result)) => return result.map(|()| watch),
                None => return Err(Error::closed("the record was read before")),
            }
        }
    }
}

/// The result of one step of a [`RecordPair`].
#[derive(Debug)]
pub enum PairStep<W> {
    /// More bytes were read.
    Read,
    /// The observer of a record, and the result of reading the record: `Ok` if it was read into its
    /// buffer and verified.
    Ended(W, Result<()>),
}

/// A reader that reads records into their buffers, two at a time.
///
/// When a record is read from a cached file, most of the time is spent hashing, and most of the
/// hashing time is spent waiting for the previous step of the hash. Hashing the pieces of two
/// records alternately takes little longer than hashing one record, and observing their bytes at
/// the same time costs almost nothing.
///
/// # Examples
///
/// ```
/// use record_file::{
///     Compression, PairStep, ReaderOptions, RecordFile, RecordPair, RecordWriter, WantedRecord, WriterOptions,
/// };
///
/// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
/// let mut positions = Vec::new();
/// for record in ["first", "other", "third"] {
///     positions.push(writer.write_record_alone(record.as_bytes(), Compression::None)?);
/// }
/// let file = &RecordFile::open(writer.finish()?, ReaderOptions::new())?;
///
/// let mut all = [0; 15];
/// let mut wanted = positions.into_iter().zip(all.chunks_mut(5));
/// let mut pair = RecordPair::new();
/// while let Some(step) = pair.step(|_lane| {
///     let (position, place) = wanted.next()?;
///     Some(WantedRecord { file, position, chunk: None, place, watch: () })
/// }) {
///     if let PairStep::Ended((), result) = step {
///         result?;
///     }
/// }
/// assert_eq!(&all, b"firstotherthird");
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordPair<'f, 'b, S, W> {
    lanes: [Option<Lane<'f, 'b, S, W>>; 2],
}

/// A record that is being read.
#[derive(Debug)]
struct Lane<'f, 'b, S, W> {
    file: &'f RecordFile<S>,
    position: RecordPosition,
    way: ReadMode<'f, S>,
    place: &'b mut [u8],
    watch: W,
    /// Number of bytes of the record read so far or, for [`ReadMode::Compressed`], number of stored
    /// bytes read so far.
    at: usize,
    /// Number of bytes hashed and observed so far.
    hashed: usize,
}

#[derive(Debug)]
enum ReadMode<'f, S> {
    /// Reads an uncompressed record into the caller's buffer.
    Plain(Remaining),
    /// Reads the whole stored data into memory, and decodes it from there.
    Compressed {
        from: Remaining,
        kind: CompressionKind,
        stored: Vec<u8>,
    },
    /// Reads through a stream, which verifies the record.
    Streamed(RecordStream<'f, S>),
}

/// The unread part of a chunk's data.
#[derive(Debug)]
struct Remaining {
    payload: Payload,
    /// Hasher for the bytes; `None` if `payload` hashes the bytes while it reads them.
    hasher: Option<Hasher>,
}

impl<'f, S: ReadAt> ReadMode<'f, S> {
    fn of<W: Watch>(stream: RecordStream<'f, S>) -> Result<Self> {
        let RecordStream { access, record } = stream;
        let options = &access.file.options;
        let most = options.stream_from.min(options.max_chunk_memory);
        let is_seen_late = W::LOOKS && record.remaining() > MOST_LOOKED_AT;
        let record = match record.into_stored() {
            Ok((CompressionKind::None, payload)) => {
                return Ok(ReadMode::Plain(Remaining::new(payload, access.file)));
            }
            Ok((kind, payload)) if payload.chunk().header.data_size <= most && !is_seen_late => {
                return ReadMode::whole(kind, payload, access.file);
            }
            Ok((kind, payload)) => OneRecord::new(kind, payload),
            Err(record) => record,
        };
        Ok(ReadMode::Streamed(RecordStream { access, record }))
    }

    /// Returns the mode that reads the whole stored data of a record, and allocates memory for the
    /// data.
    fn whole(kind: CompressionKind, payload: Payload, file: &RecordFile<S>) -> Result<Self> {
        let chunk = payload.chunk();
        file.options
            .check_memory(chunk.begin, chunk.header.data_size)?;
        let len = payload.left();
        let mut stored = file.with_decoders(|decoders| decoders.memory.take(len));
        resize(&mut stored, len)?;
        Ok(ReadMode::Compressed {
            from: Remaining::new(payload, file),
            kind,
            stored,
        })
    }
}

impl Remaining {
    fn new<S: ReadAt>(mut payload: Payload, file: &RecordFile<S>) -> Self {
        let is_read_first = file.source.is_vectored();
        Remaining {
            hasher: is_read_first.then(|| payload.take_hasher()),
            payload,
        }
    }

    /// Compares the hash of the data with the hash in the chunk's header. All bytes must have been
    /// read.
    fn check<S: ReadAt>(mut self, file: &RecordFile<S>) -> Result<()> {
        let checked = match self.hasher {
            Some(hasher) => Payload::check_hash(self.payload.chunk(), hasher.finish()),
            None => self.payload.finish(&mut &file.source),
        };
        Ok(checked?)
    }
}

impl<S: ReadAt, W: Watch> Default for RecordPair<'_, '_, S, W> {
    fn default() -> Self {
        RecordPair::new()
    }
}

impl<'f, 'b, S: ReadAt, W: Watch> RecordPair<'f, 'b, S, W> {
    /// Creates a reader that has no records yet.
    #[must_use]
    pub fn new() -> Self {
        RecordPair {
            lanes: [None, None],
        }
    }

    /// Advances by one step. Returns `None` if no record is being read and `next` returned no
    /// record.
    ///
    /// At most two records are read at a time, in lanes 0 and 1. Calls `next` with the number of
    /// each lane that has no record; `next` may return `None` if no record is available at the
    /// moment. While a record is decoded as a stream, no second record is begun.
    pub fn step(
        &mut self,
        mut next: impl FnMut(usize) -> Option<WantedRecord<'f, 'b, S, W>>,
    ) -> Option<PairStep<W>> {
        for number in 0..self.lanes.len() {
            // A stream holds a decompression window, and wouldn't get faster if a second record
            // were read at the same time.
            let is_beside_stream = self.lanes.iter().flatten().any(Lane::is_streamed);
            let lane = &mut self.lanes[number];
            if lane.is_none() && !is_beside_stream {
                let Some(wanted) = next(number) else { continue };
                match Lane::open(wanted) {
                    Ok(opened) => *lane = Some(opened),
                    Err((watch, error)) => return Some(PairStep::Ended(watch, Err(error))),
                }
            }
            if let Some(ended) = lane.take_if(|lane| lane.left() == 0) {
                return Some(ended.end());
            }
        }
        if self.lanes.iter().all(Option::is_none) {
            return None;
        }
        for lane in &mut self.lanes {
            if let Some(Err(error)) = lane.as_mut().map(Lane::read) {
                let failed = lane.take()?;
                return Some(PairStep::Ended(failed.watch, Err(error)));
            }
        }
        let lanes = self.lanes.each_mut();
        hash_in_step(&mut lanes.map(|lane| lane.as_mut().and_then(Lane::unhashed)));
        Some(PairStep::Read)
    }
}

impl<'f, 'b, S: ReadAt, W: Watch> Lane<'f, 'b, S, W> {
    #[allow(
        clippy::result_large_err,
        reason = "a watch is as large as the caller makes it"
    )]
    fn open(wanted: WantedRecord<'f, 'b, S, W>) -> Result<Self, (W, Error)> {
        let WantedRecord {
            file,
            position,
            chunk,
            place,
            watch,
        } = wanted;
        let opened = file.stream_of(position, chunk.as_ref()).and_then(|stream| {
            check_len(place, stream.remaining())?;
            ReadMode::of::<W>(stream)
        });
        match opened {
            Ok(way) => Ok(Lane {
                file,
                position,
                way,
                place,
                watch,
                at: 0,
                hashed: 0,
            }),
            Err(error) => Err((watch, error)),
        }
    }

    fn is_streamed(&self) -> bool {
        matches!(self.way, ReadMode::Streamed(_))
    }

    /// Returns the number of bytes still to be read.
    fn left(&self) -> usize {
        let all = match &self.way {
            ReadMode::Compressed { stored, .. } => stored.len(),
            ReadMode::Plain(_) | ReadMode::Streamed(_) => self.place.len(),
        };
        all - self.at
    }

    /// Reads the next bytes.
    fn read(&mut self) -> Result<()> {
        let (start, len) = (self.at, self.left().min(STEP));
        let mut source = &self.file.source;
        let read = match &mut self.way {
            ReadMode::Plain(from) => {
                let window = &mut self.place[start..start + len];
                from.payload.read(&mut source, window)?;
                len
            }
            ReadMode::Compressed { from, stored, .. } => {
                let window = &mut stored[start..start + len];
                from.payload.read(&mut source, window)?;
                len
            }
            ReadMode::Streamed(RecordStream { access, record }) => {
                match record.read(access, &mut self.place[start..start + len]) {
                    Ok(read) => read,
                    // Decoding in one call needs no window, so it works even if the stream's window
                    // is too large.
                    Err(error) if error.kind() == ErrorKind::LimitExceeded && start == 0 => {
                        let again = self.file.record_stream(self.position)?;
                        let Ok((kind, payload)) = again.record.into_stored() else {
                            return Err(error);
                        };
                        self.way = ReadMode::whole(kind, payload, self.file)?;
                        return self.read();
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        self.at += read;
        Ok(())
    }

    /// Returns the bytes that were read but not yet hashed, with their hasher. If they don't need
    /// hashing, passes them to the observer instead, and returns `None`.
    fn unhashed(&mut self) -> Option<InStep<'_, impl FnMut(&[u8])>> {
        let fresh = std::mem::replace(&mut self.hashed, self.at)..self.at;
        let (hasher, bytes, mut watch) = match &mut self.way {
            ReadMode::Plain(from) => (from.hasher.as_mut(), &*self.place, Some(&mut self.watch)),
            ReadMode::Compressed { from, stored, .. } => (from.hasher.as_mut(), &stored[..], None),
            ReadMode::Streamed(_) => (None, &*self.place, Some(&mut self.watch)),
        };
        let mut see = move |piece: &[u8]| {
            if let Some(watch) = &mut watch {
                watch.see(piece);
            }
        };
        match hasher {
            Some(hasher) => Some(InStep::new(hasher, &bytes[fresh], see)),
            None => {
                see(&bytes[fresh]);
                None
            }
        }
    }

    /// Verifies the bytes that were read and decodes them if they are compressed.
    fn end(self) -> PairStep<W> {
        let Lane {
            file,
            position,
            way,
            place,
            mut watch,
            ..
        } = self;
        let result = match way {
            ReadMode::Plain(from) => from.check(file),
            ReadMode::Streamed(RecordStream {
                mut access,
                mut record,
            }) => record.check_end(&mut access),
            ReadMode::Compressed { from, kind, stored } => from.check(file).and_then(|()| {
                file.with_decoders(|decoders| {
                    let result = decoders.decompress_into(kind, &stored, place);
                    decoders.memory.give(stored);
                    result.map_err(|error| error.or_at(position.chunk_begin().0))
                })?;
                watch.see(place);
                Ok(())
            }),
        };
        PairStep::Ended(watch, result)
    }
}
