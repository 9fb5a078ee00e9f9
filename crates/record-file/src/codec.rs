//! The compressors, behind one interface each for a whole buffer and for a stream.
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Decoders, StreamDecoder};
pub(crate) use encode::{Encoders, StreamEncoder};

use crate::error::{Error, ErrorKind};

/// Bytes that are allocated on the word of a size that was only read; beyond it memory grows as data arrives.
pub(crate) const TRUSTED_SIZE: u64 = 16 << 20;

fn bad_stream(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::plain(ErrorKind::Corrupt, what)
}

fn zstd_name(code: usize) -> &'static str {
    zstd::zstd_safe::get_error_name(code)
}
