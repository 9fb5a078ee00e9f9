//! The states of the machine, in the form that the fast decoder uses.
use super::super::states::{Emit, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value of 0 to 8 bytes, with or without a tag.
    Small,
    /// A varint of 9 or 10 bytes.
    LongVarint,
    Bytes,
    SubmessageStart,
    SubmessageEnd,
    MessageStart,
    NonProto,
}

/// A prepared state. Its operations are expressed as data where possible, since branches may be
/// mispredicted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Mask of the value's bits in the next 8 bytes of the buffer.
    pub(super) keep: u64,
    /// Bits of the value that are not in the buffer.
    pub(super) set: u64,
    /// The tag as a varint, aligned to the upper end of the word.
    pub(super) tag: u64,
    pub(super) next: u32,
    pub(super) buffer: u32,
    pub(super) kind: Kind,
    pub(super) tag_len: u8,
    /// Length of the value, in bytes. For a state that emits the end of a submessage, length of the
    /// tag, which is prepended later.
    pub(super) len: u8,
    /// Number of bytes of the value that come from the buffer.
    pub(super) advance: u8,
    /// Number of bits by which to shift the value left, to align it to the upper end of the word.
    pub(super) shift: u8,
    /// True if the transition to the next state is implicit, without a transition byte.
    pub(super) implicit: bool,
}

impl Step {
    pub(super) fn new(state: &State, none: u32) -> Self {
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
            implicit: state.implicit,
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
                    // The last byte has no continuation bit.
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
            Emit::SubmessageStart => {
                step.kind = Kind::SubmessageStart;
                step.tag_len = 0;
            }
            Emit::SubmessageEnd => {
                // The tag is before the message. Since output is written backwards, the tag is
                // prepended later, by the state for the start of the message.
                step.kind = Kind::SubmessageEnd;
                step.len = step.tag_len;
                step.tag_len = 0;
            }
            Emit::MessageStart => {
                step.kind = Kind::MessageStart;
                step.tag_len = 0;
            }
            Emit::NonProto { buffer } => {
                step.buffer = buffer;
                step.kind = Kind::NonProto;
                step.tag_len = 0;
            }
        }
        step
    }
}
