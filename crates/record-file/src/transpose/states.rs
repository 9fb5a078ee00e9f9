//! The states of the machine that assembles records.
use super::header::Header;
use super::{INLINE, LAST_BUFFERED, LAST_INLINE, tag, wire};
use crate::error::{Error, Result};
use crate::varint;

/// The output of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emit {
    Nothing,
    NonProto {
        buffer: u32,
    },
    MessageStart,
    SubmessageStart,
    SubmessageEnd,
    StartGroup,
    EndGroup,
    /// A varint made from `len` bytes of the buffer.
    Varint {
        buffer: u32,
        len: u8,
    },
    Inline(u8),
    Fixed32 {
        buffer: u32,
    },
    Fixed64 {
        buffer: u32,
    },
    Bytes {
        buffer: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    pub(crate) emit: Emit,
    /// The tag as a varint.
    pub(crate) tag: [u8; 5],
    pub(crate) tag_len: u8,
    /// True if the transition to the next state is implicit, without a transition byte.
    pub(crate) implicit: bool,
    pub(crate) next: u32,
    pub(crate) field: u32,
}

pub(super) fn parse_states(header: &mut Header<'_>, num_buffers: usize) -> Result<Vec<State>> {
    let begin = header.begin;
    let bad = |what: &'static str| Error::corrupt(begin, what);
    let count = header.count("number of states")?;
    let mut tags = header.list(count)?;
    for _ in 0..count {
        tags.push(header.u32("tag of a state")?);
    }
    let mut next = header.list(count)?;
    for _ in 0..count {
        next.push(header.u32("next state")?);
    }
    let is_varint = |tag: u32| tag >= 8 && tag & 7 == wire::VARINT;
    let varints = tags.iter().filter(|&&tag| is_varint(tag)).count();
    let (mut kinds, rest) = header
        .rest
        .split_at_checked(varints)
        .ok_or_else(|| bad("transposed chunk: kinds of varints missing"))?;
    header.rest = rest;
    let mut states = header.list(count)?;
    for (&tag, &next) in tags.iter().zip(&next) {
        let buffer = |header: &mut Header<'_>| {
            let buffer = header.u32("buffer of a state")?;
            if usize::try_from(buffer).is_ok_and(|buffer| buffer < num_buffers) {
                Ok(buffer)
            } else {
                Err(bad("transposed chunk: buffer out of range"))
            }
        };
        let mut shown = tag;
        let emit = match tag {
            tag::NO_OP => Emit::Nothing,
            tag::NON_PROTO => Emit::NonProto {
                buffer: buffer(header)?,
            },
            tag::START_OF_SUBMESSAGE => Emit::SubmessageStart,
            tag::START_OF_MESSAGE => Emit::MessageStart,
            4..8 => return Err(bad("transposed chunk: unknown kind of state")),
            _ => match tag & 7 {
                wire::VARINT => {
                    let (&kind, rest) = kinds
                        .split_first()
                        .ok_or_else(|| bad("transposed chunk: kinds of varints missing"))?;
                    kinds = rest;
                    match kind {
                        0..=LAST_BUFFERED => Emit::Varint {
                            buffer: buffer(header)?,
                            len: kind + 1,
                        },
                        INLINE..=LAST_INLINE => Emit::Inline(kind - INLINE),
                        _ => return Err(bad("transposed chunk: unknown kind of varint")),
                    }
                }
                wire::FIXED32 => Emit::Fixed32 {
                    buffer: buffer(header)?,
                },
                wire::FIXED64 => Emit::Fixed64 {
                    buffer: buffer(header)?,
                },
                wire::LENGTH_DELIMITED => Emit::Bytes {
                    buffer: buffer(header)?,
                },
                wire::START_GROUP => Emit::StartGroup,
                wire::END_GROUP => Emit::EndGroup,
                wire::SUBMESSAGE => {
                    shown = tag - wire::SUBMESSAGE + wire::LENGTH_DELIMITED;
                    Emit::SubmessageEnd
                }
                _ => return Err(bad("transposed chunk: invalid tag")),
            },
        };
        let (tag, tag_len) = varint::short(shown);
        let total = u32::try_from(count).unwrap_or(u32::MAX);
        let implicit = next >= total;
        let next = if implicit { next - total } else { next };
        if next >= total {
            return Err(bad("transposed chunk: next state out of range"));
        }
        states.push(State {
            emit,
            tag,
            tag_len,
            implicit,
            next,
            field: shown >> 3,
        });
    }
    Ok(states)
}

/// Returns true if implicit transitions alone form an infinite loop.
pub(super) fn has_implicit_loop(states: &[State]) -> bool {
    // For each state, the number of the walk that visited it, or 0 if none did.
    let mut seen = vec![0usize; states.len()];
    for start in 0..states.len() {
        let walk = start + 1;
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = walk;
            if !states[at].implicit {
                break;
            }
            at = states[at].next as usize;
            if seen[at] == walk {
                return true;
            }
        }
    }
    false
}

/// Replaces each state that only leads to another state by the state where the chain of such states
/// ends. Otherwise each transition could walk a chain that is as long as the header.
///
/// The implicit transitions must not form a loop.
pub(super) fn skip_no_ops(states: &mut [State]) {
    let only_leads = |state: &State| state.implicit && state.emit == Emit::Nothing;
    for start in 0..states.len() {
        let mut end = start;
        while only_leads(&states[end]) {
            end = states[end].next as usize;
        }
        let mut at = start;
        while only_leads(&states[at]) {
            let next = states[at].next as usize;
            states[at] = states[end];
            at = next;
        }
    }
}
