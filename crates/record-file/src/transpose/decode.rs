//! Assembling the records of a transposed chunk.
//!
//! A single block of memory has room for a chunk's records and its stored data. The stored data is
//! at the end of the block, and is decompressed to the front. Then the records are assembled from
//! the end downwards, overwriting the stored data. Whenever the records reach the decompressed
//! data, the unread parts of this data are compacted.
use std::ops::Range;

use super::backward::with_gap;
use super::fast::{Cursor, FastWalk, Found, Records, Stop, TOO_LARGE};
use super::machine::Machine;
use super::projection::FieldProjection;
use super::select::{self, Claims};
use crate::chunk::Chunk;
use crate::codec::{Decoders, TRUSTED_SIZE, reserve};
use crate::compression::CompressionKind;
use crate::decoded::DecodedChunk;
use crate::error::{Error, Result};
use crate::options::ReaderOptions;
use crate::stored::{SLACK, Stored, transposed_room};

/// Minimum number of bytes by which the memory for records grows.
const AT_ONCE: usize = 1 << 20;

/// Decodes a transposed chunk of `num_records` records. The caller has checked the hash of the
/// data.
pub(crate) fn decode(
    chunk: &Chunk,
    num_records: u64,
    stored: Stored,
    decoders: &mut Decoders,
    options: &ReaderOptions,
    projection: &FieldProjection,
) -> Result<DecodedChunk> {
    let begin = chunk.begin;
    let size = chunk.header.decoded_data_size;
    options.check_memory(begin, size)?;
    let in_memory = usize::try_from(size)
        .ok()
        .filter(|size| size.checked_mul(4).is_some());
    let in_memory = in_memory.ok_or_else(|| Error::no_room_for(size).or_at(begin))?;
    let wrong = |what| Error::corrupt(begin, what);
    if !projection.is_all() {
        let data = stored.as_slice();
        let machine = Machine::parse(data, begin, decoders, options)?;
        let transitions = machine.decompress_transitions(begin, decoders, options)?;
        let claims = Claims {
            begin,
            num_records,
            size,
        };
        let transitions = transitions.as_deref().unwrap_or(machine.transitions);
        let records = select::run(&machine, transitions, claims, decoders, options, projection)?;
        return finish(records, num_records, None).map_err(wrong);
    }
    let mut stored = stored;
    if let Some(room) = transposed_room(&chunk.header, stored.len as u64, options) {
        stored.make_room(room).map_err(|error| error.or_at(begin))?;
        let is_compressed = stored.as_slice().first() != Some(&CompressionKind::None.byte());
        if is_compressed && stored.begin == 0 {
            stored.move_back();
        }
    }
    let mut prepared = Prepared::new(stored, num_records, begin, decoders, options)?;
    let start = prepared.run(in_memory, begin)?;
    prepared.walk.check_end().map_err(wrong)?;
    let records = Records {
        memory: prepared.memory,
        start,
        ends: prepared.walk.ends,
    };
    finish(records, num_records, Some(in_memory)).map_err(wrong)
}

/// A chunk whose records are ready to be assembled.
struct Prepared {
    walk: FastWalk,
    /// The memory, with buffers and transitions at the front and records at the end.
    memory: Vec<u8>,
    /// End of the buffers and transitions in `memory`: no record may begin before it.
    front: usize,
    /// Range of the memory that holds the remaining transitions.
    transitions: Range<usize>,
    /// True if the bytes before `front` may be moved, which is the case unless they are stored
    /// data.
    can_move: bool,
}

impl Prepared {
    fn new(
        stored: Stored,
        num_records: u64,
        chunk: u64,
        decoders: &mut Decoders,
        options: &ReaderOptions,
    ) -> Result<Self> {
        let Stored {
            mut memory,
            begin,
            len,
            mut ends,
        } = stored;
        let (place, rest) = memory.split_at_mut(begin);
        let machine = Machine::parse(&rest[..len], chunk, decoders, options)?;
        // The number of records is only a claim of the chunk, so the memory reserved for it is
        // limited.
        let trusted = (TRUSTED_SIZE / 8).max((len as u64).saturating_mul(2));
        let trusted = usize::try_from(num_records.min(trusted)).unwrap_or(0);
        reserve(&mut ends, trusted).map_err(|error| error.or_at(chunk))?;
        let walk = FastWalk::new(
            &machine.states,
            machine.first,
            machine.cursors(chunk)?,
            num_records,
            ends,
        )
        .map_err(|what| Error::corrupt(chunk, what))?;
        if machine.compression == CompressionKind::None {
            let end = begin + len;
            return Ok(Prepared {
                transitions: end - machine.transitions.len()..end,
                walk,
                memory,
                front: end,
                can_move: false,
            });
        }
        let (transitions, apart) = machine.decompress_all(place, chunk, decoders, options)?;
        Ok(Prepared {
            walk,
            memory: apart.unwrap_or(memory),
            front: transitions.end,
            transitions,
            can_move: true,
        })
    }

    /// Assembles all records of the chunk at `begin`, and returns the offset in `memory` where they
    /// begin.
    fn run(&mut self, size: usize, begin: u64) -> Result<usize> {
        let wrong = |what| Error::corrupt(begin, what);
        loop {
            let (bytes, records) = self.memory.split_at_mut(self.front);
            let transitions = bytes.get(self.transitions.clone()).unwrap_or_default();
            let Stop::NoRoom(more) = self.walk.run(transitions, bytes, records).map_err(wrong)?
            else {
                return Ok(self.memory.len() - self.walk.filled);
            };
            if self.walk.filled > size {
                return Err(wrong(TOO_LARGE));
            }
            self.make_room(more, size, begin)?;
        }
    }

    /// Makes room for at least `more` bytes of records. The room is larger if many more bytes of
    /// records are expected.
    fn make_room(&mut self, more: usize, size: usize, begin: u64) -> Result<()> {
        let filled = self.walk.filled;
        self.transitions.start += std::mem::take(&mut self.walk.transition);
        if self.can_move {
            self.move_together();
        }
        let left = size - filled;
        if more.saturating_sub(SLACK) > left {
            return Err(Error::corrupt(begin, TOO_LARGE));
        }
        // The room is enough for a large part of the remaining records, so that buffers aren't
        // moved too often.
        let enough = more.max(left / 16).saturating_add(2 * SLACK);
        if self.memory.len() - self.front >= filled.saturating_add(enough) {
            return Ok(());
        }
        // The memory at most doubles, since the size of the remaining records is only a claim of
        // the chunk.
        let grown = left.min(filled.max(AT_ONCE)).max(more);
        let size = self.front + grown + 2 * SLACK + filled;
        let records = &self.memory[self.memory.len() - filled..];
        self.memory = with_gap(&self.memory[..self.front], records, size)
            .map_err(|error| error.or_at(begin))?;
        Ok(())
    }

    /// Compacts the unread parts of the buffers and transitions at the front of the memory.
    fn move_together(&mut self) {
        let mut end = 0;
        let mut move_down = |at: usize, until: usize| {
            let begin = end;
            self.memory.copy_within(at..until, begin);
            end += until - at;
            begin
        };
        for cursor in &mut self.walk.cursors {
            let at = move_down(cursor.at, cursor.end);
            *cursor = Cursor {
                at,
                end: at + (cursor.end - cursor.at),
            };
        }
        let begin = move_down(self.transitions.start, self.transitions.end);
        self.transitions = begin..end;
        self.front = end;
    }
}

/// Returns the records that the state machine produced, in file order; `size` is their expected
/// total size, or `None` if any size is valid.
fn finish(records: Records, num_records: u64, size: Option<usize>) -> Found<DecodedChunk> {
    let Records {
        memory,
        start,
        mut ends,
    } = records;
    if ends.len() as u64 != num_records {
        return Err("transposed chunk: fewer records than it claims");
    }
    let total = memory.len() - start;
    let complete = ends.last().copied().unwrap_or(0) == total as u64;
    if !complete || size.is_some_and(|size| size != total) {
        return Err("transposed chunk: records have a different size than it claims");
    }
    // Converts the number of bytes after the beginning of each record, last record first, to the
    // ends of the records.
    if ends.pop().is_some() {
        ends.reverse();
        ends.iter_mut().for_each(|end| *end = total as u64 - *end);
        ends.push(total as u64);
    }
    Ok(DecodedChunk::new(memory, start, ends))
}
