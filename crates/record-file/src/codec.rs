//! Compressors and decompressors, with interfaces for whole buffers and for streams.
//!
//! Each compressor is enabled by a feature of the crate. Without this feature, the compressor's
//! module contains stand-in types that can't be constructed, so that no other code depends on the
//! feature.
#[cfg(feature = "brotli")]
mod brotli;
#[cfg(not(feature = "brotli"))]
#[path = "codec/absent/brotli.rs"]
mod brotli;
mod compress_pieces;
mod compressor;
mod decode;
mod encode;
#[cfg(test)]
mod features_tests;
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

pub(crate) use decode::{Decoders, reserve, resize};
pub(crate) use encode::Encoders;
pub(crate) use memory::{Memory, SMALL_CHUNK};
pub(crate) use stream::StreamDecoder;

/// Maximum size, in bytes, of a buffer that is allocated at once for a size claimed by the file. A
/// buffer for a larger size grows as data arrives.
pub(crate) const TRUSTED_SIZE: u64 = 16 << 20;
