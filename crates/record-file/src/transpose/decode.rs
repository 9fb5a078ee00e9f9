//! Putting transposed records together again.
use super::fast::{self, Cursor, Found, Records, SLACK, Source};
use super::machine::Machine;
use super::projection::FieldProjection;
use super::select::{self, Claims};
use crate::chunk::Chunk;
use crate::codec::{Decoders, TRUSTED_SIZE};
use crate::decoded::DecodedChunk;
use crate::error::{Error, ErrorKind, Result};
use crate::options::ReaderOptions;
use crate::payload::check_limit;

/// Decodes a transposed chunk of `num_records` records whose data has the right hash.
pub(crate) fn decode(
    chunk: &Chunk,
    num_records: u64,
    data: Vec<u8>,
    decoders: &mut Decoders,
    options: &ReaderOptions,
    projection: &FieldProjection,
) -> Result<DecodedChunk> {
    let begin = chunk.begin;
    let size = chunk.header.decoded_data_size;
    check_limit(chunk, size, options.max_chunk_memory)?;
    let in_memory = usize::try_from(size)
        .ok()
        .filter(|size| size.checked_add(SLACK).is_some());
    let in_memory = in_memory.ok_or_else(|| {
        Error::at(
            ErrorKind::LimitExceeded,
            begin,
            format!("{size} bytes don't fit in memory"),
        )
    })?;
    // Memory is taken at once only up to a bound that doesn't depend on what the file claims.
    let trusted = TRUSTED_SIZE.max((data.len() as u64).saturating_mul(16));
    let at_once = usize::try_from(trusted.min(size)).unwrap_or(in_memory) + SLACK;
    let machine = Machine::parse(&data, begin, decoders, options)?;
    let transitions = machine.decompress_transitions(begin, decoders, options)?;
    let wrong = |what| Error::corrupt(begin, what);
    if !projection.is_all() {
        let claims = Claims {
            begin,
            num_records,
            size,
            stored: data.len() as u64,
        };
        let transitions = transitions.as_deref().unwrap_or(machine.transitions);
        let records = select::run(&machine, transitions, claims, decoders, options, projection)?;
        return finish(records, num_records, None).map_err(wrong);
    }
    let mut arena = std::mem::take(&mut decoders.arena);
    let places = machine.decompress_buckets(&mut arena, begin, decoders, options)?;
    let cursors: Vec<_> = machine
        .buffers
        .iter()
        .map(|buffer| {
            let at = places
                .get(buffer.bucket as usize)
                .map_or(0, |bucket| bucket + buffer.start);
            Cursor {
                at,
                end: at + buffer.len,
            }
        })
        .collect();
    let (states, first, stored) = (machine.states, machine.first, machine.transitions);
    let run = |transitions: &[u8], bytes: &[u8], decoders: &mut Decoders| {
        let mut memory = decoders.memory.take(at_once as u64);
        memory.resize(at_once, 0);
        let source = Source {
            first,
            transitions,
            bytes,
            cursors,
            num_records,
            size: in_memory,
        };
        let records = fast::run(&states, &source, memory).map_err(wrong)?;
        finish(records, num_records, Some(in_memory)).map_err(wrong)
    };
    let Some(transitions) = transitions else {
        // Nothing is compressed: all is where it is stored.
        let decoded = run(stored, &data, decoders)?;
        decoders.memory.give(data);
        return Ok(decoded);
    };
    // What is stored isn't needed any more, and its memory serves for the records.
    decoders.memory.give(data);
    let decoded = run(&transitions, &arena, decoders)?;
    if arena.len() as u64 <= TRUSTED_SIZE {
        decoders.arena = arena;
    }
    Ok(decoded)
}

/// The records as they come out of the state machine, in their order; `size` says how large they must be.
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
        return Err("transposed chunk: records of another size than it claims");
    }
    // From how much is behind the beginning of each record, the last one first, to where each ends.
    if ends.pop().is_some() {
        ends.reverse();
        ends.iter_mut().for_each(|end| *end = total as u64 - *end);
        ends.push(total as u64);
    }
    Ok(DecodedChunk::new(memory, start, ends))
}
