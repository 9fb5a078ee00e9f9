//! The data of a chunk, in memory that may have room for more.
use crate::chunk::{Chunk, ChunkHeader, ChunkType};
use crate::codec::{Decoders, TRUSTED_SIZE, resize};
use crate::compression::CompressionKind;
use crate::fault::Fault;
use crate::input::RecordInput;
use crate::options::ReaderOptions;
use crate::payload::Payload;

/// Divisor of an allocation's size that gives the extra room, with which the memory can be reused
/// for a next chunk of about the same size.
const SPARE_PART: usize = 16;
const MOST_SPARE: usize = 256 << 10;

/// Maximum memory that is kept even if the next chunk is small, in bytes.
const LEAST_KEPT: u64 = 1 << 20;

/// The stored data of a chunk.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) memory: Vec<u8>,
    /// Start of the range of memory that holds the data.
    pub(crate) begin: usize,
    pub(crate) len: usize,
    /// An empty list, for the ends of records.
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

    pub(crate) fn make_room(&mut self, room: usize) {
        if self.memory.len() < room {
            self.memory.reserve_exact(room - self.memory.len());
            self.memory.resize(room, 0);
        }
    }

    /// Moves the data to the end of the memory.
    pub(crate) fn move_back(&mut self) {
        let begin = self.memory.len() - self.len;
        let data = self.begin..self.begin + self.len;
        self.memory.copy_within(data, begin);
        self.begin = begin;
    }

    /// Returns only the data.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.memory.truncate(self.begin + self.len);
        self.memory.drain(..self.begin);
        self.memory
    }

    /// Reserves memory for all data of a chunk that isn't read yet. For a transposed chunk, the
    /// memory has room to decode the chunk in place. Returns `None` if the header claims to need
    /// more memory than a chunk with `known` bytes of data may get.
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
        if memory.capacity() < room {
            let spare = (room / SPARE_PART).min(MOST_SPARE);
            memory = vec![0; room.saturating_add(spare)];
        }
        if memory.len() < room {
            resize(&mut memory, room as u64)
                .map_err(|error| Fault::in_data(chunk, error.or_at(chunk.begin)))?;
        }
        Ok(Some(Stored {
            memory,
            begin: 0,
            len,
            ends: Vec::new(),
        }))
    }

    /// Reserves memory for all data of a chunk that will be decoded into other memory.
    pub(crate) fn without_room(chunk: &Chunk, decoders: &mut Decoders) -> Result<Self, Fault> {
        let size = chunk.header.data_size;
        let mut memory = decoders.memory.take(size);
        resize(&mut memory, size)
            .map_err(|error| Fault::in_data(chunk, error.or_at(chunk.begin)))?;
        Ok(memory.into())
    }

    /// Returns the destination of the data, whose first byte is `kind`.
    ///
    /// A transposed chunk can be decoded in place: compressed data is placed at the end of the
    /// memory, since it is decompressed to the front; uncompressed data is placed at the front.
    pub(crate) fn place(&mut self, kind: u8) -> &mut [u8] {
        if kind != CompressionKind::None.byte() {
            self.begin = self.memory.len() - self.len;
        }
        &mut self.memory[self.begin..self.begin + self.len]
    }

    /// Reads the data of a transposed chunk into memory in which it can be decoded in place.
    /// Returns `None` if the header claims to need more memory than a chunk with `known` bytes of
    /// data may get.
    pub(crate) fn read_with_room<I: RecordInput + ?Sized>(
        payload: &mut Payload,
        input: &mut I,
        decoders: &mut Decoders,
        known: u64,
        options: &ReaderOptions,
    ) -> Result<Option<Self>, Fault> {
        let Some(mut stored) = Self::with_room(payload.chunk(), decoders, known, options)? else {
            return Ok(None);
        };
        if stored.len > 0 {
            let mut kind = [0];
            payload.read(input, &mut kind)?;
            let place = stored.place(kind[0]);
            place[0] = kind[0];
            payload.read(input, &mut place[1..])?;
        }
        stored.ends = decoders.memory.take_ends();
        Ok(Some(stored))
    }
}

/// Divisor of the records' size that gives the minimum additional room. With less room, the
/// remaining buffers would be moved too often.
const LEAST_ROOM: u64 = 8;
/// Maximum room for small chunks, in bytes: up to this size, the room equals the size of the
/// records, and no buffers are moved.
const SMALL_ROOM: u64 = 1 << 20;

/// Returns the memory needed to decode a chunk, including the stored data, in bytes; `None` if the
/// chunk claims too much for the `known` bytes of its data.
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

/// Room before the output, which only whole-word copies overwrite.
pub(crate) const SLACK: usize = 128;
