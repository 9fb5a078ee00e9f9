//! Types shared by the codecs and their callers: the progress of a step, and errors.
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of bytes by which the output grows at once: the maximum size of a zstd block.
pub(super) const STEP: usize = 128 << 10;

/// A callback that is called with the output vector after every step, in which the vector grows by
/// at most about [`STEP`] bytes. The callback may remove bytes from the vector.
pub(crate) type Each<'a> = dyn FnMut(&mut Vec<u8>) -> Result<()> + 'a;

/// The progress of one decoding step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) read: usize,
    pub(crate) written: usize,
}

/// Size of the fragments that snappy compresses independently of each other, in bytes.
pub(super) const SNAPPY_FRAGMENT: usize = 64 << 10;

pub(super) fn bad_stream(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::plain(ErrorKind::Corrupt, what)
}

pub(super) fn no_memory() -> Error {
    Error::plain(ErrorKind::LimitExceeded, "zstd: out of memory")
}

/// Returns the error for a codec whose feature is disabled in this build.
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
