//! The fast decoder for transposed chunks, used if all fields are read.
//!
//! A value is copied as a whole word, which also contains neighboring bytes. The output is written
//! backwards, so the next value overwrites the neighboring bytes in front of the current value.
mod step;

use super::states::State;
use crate::stored::SLACK;
use crate::varint;
use step::{Kind, Step};

/// Length that most strings don't exceed, in bytes. Shorter strings are moved as if they had this
/// length.
const SHORT: usize = 32;

/// A result with an error that costs nothing to create in the inner loops.
pub(crate) type Found<T> = Result<T, &'static str>;

pub(crate) const TOO_LARGE: &str = "transposed chunk: records larger than the chunk claims";
pub(crate) const TOO_MANY: &str = "transposed chunk: more records than it claims";
pub(crate) const BUFFER_ENDS: &str = "transposed chunk: a buffer ends early";
pub(crate) const BUFFER_LEFT: &str = "transposed chunk: a buffer isn't used up";
pub(crate) const LEFT_MACHINE: &str = "transposed chunk: a transition leaves the state machine";
pub(crate) const NOT_OPEN: &str = "transposed chunk: a message begins that didn't end";
pub(crate) const LEFT_OPEN: &str = "transposed chunk: a message ends that doesn't begin";
pub(crate) const STILL_OPEN: &str = "transposed chunk: a record begins inside a message";
pub(crate) const MESSAGE_TOO_LARGE: &str = "transposed chunk: a message has more than 4 GiB";

pub(crate) const TOO_DEEP: &str = "transposed chunk: more than 524288 messages in one another";

/// Maximum number of messages and groups in one another. The end of a message takes memory before
/// any byte of the message is emitted. Writers transpose only 100 levels, and parsers of protobuf
/// read hardly more.
pub(crate) const MOST_OPEN: usize = 1 << 19;

/// The unread part of a buffer: a range of the bytes that hold all buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) at: usize,
    pub(crate) end: usize,
}

impl Cursor {
    #[inline]
    fn take(&mut self, len: usize) -> Found<usize> {
        if self.end - self.at < len {
            return Err(BUFFER_ENDS);
        }
        let at = self.at;
        self.at += len;
        Ok(at)
    }

    /// Reads a length, which is a varint of at most 32 bits, and moves past it.
    fn take_length(&mut self, bytes: &[u8]) -> Found<usize> {
        let mut rest = bytes.get(self.at..self.end).unwrap_or_default();
        let len = varint::take(&mut rest).ok_or(BUFFER_ENDS)?;
        self.at = self.end - rest.len();
        let len = u32::try_from(len).map_err(|_| BUFFER_ENDS)?;
        usize::try_from(len).map_err(|_| BUFFER_ENDS)
    }
}

/// The assembled records, which are at the end of the memory.
pub(crate) struct Records {
    pub(crate) memory: Vec<u8>,
    pub(crate) start: usize,
    /// For each record, beginning with the last, the number of bytes emitted when the record was
    /// complete.
    pub(crate) ends: Vec<u64>,
}

/// The records of a chunk assembled so far, and the state of the decoder.
///
/// Sizes are counted from the end of the memory, so they remain valid when memory is added at the
/// front.
pub(crate) struct FastWalk {
    steps: Vec<Step>,
    /// The unread part of each buffer, in memory order.
    pub(crate) cursors: Vec<Cursor>,
    num_records: u64,
    /// Index of the next state.
    step: u32,
    /// Number of bytes of transitions consumed to reach the next state.
    pub(crate) transition: usize,
    /// Number of subsequent transitions that don't consume a transition byte.
    free: u32,
    /// Number of bytes emitted.
    pub(crate) filled: usize,
    /// For each record, beginning with the last, the number of bytes emitted when the record was
    /// complete.
    pub(crate) ends: Vec<u64>,
    open: Vec<Open>,
}

/// The reason why [`FastWalk::run`] stopped.
pub(crate) enum Stop {
    Done,
    /// The next step may need this number of bytes, for which the memory has no room.
    NoRoom(usize),
}

/// A submessage whose end was already emitted, but whose length and tag weren't emitted yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Number of bytes of output after the end of the submessage.
    behind: usize,
    tag: u64,
    tag_len: usize,
}

impl FastWalk {
    pub(crate) fn new(
        states: &[State],
        first: u32,
        mut cursors: Vec<Cursor>,
        num_records: u64,
        ends: Vec<u64>,
    ) -> Found<Self> {
        // The index of the empty cursor, which states without a buffer use.
        let none = u32::try_from(cursors.len()).map_err(|_| BUFFER_ENDS)?;
        let steps: Vec<_> = states.iter().map(|state| Step::new(state, none)).collect();
        cursors.push(Cursor { at: 0, end: 0 });
        Ok(FastWalk {
            free: 0,
            steps,
            cursors,
            num_records,
            step: first,
            transition: 0,
            filled: 0,
            ends,
            open: Vec::new(),
        })
    }

    /// Visits states until the transitions end or `memory` has no more room. The records emitted
    /// earlier are at the end of `memory`. The buffers are in `bytes`.
    pub(crate) fn run(
        &mut self,
        transitions: &[u8],
        bytes: &[u8],
        memory: &mut [u8],
    ) -> Found<Stop> {
        let steps = std::mem::take(&mut self.steps);
        let stop = self.run_steps(&steps, transitions, bytes, memory);
        self.steps = steps;
        stop
    }

    /// Fails if the final state is invalid.
    pub(crate) fn check_end(&self) -> Found<()> {
        if !self.open.is_empty() {
            return Err(LEFT_OPEN);
        }
        if self.cursors.iter().any(|cursor| cursor.at < cursor.end) {
            return Err(BUFFER_LEFT);
        }
        Ok(())
    }

    fn run_steps(
        &mut self,
        steps: &[Step],
        transitions: &[u8],
        bytes: &[u8],
        memory: &mut [u8],
    ) -> Found<Stop> {
        let mut transition = self.transition;
        let mut free = self.free;
        let mut start = memory.len() - self.filled;
        let mut at = self.step;
        let Some(mut step) = steps.get(at as usize) else {
            // The machine has no states.
            return if transitions.is_empty() {
                Ok(Stop::Done)
            } else {
                Err(LEFT_MACHINE)
            };
        };
        let more = loop {
            if start < SLACK {
                break SLACK;
            }
            match step.kind {
                Kind::Small => {
                    let word = word_at(bytes, self.take(step, usize::from(step.advance))?);
                    let value = (word & step.keep | step.set) << (step.shift & 63);
                    memory[start - 8..start].copy_from_slice(&value.to_le_bytes());
                    start -= usize::from(step.len);
                }
                Kind::Bytes => {
                    let (begin, len) = self.prefixed(step, bytes)?;
                    if start - SLACK < len {
                        self.check(step, len)?;
                        break len;
                    }
                    self.take(step, len)?;
                    copy_down(memory, start, bytes, begin, len);
                    start -= len;
                }
                Kind::SubmessageEnd => {
                    if self.open.len() == MOST_OPEN {
                        return Err(TOO_DEEP);
                    }
                    self.open.push(Open {
                        behind: memory.len() - start,
                        tag: step.tag,
                        tag_len: usize::from(step.len),
                    });
                }
                Kind::SubmessageStart => {
                    let open = self.open.pop().ok_or(NOT_OPEN)?;
                    let len = memory.len() - start - open.behind;
                    if len < 0x4000 {
                        // The length takes one byte or two unpredictably, so the code doesn't
                        // branch on its size.
                        let long = usize::from(len >= 0x80);
                        let two = len & 0x7f | long << 7 | len >> 7 << 8;
                        let word = (two as u64) << (56 - 8 * long);
                        memory[start - 8..start].copy_from_slice(&word.to_le_bytes());
                        start -= 1 + long;
                    } else {
                        start = push_length(memory, start, len)?;
                    }
                    memory[start - 8..start].copy_from_slice(&open.tag.to_le_bytes());
                    start -= open.tag_len;
                }
                Kind::MessageStart => self.end_record(memory.len() - start)?,
                Kind::LongVarint => start = self.push_long_varint(step, bytes, memory, start)?,
                Kind::NonProto => {
                    let len = self.record_len(bytes)?;
                    if start - SLACK < len {
                        self.check(step, len)?;
                        break len;
                    }
                    start = self.push_record(step, bytes, memory, start)?;
                }
            }
            memory[start - 8..start].copy_from_slice(&step.tag.to_le_bytes());
            start -= usize::from(step.tag_len);

            at = step.next;
            if step.implicit {
                step = steps.get(at as usize).ok_or(LEFT_MACHINE)?;
                continue;
            }
            if free == 0 {
                let Some(&byte) = transitions.get(transition) else {
                    self.filled = memory.len() - start;
                    return Ok(Stop::Done);
                };
                transition += 1;
                at += u32::from(byte >> 2);
                free = u32::from(byte & 3);
            } else {
                free -= 1;
            }
            step = steps.get(at as usize).ok_or(LEFT_MACHINE)?;
        };
        self.step = at;
        self.transition = transition;
        self.free = free;
        self.filled = memory.len() - start;
        Ok(Stop::NoRoom(more))
    }

    /// Takes `len` bytes from the state's buffer, and returns their offset.
    #[inline]
    fn take(&mut self, step: &Step, len: usize) -> Found<usize> {
        let cursor = self.cursors.get_mut(step.buffer as usize);
        cursor.ok_or(BUFFER_ENDS)?.take(len)
    }

    /// Checks that the state's buffer has `len` bytes, before the output memory is enlarged for
    /// them.
    fn check(&self, step: &Step, len: usize) -> Found<()> {
        let cursor = self.cursors.get(step.buffer as usize);
        cursor.copied().ok_or(BUFFER_ENDS)?.take(len).map(drop)
    }

    /// Finds the next length-prefixed bytes in the state's buffer: returns the offset of the
    /// length, and the total size of the length and the bytes.
    #[inline]
    fn prefixed(&self, step: &Step, bytes: &[u8]) -> Found<(usize, usize)> {
        let cursor = self.cursors.get(step.buffer as usize);
        let cursor = cursor.ok_or(BUFFER_ENDS)?;
        let begin = cursor.at;
        let len = match bytes.get(begin) {
            Some(&len) if len < 0x80 => usize::from(len) + 1,
            _ => long_prefixed(*cursor, bytes)?,
        };
        Ok((begin, len))
    }

    #[inline]
    fn end_record(&mut self, filled: usize) -> Found<()> {
        if !self.open.is_empty() {
            return Err(STILL_OPEN);
        }
        if self.ends.len() as u64 == self.num_records {
            return Err(TOO_MANY);
        }
        self.ends.push(filled as u64);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn push_long_varint(
        &mut self,
        step: &Step,
        bytes: &[u8],
        memory: &mut [u8],
        start: usize,
    ) -> Found<usize> {
        let len = usize::from(step.len);
        let begin = self.take(step, len)?;
        let from = &bytes[begin..begin + len];
        let to = &mut memory[start - len..start];
        to.copy_from_slice(from);
        to[..len - 1].iter_mut().for_each(|byte| *byte |= 0x80);
        Ok(start - len)
    }

    /// Returns the cursor of the last buffer, which contains the lengths of records that are not
    /// messages. The only cursor after this one is the empty cursor.
    fn lengths(&mut self) -> Found<&mut Cursor> {
        let lengths = self.cursors.len().checked_sub(2);
        let lengths = lengths.and_then(|lengths| self.cursors.get_mut(lengths));
        lengths.ok_or(BUFFER_ENDS)
    }

    /// Returns the length of the next record that is not a message, without moving past the length.
    #[inline(never)]
    fn record_len(&mut self, bytes: &[u8]) -> Found<usize> {
        let mut cursor = *self.lengths()?;
        cursor.take_length(bytes)
    }

    /// Prepends a record that is not a message.
    #[inline(never)]
    fn push_record(
        &mut self,
        step: &Step,
        bytes: &[u8],
        memory: &mut [u8],
        start: usize,
    ) -> Found<usize> {
        let len = self.lengths()?.take_length(bytes)?;
        let begin = self.take(step, len)?;
        copy_down(memory, start, bytes, begin, len);
        self.end_record(memory.len() - (start - len))?;
        Ok(start - len)
    }
}

/// Prepends the length of a message, and returns the start of the length.
#[inline(never)]
fn push_length(memory: &mut [u8], start: usize, len: usize) -> Found<usize> {
    let len = u32::try_from(len).map_err(|_| MESSAGE_TOO_LARGE)?;
    let (varint, used) = varint::short(len);
    let used = usize::from(used);
    memory[start - used..start].copy_from_slice(&varint[..used]);
    Ok(start - used)
}

/// Returns the total size of the length prefix at `cursor` and the bytes that it counts. The prefix
/// has more than one byte.
#[inline(never)]
fn long_prefixed(mut cursor: Cursor, bytes: &[u8]) -> Found<usize> {
    let begin = cursor.at;
    let len = cursor.take_length(bytes)?;
    len.checked_add(cursor.at - begin).ok_or(BUFFER_ENDS)
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes
        .get(at..at.wrapping_add(8))
        .and_then(<[u8]>::first_chunk)
    {
        Some(&word) => u64::from_le_bytes(word),
        None => last_word(bytes.get(at..).unwrap_or_default()),
    }
}

#[cold]
fn last_word(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Copies `from[begin..begin + len]` so that the copy ends at `end`, which must be preceded by room
/// for these bytes plus [`SLACK`].
// Inlining this into the loop over all states makes the loop 2.5 % faster.
#[inline(always)]
fn copy_down(to: &mut [u8], end: usize, from: &[u8], begin: usize, len: usize) {
    let from_end = begin + len;
    if len <= SHORT && from_end >= SHORT {
        to[end - SHORT..end].copy_from_slice(&from[from_end - SHORT..from_end]);
    } else if len <= SLACK && from_end >= SLACK {
        to[end - SLACK..end].copy_from_slice(&from[from_end - SLACK..from_end]);
    } else {
        to[end - len..end].copy_from_slice(&from[begin..from_end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transpose::states::Emit;

    /// Returns a decoder with a single state, which reads the first of two adjacent buffers.
    fn walk(emit: Emit, lens: [usize; 2]) -> FastWalk {
        let state = State {
            emit,
            tag: [0x0a, 0, 0, 0, 0],
            tag_len: 1,
            implicit: false,
            next: 0,
            field: 1,
        };
        let [first, second] = lens;
        let cursors = [(0, first), (first, first + second)].map(|(at, end)| Cursor { at, end });
        FastWalk::new(&[state], 0, cursors.into(), 9, Vec::new())
            .unwrap_or_else(|what| panic!("{what}"))
    }

    #[test]
    fn no_room_is_asked_for_what_a_buffer_does_not_have() {
        let memory = &mut [0; SLACK];
        // A declared length of almost 4 GiB.
        let lie = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let bytes = Emit::Bytes { buffer: 0 };
        assert_eq!(
            walk(bytes, [5, 0]).run(&[], &lie, memory).err(),
            Some(BUFFER_ENDS)
        );
        let record = Emit::NonProto { buffer: 0 };
        assert_eq!(
            walk(record, [0, 5]).run(&[], &lie, memory).err(),
            Some(BUFFER_ENDS)
        );

        let there = [&[3][..], b"abc"].concat();
        let mut walk = walk(bytes, [4, 0]);
        assert!(matches!(walk.run(&[], &there, memory), Ok(Stop::NoRoom(4))));
        let memory = &mut [0; SLACK + 8];
        assert!(matches!(walk.run(&[], &there, memory), Ok(Stop::Done)));
        assert_eq!(memory[SLACK + 3..], *b"\x0a\x03abc");
    }
}
