//! The stored data of a chunk, in a buffer that may have room for decoding in place.
use crate::chunk::{Chunk, ChunkHeader, ChunkType};
use crate::codec::{Decoders, TRUSTED_SIZE, reserve, resize};
use crate::compression::CompressionKind;
use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::input::{RecordInput, reserve_trusted};
use crate::options::ReaderOptions;
use crate::payload::Payload;

/// Ratio of a buffer's size to the spare capacity that is allocated with it. With spare capacity,
/// the buffer can be reused if the next chunk is slightly larger.
const SPARE_PART: usize = 16;
const MOST_SPARE: usize = 256 << 10;

/// Size, in bytes, up to which a buffer is kept even if the next chunk is small.
const LEAST_KEPT: u64 = 1 << 20;

/// The stored data of a chunk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) memory: Vec<u8>,
    /// Start of the data in `memory`.
    pub(crate) begin: usize,
    pub(crate) len: usize,
    /// An empty vector, whose memory will be reused for the ends of the records.
    pub(crate) ends: Vec<u64>,
}

impl From<Vec<u8>> for Stored {
    fn from(memory: Vec<u8>) -> Self {
        let (begin, len) = (0, memory.len());
        Stored {
            memory,
            begin,
            len,
            ends: Vec::new(),
        }
    }
}

impl Stored {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.len]
    }

    pub(crate) fn make_room(&mut self, room: usize) -> Result<()> {
        if self.memory.len() < room {
            resize(&mut self.memory, room as u64)?;
        }
        Ok(())
    }

    /// Moves the data to the end of the buffer.
    pub(crate) fn move_back(&mut self) {
        let begin = self.memory.len() - self.len;
        let data = self.begin..self.begin + self.len;
        self.memory.copy_within(data, begin);
        self.begin = begin;
    }

    /// Removes the unused parts of the buffer, and returns the data.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.memory.truncate(self.begin + self.len);
        self.memory.drain(..self.begin);
        self.memory
    }

    /// Allocates a buffer for the data of a transposed chunk that isn't read yet, with room to
    /// decode the chunk in place. Returns `None` if the chunk isn't transposed, or if its header
    /// claims to need more memory than is allowed for a chunk with `known` bytes of data.
    pub(crate) fn with_room(
        chunk: &Chunk,
        decoders: &mut Decoders,
        known: u64,
        options: &ReaderOptions,
    ) -> Result<Option<Self>, Fault> {
        let Ok(len) = usize::try_from(chunk.header.data_size) else {
            return Ok(None);
        };
        let is_transposed = chunk.header.kind == ChunkType::Transposed;
        let room = transposed_room(&chunk.header, known, options).filter(|_| is_transposed);
        let Some(room) = room else {
            return Ok(None);
        };
        // Drops any kept buffer that is far larger than this chunk.
        let largest = (room as u64).saturating_mul(2);
        decoders.memory.shrink(largest.max(LEAST_KEPT));
        let mut memory = decoders.memory.take(room as u64);
        let no_room = |error: Error| Fault::in_data(chunk, error.or_at(chunk.begin));
        if memory.capacity() < room {
            let spare = (room / SPARE_PART).min(MOST_SPARE);
            memory = Vec::new();
            reserve(&mut memory, room.saturating_add(spare)).map_err(no_room)?;
        }
        let mut stored = Stored {
            memory,
            begin: 0,
            len,
            ends: Vec::new(),
        };
        stored.make_room(room).map_err(no_room)?;
        Ok(Some(stored))
    }

    /// Allocates a buffer for the data of a chunk that will be decoded into another buffer.
    pub(crate) fn without_room(chunk: &Chunk, decoders: &mut Decoders) -> Result<Self, Fault> {
        let size = chunk.header.data_size;
        let mut memory = decoders.memory.take(size);
        resize(&mut memory, size)
            .map_err(|error| Fault::in_data(chunk, error.or_at(chunk.begin)))?;
        Ok(memory.into())
    }

    /// Returns the range of the buffer into which the chunk's data must be read. `kind` is the
    /// first byte of the data.
    ///
    /// A transposed chunk can be decoded in place: compressed data is placed at the end of the
    /// buffer, since it is decompressed to the front; uncompressed data is placed at the front.
    pub(crate) fn place(&mut self, kind: u8) -> &mut [u8] {
        if kind != CompressionKind::None.byte() {
            self.begin = self.memory.len() - self.len;
        }
        &mut self.memory[self.begin..self.begin + self.len]
    }

    /// Reads all data of a chunk into reused memory, and verifies the data if `payload` hashes it.
    /// If `with_room` is true, the data is read into a buffer [with room](Self::with_room) to
    /// decode it in place, if possible.
    pub(crate) fn read<I: RecordInput + ?Sized>(
        payload: &mut Payload,
        input: &mut I,
        decoders: &mut Decoders,
        with_room: bool,
        options: &ReaderOptions,
    ) -> Result<Self, Fault> {
        let chunk = *payload.chunk();
        let size = chunk.header.data_size;
        let known = if input.goes_back() { size } else { 0 };
        let roomy = if with_room {
            Self::with_room(&chunk, decoders, known, options)?
        } else {
            None
        };
        let stored = if let Some(mut stored) = roomy {
            if stored.len > 0 {
                let mut kind = [0];
                payload.read(input, &mut kind)?;
                let place = stored.place(kind[0]);
                place[0] = kind[0];
                payload.read(input, &mut place[1..])?;
            }
            stored.ends = decoders.memory.take_ends();
            stored
        } else {
            let mut data = decoders.memory.take(size);
            data.clear();
            reserve_trusted(&mut data, size, input)
                .map_err(|error| Fault::in_data(&chunk, error))?;
            payload.append(input, size, &mut data)?;
            data.into()
        };
        payload.finish(input)?;
        Ok(stored)
    }
}

/// Ratio of the records' size to the minimum room that is needed for decoding in addition to the
/// records. With less room, values that aren't decoded yet would be moved too often.
const LEAST_ROOM: u64 = 8;
/// Minimum room for decoding in addition to the records, in bytes. Smaller records need only as
/// much additional room as their own size, which is enough to decode them without moving any
/// values.
const SMALL_ROOM: u64 = 1 << 20;

/// Returns the size of the buffer needed to decode a transposed chunk in place, including the
/// stored data, in bytes. Returns `None` if the size exceeds a limit, or is too much to allocate
/// for a chunk with `known` bytes of data.
pub(crate) fn transposed_room(
    header: &ChunkHeader,
    known: u64,
    options: &ReaderOptions,
) -> Option<usize> {
    let size = header.decoded_data_size;
    let beside = header
        .data_size
        .max(size / LEAST_ROOM)
        .max(SMALL_ROOM.min(size));
    let total = size.checked_add(beside)?.checked_add(2 * SLACK as u64)?;
    let trusted = TRUSTED_SIZE.max(known.saturating_mul(16));
    if size > options.max_chunk_memory || total > trusted {
        return None;
    }
    usize::try_from(total).ok()
}

/// Number of unused bytes before the output. Copying whole words may overwrite these bytes.
pub(crate) const SLACK: usize = 128;
