//! The fast way through a chunk, when every field is wanted.
//!
//! Values are moved in whole words, with whatever stands beside them: output grows downwards, so what a word
//! brings along in front of its value is written over by what comes next.
mod step;

use super::states::State;
use crate::varint;
use step::{Kind, Step};

/// Room in front of the output that is only ever written by accident.
pub(crate) const SLACK: usize = 128;

/// Most strings are no longer: they are moved as if they were so long.
const SHORT: usize = 32;

/// What is wrong, found deep inside where it should cost nothing to find.
pub(crate) type Found<T> = Result<T, &'static str>;

pub(crate) const TOO_LARGE: &str = "transposed chunk: records larger than the chunk claims";
pub(crate) const TOO_MANY: &str = "transposed chunk: more records than it claims";
pub(crate) const BUFFER_ENDS: &str = "transposed chunk: a buffer ends early";
pub(crate) const BUFFER_LEFT: &str = "transposed chunk: a buffer isn't used up";
pub(crate) const LEFT_MACHINE: &str = "transposed chunk: a transition out of the state machine";
pub(crate) const NOT_OPEN: &str = "transposed chunk: a message begins that didn't end";
pub(crate) const LEFT_OPEN: &str = "transposed chunk: a message ends that doesn't begin";
pub(crate) const STILL_OPEN: &str = "transposed chunk: a record begins inside a message";
pub(crate) const MESSAGE_TOO_LARGE: &str = "transposed chunk: a message of more than 4 GiB";

/// What is left of a buffer: a range of the bytes that all buffers lie in.
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

    /// Takes a varint of at most 32 bits.
    fn take_length(&mut self, bytes: &[u8]) -> Found<usize> {
        let mut rest = bytes.get(self.at..self.end).unwrap_or_default();
        let len = varint::take(&mut rest).ok_or(BUFFER_ENDS)?;
        self.at = self.end - rest.len();
        let len = u32::try_from(len).map_err(|_| BUFFER_ENDS)?;
        usize::try_from(len).map_err(|_| BUFFER_ENDS)
    }
}

/// What a chunk holds besides its state machine.
pub(crate) struct Source<'a> {
    pub(crate) first: u32,
    pub(crate) transitions: &'a [u8],
    /// What all buffers lie in.
    pub(crate) bytes: &'a [u8],
    pub(crate) cursors: Vec<Cursor>,
    pub(crate) num_records: u64,
    /// Bytes of all records.
    pub(crate) size: usize,
}

/// Records, put together: the last of them first, and at the end of the memory.
pub(crate) struct Records {
    pub(crate) memory: Vec<u8>,
    pub(crate) start: usize,
    /// How much was there when each record, the last one first, was complete.
    pub(crate) ends: Vec<u64>,
}

/// Puts together all records of a chunk. Memory grows to no more than their size as claimed.
pub(crate) fn run(states: &[State], source: &Source<'_>, mut memory: Vec<u8>) -> Found<Records> {
    // For states that take nothing from a buffer.
    let none = u32::try_from(source.cursors.len()).map_err(|_| BUFFER_ENDS)?;
    let steps: Vec<_> = states.iter().map(|state| Step::new(state, none)).collect();
    loop {
        let mut cursors = source.cursors.clone();
        cursors.push(Cursor { at: 0, end: 0 });
        let mut walk = Walk {
            source,
            cursors: &mut cursors,
            memory: &mut memory,
            ends: Vec::new(),
            open: Vec::new(),
        };
        let result = walk.run(&steps);
        let (ends, open) = (walk.ends, walk.open);
        let start = match result {
            Ok(start) => start,
            // Once more, with twice the memory.
            Err(TOO_LARGE) if memory.len() - SLACK < source.size => {
                let more = memory.len().saturating_mul(2);
                memory.resize(more.min(source.size + SLACK), 0);
                continue;
            }
            Err(what) => return Err(what),
        };
        if !open.is_empty() {
            return Err(LEFT_OPEN);
        }
        if cursors.iter().any(|cursor| cursor.at < cursor.end) {
            return Err(BUFFER_LEFT);
        }
        return Ok(Records {
            memory,
            start,
            ends,
        });
    }
}

struct Walk<'a> {
    source: &'a Source<'a>,
    cursors: &'a mut [Cursor],
    memory: &'a mut [u8],
    ends: Vec<u64>,
    open: Vec<Open>,
}

/// A message whose end was met, and what its tag is.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// How much was there.
    behind: usize,
    tag: u64,
    tag_len: usize,
}

impl Walk<'_> {
    /// Goes through the states, and says where in the memory the records begin.
    fn run(&mut self, steps: &[Step]) -> Found<usize> {
        let bytes = self.source.bytes;
        let transitions = self.source.transitions;
        let mut transition = 0;
        let mut start = self.memory.len();
        let Some(mut step) = steps.get(self.source.first as usize) else {
            // A machine without states.
            return if transitions.is_empty() {
                Ok(start)
            } else {
                Err(LEFT_MACHINE)
            };
        };
        // Transitions to come without a byte of their own.
        let mut free = u32::from(step.implicit);
        loop {
            match step.kind {
                Kind::Small => {
                    let word = word_at(bytes, self.take(step, usize::from(step.advance))?);
                    let value = (word & step.keep | step.set) << (step.shift & 63);
                    self.memory[start - 8..start].copy_from_slice(&value.to_le_bytes());
                    start -= usize::from(step.len);
                }
                Kind::Bytes => {
                    let (begin, len) = self.take_prefixed(step)?;
                    if start - SLACK < len {
                        return Err(TOO_LARGE);
                    }
                    copy_down(self.memory, start, bytes, begin, len);
                    start -= len;
                }
                Kind::SubmessageEnd => {
                    self.open.push(Open {
                        behind: self.memory.len() - start,
                        tag: step.tag,
                        tag_len: usize::from(step.len),
                    });
                }
                Kind::SubmessageStart => {
                    let open = self.open.pop().ok_or(NOT_OPEN)?;
                    let len = self.memory.len() - start - open.behind;
                    if len < 0x80 {
                        start -= 1;
                        self.memory[start] = len.to_le_bytes()[0];
                    } else {
                        start = self.push_length(start, len)?;
                    }
                    self.memory[start - 8..start].copy_from_slice(&open.tag.to_le_bytes());
                    start -= open.tag_len;
                }
                Kind::MessageStart => self.end_record(start)?,
                Kind::LongVarint => start = self.push_long_varint(step, start)?,
                Kind::NonProto => start = self.push_record(step, start)?,
            }
            self.memory[start - 8..start].copy_from_slice(&step.tag.to_le_bytes());
            start -= usize::from(step.tag_len);
            if start < SLACK {
                return Err(TOO_LARGE);
            }

            // Whether a byte is due is as good as chance, so nothing branches on it.
            let due = free == 0;
            let byte = match transitions.get(transition) {
                Some(&byte) => byte,
                None if due => return Ok(start),
                None => 0,
            };
            let byte = u32::from(if due { byte } else { 0 });
            transition += usize::from(due);
            let at = step.next + (byte >> 2);
            step = steps.get(at as usize).ok_or(LEFT_MACHINE)?;
            free = free - u32::from(!due) + (byte & 3) + u32::from(step.implicit);
        }
    }

    /// Takes so many bytes of the state's buffer, and says where they are.
    #[inline]
    fn take(&mut self, step: &Step, len: usize) -> Found<usize> {
        let cursor = self.cursors.get_mut(step.buffer as usize);
        cursor.ok_or(BUFFER_ENDS)?.take(len)
    }

    /// Takes a length and so many bytes: says where the length is, and how long both are.
    #[inline]
    fn take_prefixed(&mut self, step: &Step) -> Found<(usize, usize)> {
        let bytes = self.source.bytes;
        let cursor = self.cursors.get_mut(step.buffer as usize);
        let cursor = cursor.ok_or(BUFFER_ENDS)?;
        let begin = cursor.at;
        let len = match bytes.get(begin) {
            Some(&len) if len < 0x80 => usize::from(len) + 1,
            _ => long_prefixed(*cursor, bytes)?,
        };
        cursor.take(len)?;
        Ok((begin, len))
    }

    #[inline]
    fn end_record(&mut self, start: usize) -> Found<()> {
        if !self.open.is_empty() {
            return Err(STILL_OPEN);
        }
        if self.ends.len() as u64 == self.source.num_records {
            return Err(TOO_MANY);
        }
        self.ends.push((self.memory.len() - start) as u64);
        Ok(())
    }

    /// Puts the length of a message in front, and says where it begins.
    #[inline(never)]
    fn push_length(&mut self, start: usize, len: usize) -> Found<usize> {
        let mut rest = u32::try_from(len).map_err(|_| MESSAGE_TOO_LARGE)?;
        let mut varint = [0; 5];
        let mut used = 0;
        loop {
            varint[used] = rest.to_le_bytes()[0] & 0x7f;
            rest >>= 7;
            used += 1;
            if rest == 0 {
                break;
            }
            varint[used - 1] |= 0x80;
        }
        self.memory[start - used..start].copy_from_slice(&varint[..used]);
        Ok(start - used)
    }

    #[cold]
    #[inline(never)]
    fn push_long_varint(&mut self, step: &Step, start: usize) -> Found<usize> {
        let len = usize::from(step.len);
        let begin = self.take(step, len)?;
        let from = &self.source.bytes[begin..begin + len];
        let to = &mut self.memory[start - len..start];
        to.copy_from_slice(from);
        to[..len - 1].iter_mut().for_each(|byte| *byte |= 0x80);
        Ok(start - len)
    }

    /// Puts a record that is no message in front; its length is in the last buffer.
    #[inline(never)]
    fn push_record(&mut self, step: &Step, start: usize) -> Found<usize> {
        // Behind the last one is that of no bytes.
        let lengths = self.cursors.len().checked_sub(2).ok_or(BUFFER_ENDS)?;
        let len = self.cursors[lengths].take_length(self.source.bytes)?;
        let begin = self.take(step, len)?;
        if start - SLACK < len {
            return Err(TOO_LARGE);
        }
        copy_down(self.memory, start, self.source.bytes, begin, len);
        self.end_record(start - len)?;
        Ok(start - len)
    }
}

/// The length of a length of more than a byte, and of the bytes that follow it.
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

/// Copies `from[begin..begin + len]` to what ends at `end`, where there is room for it and [`SLACK`].
#[inline]
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
