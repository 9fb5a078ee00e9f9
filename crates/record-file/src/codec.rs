//! The compressors, behind one interface each for a whole buffer and for a stream.
//!
//! Each is a feature of the crate. In a build without one, the module of its name has types that
//! can't be made, so that nothing else has to ask.
#[cfg(feature = "brotli")]
mod brotli;
#[cfg(not(feature = "brotli"))]
#[path = "codec/absent/brotli.rs"]
mod brotli;
mod compress_pieces;
mod compressor;
mod decode;
mod encode;
mod memory;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(not(feature = "snappy"))]
#[path = "codec/absent/snappy.rs"]
mod snappy;
mod step;
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

/// Bytes that are allocated on the word of a size that was only read; beyond it memory grows as
/// data arrives.
pub(crate) const TRUSTED_SIZE: u64 = 16 << 20;
