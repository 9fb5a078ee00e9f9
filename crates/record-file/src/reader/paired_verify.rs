//! Verification of chunks two at a time, for a file in memory.
//!
//! Every step of a hash waits for the previous step, so two hashes that take turns take little
//! longer than one. Therefore, the next chunk is read together with the current chunk, if records
//! are read in order and both chunks are small. An error in the next chunk is ignored until the
//! reader reaches that chunk, reads it again, and reports the error as for any other chunk.
use super::RecordReader;
use crate::chunk::{Chunk, ChunkType};
use crate::codec::{Decoders, SMALL_CHUNK};
use crate::fault::Fault;
use crate::hash::{Hasher, InStep, hash_in_step, take};
use crate::headers::read_header;
use crate::input::RecordInput;
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::stored::Stored;

/// A chunk whose data was read into memory and verified.
#[derive(Debug)]
pub(super) struct Verified {
    chunk: Chunk,
    data: Stored,
}

impl<I: RecordInput> RecordReader<I> {
    /// Reads all data of the current chunk, and verifies it.
    pub(super) fn read_verified(&mut self, chunk: &Chunk) -> Result<Stored, Fault> {
        let in_order = std::mem::replace(&mut self.follows, chunk.end) == chunk.begin;
        match self.verified.take() {
            Some(verified) if verified.chunk == *chunk => return Ok(self.with_ends(verified)),
            Some(other) => self.decoders.memory.give(other.data.memory),
            None => {}
        }
        // If there are threads, they verify the next chunks.
        if in_order
            && self.options.threads == 0
            && let Some(data) = self.read_two(chunk)
        {
            return Ok(data);
        }
        self.read_data(Payload::hashed(*chunk))
    }

    /// Discards the chunk in `verified`, which was read together with the previous chunk, unless it
    /// is at the reader's position.
    pub(super) fn drop_verified_elsewhere(&mut self) {
        let begin = self.begin;
        let elsewhere = |verified: &mut Verified| verified.chunk.begin != begin;
        if let Some(verified) = self.verified.take_if(elsewhere) {
            self.decoders.memory.give(verified.data.memory);
        }
    }

    /// Reads and verifies a chunk together with the next chunk, like
    /// [`read_verified`](Self::read_verified); `None` if the two chunks shouldn't be read together,
    /// or on any error.
    fn read_two(&mut self, chunk: &Chunk) -> Option<Stored> {
        self.input.as_slice()?;
        let next = read_header(&mut self.input, chunk.end).ok()??;
        let all = self.input.as_slice()?;
        let chunks = [*chunk, next];
        if !chunks.iter().all(|chunk| self.is_small(chunk, all)) {
            return None;
        }
        self.decoders.memory.expect_two();
        let with_room = self.projection.is_all();
        let mut begin =
            |chunk| Lane::begin(chunk, all, &mut self.decoders, &self.options, with_room);
        let mut lanes = [begin(chunks[0])?, begin(next)?];
        read_in_step(&mut lanes, all).ok()?;
        let [data, next] = lanes.map(Lane::end);
        self.verified = next;
        data.map(|verified| self.with_ends(verified))
    }

    /// Returns the data of a verified chunk. If decoding the data will compute the ends of the
    /// records, the result includes a vector to reuse for these ends.
    fn with_ends(&mut self, verified: Verified) -> Stored {
        let Verified { chunk, mut data } = verified;
        if chunk.header.kind == ChunkType::Transposed && self.projection.is_all() {
            data.ends = self.decoders.memory.take_ends();
        }
        data
    }

    /// Returns true if a chunk may be read together with another chunk. Chunks that are decoded
    /// while they are read must be read alone.
    fn is_small(&self, chunk: &Chunk, all: &[u8]) -> bool {
        let header = &chunk.header;
        let most = SMALL_CHUNK
            .min(self.options.stream_from)
            .min(self.options.max_chunk_memory);
        matches!(header.kind, ChunkType::Simple | ChunkType::Transposed)
            && header.data_size > 0
            && header.data_size.max(header.decoded_data_size) <= most
            && chunk.end <= all.len() as u64
    }
}

/// A chunk that is being read into memory.
struct Lane {
    payload: Payload,
    hasher: Hasher,
    data: Stored,
    /// Number of data bytes already in memory.
    filled: usize,
}

impl Lane {
    fn begin(
        chunk: Chunk,
        mut all: &[u8],
        decoders: &mut Decoders,
        options: &ReaderOptions,
        with_room: bool,
    ) -> Option<Self> {
        let mut payload = Payload::hashed(chunk);
        let mut kind = [0];
        payload.read(&mut all, &mut kind).ok()?;
        let known = chunk.header.data_size;
        let roomy = if with_room {
            Stored::with_room(&chunk, decoders, known, options).ok()?
        } else {
            None
        };
        let mut data = match roomy {
            Some(data) => data,
            None => Stored::without_room(&chunk, decoders).ok()?,
        };
        data.place(kind[0])[0] = kind[0];
        Some(Lane {
            hasher: payload.take_hasher(),
            payload,
            data,
            filled: kind.len(),
        })
    }

    /// Takes `part`, the next part of the chunk's data, and returns it as bytes that are copied
    /// into memory while they are hashed.
    fn fill<'a>(&'a mut self, part: &'a [u8]) -> InStep<'a, impl FnMut(&[u8])> {
        let begin = self.data.begin + self.filled;
        self.filled += part.len();
        let mut place = &mut self.data.memory[begin..begin + part.len()];
        InStep::new(&mut self.hasher, part, move |piece: &[u8]| {
            let (filled, rest) = std::mem::take(&mut place).split_at_mut(piece.len());
            filled.copy_from_slice(piece);
            place = rest;
        })
    }

    fn end(self) -> Option<Verified> {
        let chunk = *self.payload.chunk();
        Payload::check_hash(&chunk, self.hasher.finish()).ok()?;
        Some(Verified {
            chunk,
            data: self.data,
        })
    }
}

/// Reads the remaining data of both chunks, hashing pieces of the two chunks alternately.
fn read_in_step(lanes: &mut [Lane; 2], all: &[u8]) -> Result<(), Fault> {
    let mut pieces: [&[u8]; 2] = [&[]; 2];
    loop {
        for (lane, piece) in lanes.iter_mut().zip(&mut pieces) {
            if piece.is_empty() {
                *piece = lane.payload.piece_of(all)?;
            }
        }
        // Takes the same number of bytes from both chunks, or bytes from only one chunk once the
        // other is complete.
        let lens = pieces.iter().map(|piece| piece.len());
        let Some(len) = lens.filter(|&len| len > 0).min() else {
            return Ok(());
        };
        let mut both = lanes.iter_mut().zip(&mut pieces);
        hash_in_step(&mut [(); 2].map(|()| {
            let (lane, piece) = both.next()?;
            let part = take(piece, len);
            (!part.is_empty()).then(|| lane.fill(part))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordWriter, WriterOptions};

    #[test]
    fn a_small_chunk_is_read_along_with_the_one_before_and_not_again() {
        for text in [
            "uncompressed",
            "zstd",
            "transpose",
            "transpose,uncompressed",
        ] {
            let options: WriterOptions = text.parse().unwrap();
            let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
            let mut begins = Vec::new();
            for record in [&b"\x08\x01"[..], b"\x08\x02", b"\x08\x03", b"\x08\x04"] {
                writer.write_record(record).unwrap();
                writer.flush().unwrap();
                begins.extend(writer.last_position().map(|last| last.chunk_begin().0));
            }
            let file = writer.finish().unwrap();
            // Only from the second chunk on does a chunk follow one that was read before, so the
            // third is read together with the second.
            let together = [None, Some(begins[2]), None, None];
            for (parallelism, expected) in [(0, together), (2, [None; 4])] {
                let options = ReaderOptions::new().threads(parallelism);
                let mut reader = RecordReader::new(&file[..], options);
                for behind in expected {
                    assert!(reader.read_record().unwrap().is_some());
                    let verified = reader.verified.as_ref();
                    assert_eq!(verified.map(|other| other.chunk.begin), behind, "{text}");
                }
            }
            // A skipped chunk isn't held.
            let mut reader = RecordReader::new(&file[..], ReaderOptions::new());
            for _ in 0..2 {
                reader.read_record().unwrap();
            }
            for _ in 0..2 {
                assert!(reader.skip_record().unwrap());
            }
            assert!(reader.verified.is_none(), "{text}");
        }
    }
}
