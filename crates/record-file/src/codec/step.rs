//! Types shared by the codecs and their callers: the progress of a step, and errors.
use crate::error::{Error, ErrorKind, Result};

/// The most that output grows by at once; a block of zstd's is as large.
pub(super) const STEP: usize = 128 << 10;

/// Is given the output whenever there is more of it, a [`STEP`] or so, to take it away or not.
pub(crate) type Each<'a> = dyn FnMut(&mut Vec<u8>) -> Result<()> + 'a;

/// How far one step of decoding came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) read: usize,
    pub(crate) written: usize,
}

/// What snappy compresses at once, whatever it gets.
pub(super) const SNAPPY_FRAGMENT: usize = 64 << 10;

pub(super) fn bad_stream(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::plain(ErrorKind::Corrupt, what)
}

pub(super) fn no_memory() -> Error {
    Error::plain(ErrorKind::LimitExceeded, "zstd: out of memory")
}

/// A codec that this build doesn't have.
#[cfg(not(all(feature = "brotli", feature = "snappy", feature = "zstd")))]
pub(super) fn missing(kind: crate::CompressionKind) -> Error {
    let message = format!("this build of record-file has no {kind}: its feature `{kind}` is off");
    Error::plain(ErrorKind::Unsupported, message)
}

pub(super) fn window_too_large() -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        "compressed with a window larger than max_window_log allows",
    )
}

pub(super) fn size_differs(size: u64) -> Error {
    bad_stream(format!(
        "compressed stream doesn't decode to the {size} bytes it claims"
    ))
}
