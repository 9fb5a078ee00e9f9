//! The data of a chunk, in memory that may have room for more.
use crate::chunk::{Chunk, ChunkKind};
use crate::codec::{Decoders, resize};
use crate::error::Error;
use crate::fault::Fault;
use crate::input::Input;
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::transpose;

/// Memory that is allocated with some room more serves for the next chunk too, which is about as
/// large: such a part of it, or so much.
const SPARE_PART: usize = 16;
const MOST_SPARE: usize = 256 << 10;

/// Memory up to here is kept whatever the size of the next chunk.
const LEAST_KEPT: u64 = 1 << 20;

/// The data of a chunk as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) memory: Vec<u8>,
    /// Where in the memory it is.
    pub(crate) begin: usize,
    pub(crate) len: usize,
    /// Empty, for the ends of records.
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

    /// Just the data.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.memory.truncate(self.begin + self.len);
        self.memory.drain(..self.begin);
        self.memory
    }

    /// Reads the data of a transposed chunk to where it can be decoded in one memory: at its end,
    /// so that what is decompressed comes to the front; or at its front, if nothing has to be.
    /// `None` if that memory is not to be had on the word of the chunk's header, of whose
    /// data so many bytes are known to be there.
    pub(crate) fn read_with_room<I: Input + ?Sized>(
        payload: &mut Payload,
        input: &mut I,
        decoders: &mut Decoders,
        known: u64,
        options: &ReaderOptions,
    ) -> Result<Option<Self>, Fault> {
        let chunk: Chunk = *payload.chunk();
        let Ok(len) = usize::try_from(chunk.header.data_size) else {
            return Ok(None);
        };
        let is_transposed = chunk.header.kind == ChunkKind::Transposed;
        let room = transpose::room(&chunk.header, known, options).filter(|_| is_transposed);
        let Some(room) = room else {
            return Ok(None);
        };
        // What is far larger than this chunk isn't held beside it.
        let largest = (room as u64).saturating_mul(2);
        decoders.memory.shrink(largest.max(LEAST_KEPT));
        let mut memory = decoders.memory.take(room as u64);
        if memory.capacity() < room {
            let spare = (room / SPARE_PART).min(MOST_SPARE);
            memory = vec![0; room.saturating_add(spare)];
        }
        let no_room = |error: Error| Fault::in_data(&chunk, error.or_at(chunk.begin));
        if memory.len() < room {
            resize(&mut memory, room as u64).map_err(no_room)?;
        }
        let mut kind = [0];
        let mut begin = 0;
        if len > 0 {
            payload.read(input, &mut kind)?;
            if kind != [0] {
                begin = memory.len() - len;
            }
            memory[begin] = kind[0];
            payload.read(input, &mut memory[begin + 1..begin + len])?;
        }
        Ok(Some(Stored {
            memory,
            begin,
            len,
            ends: decoders.memory.take_ends(),
        }))
    }
}
