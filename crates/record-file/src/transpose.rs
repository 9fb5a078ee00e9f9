//! Transposed chunks: records that are protobuf messages, taken apart so that equal fields lie together.
//!
//! ```text
//!  +-------------+----------+----------------+---------+-------------------------+
//!  | compression | varint H | header, H bytes| buckets | transitions, the rest   |
//!  | 1 byte      |          |                |         |                         |
//!  +-------------+----------+----------------+---------+-------------------------+
//! ```
//!
//! The header describes a state machine: each state emits something (a tag and its value, a length, nothing),
//! and the transitions say which states to visit. Values lie in buffers, one or more of which make a bucket, the
//! unit of compression. Everything is emitted backwards, the last field of the last record first: thus the
//! length of a message is known when its place is reached.
//!
//! ```text
//!  header: buckets, buffers (counts) | size of each bucket as stored | size of each buffer |
//!          states (count) | tag of each | next state of each | kind of each varint | buffer of each that has
//!          one | first state
//! ```
mod backward;
mod decode;
mod encode;
mod fast;
mod machine;
mod projection;
mod select;
mod states;

pub(crate) use decode::decode;
pub(crate) use encode::{ChunkEncoder, Records, Storage};
pub use projection::FieldProjection;

/// What states other than those of fields emit; fields have tags from 8 on.
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
    /// Not of protobuf: the end of a submessage, which is where it begins when emitting backwards.
    pub(crate) const SUBMESSAGE: u32 = 6;
}

/// Kinds of varints: up to here, how many bytes in the buffer, less one; from [`INLINE`] on, the value itself.
pub(crate) const LAST_BUFFERED: u8 = 9;
pub(crate) const INLINE: u8 = 10;
pub(crate) const LAST_INLINE: u8 = INLINE + 0x7f;
