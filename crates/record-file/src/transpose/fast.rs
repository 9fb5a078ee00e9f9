//! The fast way through a chunk, when every field is wanted.
//!
//! Values are moved in whole words, with whatever stands beside them: output grows downwards, so what a word
//! brings along in front of its value is written over by what comes next.
use super::machine::{Emit, State};
use crate::varint;

/// Room in front of the output that is only ever written by accident.
pub(crate) const SLACK: usize = 64;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A value of at most 8 bytes, perhaps none, and a tag, perhaps none.
    Small,
    /// A varint of 9 or 10 bytes.
    LongVarint,
    Bytes,
    SubmessageStart,
    SubmessageEnd,
    MessageStart,
    NonProto,
}

/// A state, prepared: what to do is data as far as possible, rather than a choice that may be foreseen wrongly.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Of the next 8 bytes of the buffer, the bits that belong to the value.
    keep: u64,
    /// Bits of the value that are not in the buffer.
    set: u64,
    /// The tag, at the upper end.
    tag: u64,
    next: u32,
    buffer: u32,
    kind: Kind,
    tag_len: u8,
    /// Bytes of the value.
    len: u8,
    /// How many of them come from the buffer.
    advance: u8,
    /// Brings the value to the upper end.
    shift: u8,
    /// 1 if the next state follows without a transition.
    implicit: u8,
}

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
pub(crate) fn run(states: &[State], mut source: Source<'_>, memory: Vec<u8>) -> Found<Records> {
    // For states that take nothing from a buffer.
    let none = u32::try_from(source.cursors.len()).map_err(|_| BUFFER_ENDS)?;
    source.cursors.push(Cursor { at: 0, end: 0 });
    let steps: Vec<_> = states.iter().map(|state| Step::new(state, none)).collect();
    let records = walk(&steps, &mut source, memory)?;
    if source.cursors.iter().any(|cursor| cursor.at < cursor.end) {
        return Err(BUFFER_LEFT);
    }
    Ok(records)
}

fn walk(steps: &[Step], source: &mut Source<'_>, memory: Vec<u8>) -> Found<Records> {
    let bytes = source.bytes;
    let cursors = &mut source.cursors[..];
    let mut transitions = source.transitions.iter();
    let mut start = memory.len();
    let mut memory = memory;
    let mut ends = Vec::new();
    let mut open: Vec<(usize, u64, u8)> = Vec::new();
    let Some(mut step) = steps.get(source.first as usize) else {
        // A machine without states.
        let records = Records {
            memory,
            start,
            ends,
        };
        return transitions
            .next()
            .map_or(Ok(records), |_| Err(LEFT_MACHINE));
    };
    // Transitions to come without a byte of their own.
    let mut free = u32::from(step.implicit);
    loop {
        let (tag, tag_len) = match step.kind {
            Kind::Small => {
                let cursor = cursors.get_mut(step.buffer as usize).ok_or(BUFFER_ENDS)?;
                let word = word_at(bytes, cursor.take(usize::from(step.advance))?);
                let value = (word & step.keep | step.set) << (step.shift & 63);
                memory[start - 8..start].copy_from_slice(&value.to_le_bytes());
                start -= usize::from(step.len);
                (step.tag, step.tag_len)
            }
            Kind::Bytes => {
                let cursor = cursors.get_mut(step.buffer as usize).ok_or(BUFFER_ENDS)?;
                let begin = cursor.at;
                let len = match bytes.get(begin) {
                    Some(&len) if len < 0x80 => usize::from(len) + 1,
                    _ => {
                        let mut after = *cursor;
                        let len = after.take_length(bytes)?;
                        len.checked_add(after.at - begin).ok_or(BUFFER_ENDS)?
                    }
                };
                cursor.take(len)?;
                if start - SLACK < len {
                    (memory, start) = grow(memory, start, len, source.size)?;
                }
                copy_down(&mut memory, start, bytes, begin, len);
                start -= len;
                (step.tag, step.tag_len)
            }
            Kind::SubmessageEnd => {
                open.push((memory.len() - start, step.tag, step.tag_len));
                (0, 0)
            }
            Kind::SubmessageStart => {
                let (behind, tag, tag_len) = open.pop().ok_or(NOT_OPEN)?;
                let len = memory.len() - start - behind;
                if len < 0x80 {
                    start -= 1;
                    memory[start] = len.to_le_bytes()[0];
                } else {
                    start = push_length(&mut memory, start, len)?;
                }
                (tag, tag_len)
            }
            Kind::MessageStart => {
                if !open.is_empty() {
                    return Err(STILL_OPEN);
                }
                if ends.len() as u64 == source.num_records {
                    return Err(TOO_MANY);
                }
                ends.push((memory.len() - start) as u64);
                (0, 0)
            }
            Kind::LongVarint => {
                let cursor = cursors.get_mut(step.buffer as usize).ok_or(BUFFER_ENDS)?;
                let len = usize::from(step.len);
                let begin = cursor.take(len)?;
                let from = bytes.get(begin..begin + len).ok_or(BUFFER_ENDS)?;
                let to = &mut memory[start - len..start];
                to.copy_from_slice(from);
                to[..len - 1].iter_mut().for_each(|byte| *byte |= 0x80);
                start -= len;
                (step.tag, step.tag_len)
            }
            Kind::NonProto => {
                if !open.is_empty() {
                    return Err(STILL_OPEN);
                }
                if ends.len() as u64 == source.num_records {
                    return Err(TOO_MANY);
                }
                // The last buffer, but for the one of none.
                let lengths = cursors.len().checked_sub(2).ok_or(BUFFER_ENDS)?;
                let len = cursors[lengths].take_length(bytes)?;
                let cursor = cursors.get_mut(step.buffer as usize).ok_or(BUFFER_ENDS)?;
                let begin = cursor.take(len)?;
                if start - SLACK < len {
                    (memory, start) = grow(memory, start, len, source.size)?;
                }
                copy_down(&mut memory, start, bytes, begin, len);
                start -= len;
                ends.push((memory.len() - start) as u64);
                (0, 0)
            }
        };
        memory[start - 8..start].copy_from_slice(&tag.to_le_bytes());
        start -= usize::from(tag_len);
        if start < SLACK {
            (memory, start) = grow(memory, start, 0, source.size)?;
        }

        let mut at = step.next;
        if free == 0 {
            let Some(&byte) = transitions.next() else {
                break;
            };
            at += u32::from(byte >> 2);
            step = steps.get(at as usize).ok_or(LEFT_MACHINE)?;
            free = u32::from(byte & 3) + u32::from(step.implicit);
        } else {
            step = steps.get(at as usize).ok_or(LEFT_MACHINE)?;
            free = free - 1 + u32::from(step.implicit);
        }
    }
    if !open.is_empty() {
        return Err(LEFT_OPEN);
    }
    Ok(Records {
        memory,
        start,
        ends,
    })
}

impl Step {
    fn new(state: &State, none: u32) -> Self {
        let mut tag = [0; 8];
        let tag_len = usize::from(state.tag_len);
        tag[8 - tag_len..].copy_from_slice(&state.tag[..tag_len]);
        let mut step = Step {
            keep: 0,
            set: 0,
            tag: u64::from_le_bytes(tag),
            next: state.next,
            buffer: none,
            kind: Kind::Small,
            tag_len: state.tag_len,
            len: 0,
            advance: 0,
            shift: 0,
            implicit: u8::from(state.implicit),
        };
        let mut from_buffer = |buffer: u32, len: u8| {
            step.buffer = buffer;
            step.len = len;
            step.advance = len;
            if (1..=8).contains(&len) {
                step.shift = 64 - 8 * len;
                step.keep = u64::MAX >> step.shift;
            }
        };
        match state.emit {
            Emit::Nothing => step.tag_len = 0,
            Emit::StartGroup | Emit::EndGroup => {}
            Emit::Varint { buffer, len } => {
                from_buffer(buffer, len);
                if len <= 8 {
                    step.keep &= 0x7f7f_7f7f_7f7f_7f7f;
                    // The last byte doesn't say that another one follows.
                    step.set = (u64::MAX >> step.shift >> 8) & 0x8080_8080_8080_8080;
                } else {
                    step.kind = Kind::LongVarint;
                }
            }
            Emit::Inline(value) => {
                step.set = u64::from(value);
                step.len = 1;
                step.shift = 56;
            }
            Emit::Fixed32 { buffer } => from_buffer(buffer, 4),
            Emit::Fixed64 { buffer } => from_buffer(buffer, 8),
            Emit::Bytes { buffer } => {
                step.buffer = buffer;
                step.kind = Kind::Bytes;
            }
            Emit::SubmessageStart => step.kind = Kind::SubmessageStart,
            Emit::SubmessageEnd => step.kind = Kind::SubmessageEnd,
            Emit::MessageStart => step.kind = Kind::MessageStart,
            Emit::NonProto { buffer } => {
                step.buffer = buffer;
                step.kind = Kind::NonProto;
            }
        }
        step
    }
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(&word) => u64::from_le_bytes(word),
        None => last_word(rest),
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
    if len <= 32 && from_end >= 32 {
        to[end - 32..end].copy_from_slice(&from[from_end - 32..from_end]);
    } else if len <= SLACK && from_end >= SLACK {
        to[end - SLACK..end].copy_from_slice(&from[from_end - SLACK..from_end]);
    } else {
        to[end - len..end].copy_from_slice(&from[begin..from_end]);
    }
}

/// Puts the length of a message in front, and says where it begins.
fn push_length(memory: &mut [u8], start: usize, len: usize) -> Found<usize> {
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
    memory[start - used..start].copy_from_slice(&varint[..used]);
    Ok(start - used)
}

/// More memory in front, at least `len` bytes, unless that is more than the records are said to have.
#[cold]
fn grow(memory: Vec<u8>, start: usize, len: usize, limit: usize) -> Found<(Vec<u8>, usize)> {
    let filled = memory.len() - start;
    let needed = filled.checked_add(len).ok_or(TOO_LARGE)?;
    if needed > limit {
        return Err(TOO_LARGE);
    }
    let size = needed.max(memory.len().saturating_mul(2)).min(limit) + SLACK;
    let mut larger = vec![0; size];
    larger[size - filled..].copy_from_slice(&memory[start..]);
    Ok((larger, size - filled))
}
