//! Decoding a typed message on several threads.
//!
//! prost decodes on one thread. Of a message that is large because it has very many elements, these
//! can be decoded apart: the message is hopped over once, which finds and counts them, then threads
//! decode blocks of them, and the lists are put together in order. What the message has besides is
//! decoded as ever.

mod parts;
mod run;
mod scan;

use std::num::NonZeroUsize;

use bytes::Bytes;
use prost::Message;
use prost::encoding::DecodeContext;

pub use parts::{InParts, Parts};

use crate::{Error, ErrorKind, Result, threads};

/// How many bytes of elements a thread takes at once: some hundred nodes of a graph, or the one
/// that is larger.
pub const DEFAULT_BLOCK_SIZE: usize = 64 << 10;

/// How a message is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    threads: Option<NonZeroUsize>,
    block_size: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions::new()
    }
}

impl DecodeOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        DecodeOptions {
            threads: None,
            block_size: DEFAULT_BLOCK_SIZE,
        }
    }

    /// How many threads decode (as many as there are cores). The result is the same.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// How many bytes of elements a thread takes at once ([`DEFAULT_BLOCK_SIZE`]). A message that
    /// isn't larger than that is decoded on one thread.
    #[must_use]
    pub const fn block_size(mut self, block_size: usize) -> Self {
        self.block_size = block_size;
        self
    }
}

/// Decodes a message on as many threads as there are cores: what [`Message::decode`] makes of it,
/// and the same errors.
///
/// Values of type `Bytes` share the memory of `bytes`.
///
/// ```
/// use prost::Message;
/// # use proto_splitter_core::decode::{InParts, Parts};
/// # #[derive(Clone, PartialEq, Message)]
/// # struct Table { #[prost(string, tag = "1")] name: String, #[prost(message, repeated, tag = "2")] rows: Vec<Row> }
/// # #[derive(Clone, PartialEq, Message)]
/// # struct Row { #[prost(int64, repeated, tag = "1")] cells: Vec<i64> }
/// # impl InParts for Row { fn parts(_: &mut Parts<Self>) {} }
/// # impl InParts for Table {
/// #     fn parts(parts: &mut Parts<Self>) { parts.repeated(2, |table| &mut table.rows); }
/// # }
/// let table = Table { name: "squares".into(), rows: (0..10_000).map(|n| Row { cells: vec![n, n * n] }).collect() };
///
/// // A type says where its elements are: see `InParts`.
/// let decoded: Table = proto_splitter_core::decode::decode(table.encode_to_vec())?;
/// assert_eq!(decoded, table);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if the bytes are no message of that type.
pub fn decode<M: InParts>(bytes: impl Into<Bytes>) -> Result<M> {
    decode_with(bytes, &DecodeOptions::new())
}

/// Decodes a message as [`decode`] does, with options.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_with<M: InParts>(bytes: impl Into<Bytes>, options: &DecodeOptions) -> Result<M> {
    let bytes = bytes.into();
    let threads = threads::count(options.threads).get();
    if threads > 1
        && bytes.len() > options.block_size
        && let Some(message) = run::decode(&bytes, threads, options.block_size)
    {
        return Ok(message);
    }
    // Also where the parts were not to be had: what is wrong is for prost to say.
    M::decode(bytes).map_err(undecodable)
}

/// Merges whole fields into a message that stands so deep.
fn merge_fields<M: Message>(
    message: &mut M,
    mut fields: Bytes,
    depth: &DecodeContext,
) -> std::result::Result<(), prost::DecodeError> {
    while !fields.is_empty() {
        let (number, wire_type) = prost::encoding::decode_key(&mut fields)?;
        message.merge_field(number, wire_type, &mut fields, depth.clone())?;
    }
    Ok(())
}

#[cold]
pub(crate) fn undecodable(error: prost::DecodeError) -> Error {
    Error::new(
        ErrorKind::InvalidMessage,
        format!("the bytes are no message of the type asked for: {error}"),
    )
}

#[cfg(test)]
mod tests;
