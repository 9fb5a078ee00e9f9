//! Transposed chunks: records that are protobuf messages, split into fields so that the values of a
//! field are next to each other.
//!
//! [`format`](crate::format) has the layout.
mod backward;
mod decode;
mod encode;
mod fast;
mod header;
mod machine;
mod projection;
mod select;
mod states;

pub(crate) use decode::decode;
pub(crate) use encode::{ChunkEncoder, Records, Storage};
pub use projection::FieldProjection;

/// Tags of states that don't emit a field. The tags of fields are at least 8.
mod tag {
    pub(crate) const NO_OP: u32 = 0;
    pub(crate) const NON_PROTO: u32 = 1;
    pub(crate) const START_OF_SUBMESSAGE: u32 = 2;
    pub(crate) const START_OF_MESSAGE: u32 = 3;
}

mod wire {
    pub(crate) const VARINT: u32 = 0;
    pub(crate) const FIXED64: u32 = 1;
    pub(crate) const LENGTH_DELIMITED: u32 = 2;
    pub(crate) const START_GROUP: u32 = 3;
    pub(crate) const END_GROUP: u32 = 4;
    pub(crate) const FIXED32: u32 = 5;
    /// Wire type of a state that emits the end of a submessage: a message is emitted backwards,
    /// beginning with its end. Protobuf doesn't have this wire type.
    pub(crate) const SUBMESSAGE: u32 = 6;
}

/// Largest subtype of a varint that is stored in a buffer. Such a subtype is the number of the
/// varint's bytes minus one; a subtype of [`INLINE`] or more contains the value itself.
pub(crate) const LAST_BUFFERED: u8 = 9;
pub(crate) const INLINE: u8 = 10;
pub(crate) const LAST_INLINE: u8 = INLINE + 0x7f;
