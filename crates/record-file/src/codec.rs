//! The compressors, behind one interface each for a whole buffer and for a stream.
//!
//! Each is a feature of the crate. In a build without one, the module of its name has types that
//! can't be made, so that nothing else has to ask.
#[cfg(feature = "brotli")]
mod brotli;
#[cfg(not(feature = "brotli"))]
#[path = "codec/absent/brotli.rs"]
mod brotli;
mod compressor;
mod decode;
mod encode;
mod memory;
mod pieces;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(not(feature = "snappy"))]
#[path = "codec/absent/snappy.rs"]
mod snappy;
mod stream;
#[cfg(all(test, feature = "brotli", feature = "snappy", feature = "zstd"))]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(not(feature = "zstd"))]
#[path = "codec/absent/zstd.rs"]
mod zstd;

pub(crate) use decode::{Decoders, resize};
pub(crate) use encode::Encoders;
pub(crate) use memory::{Memory, SMALL_CHUNK};
pub(crate) use stream::StreamDecoder;

use crate::error::{Error, ErrorKind};

/// Bytes that are allocated on the word of a size that was only read; beyond it memory grows as
/// data arrives.
pub(crate) const TRUSTED_SIZE: u64 = 16 << 20;

/// What snappy compresses at once, whatever it gets.
const SNAPPY_FRAGMENT: usize = 64 << 10;

fn bad_stream(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::plain(ErrorKind::Corrupt, what)
}

fn no_memory() -> Error {
    Error::plain(ErrorKind::LimitExceeded, "zstd: out of memory")
}

/// A codec that this build doesn't have.
#[cfg(not(all(feature = "brotli", feature = "snappy", feature = "zstd")))]
fn missing(kind: crate::CompressionKind) -> Error {
    let message = format!("this build of record-file has no {kind}: its feature `{kind}` is off");
    Error::plain(ErrorKind::Unsupported, message)
}
