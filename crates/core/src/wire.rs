//! The protobuf wire format: varints, tags, and a cursor that moves from field to field.

mod cursor;
pub(crate) mod header;
mod input;
mod kind;
mod pieces;
mod tag;
mod varint;
mod zigzag;

pub use cursor::{Field, WireCursor};
pub(crate) use cursor::{alike, each_field, slice};
pub use input::{Input, SourceInput, StreamInput};
pub(crate) use input::{at_hand, part_at_hand};
pub use kind::wire_type;
pub(crate) use tag::short_tag;
pub use tag::{FieldNumber, WireType, tag};
pub use varint::{
    MAX_VARINT_LEN, decode_short_varint, decode_varint, encode_varint, low_32, put_varint,
    varint_len,
};
pub use zigzag::{unzigzag, zigzag};

#[cfg(test)]
mod tests;
