//! Dividing the work on tensors among several threads.

use std::num::NonZeroUsize;

use proto_splitter_core::{Result, threads};

/// Calls `each` on several threads, once for every number below `count`, and returns the results in
/// the order of the numbers. Each thread passes the same buffer of [`BUFFER_LEN`] bytes to all of
/// its calls. After an error, no more calls are made.
///
/// # Errors
///
/// The first error that `each` returns.
pub fn map<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    each: impl Fn(usize, &mut Vec<u8>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let buffer = || vec![0; BUFFER_LEN];
    threads::map_with(threads, count, buffer, |at, buffer| each(at, buffer))
}

/// Size of each thread's buffer, in bytes.
pub const BUFFER_LEN: usize = 1 << 20;

/// Maximum number of bytes that a thread processes at once. A larger tensor is divided among
/// threads, so that no thread runs out of work early.
pub(crate) const PIECE_LEN: u64 = 32 << 20;

/// Divides `size` bytes into pieces of at most [`PIECE_LEN`] bytes, and returns the offset and
/// length of each piece.
pub(crate) fn pieces(size: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..size.div_ceil(PIECE_LEN)).map(move |piece| {
        let start = piece * PIECE_LEN;
        (start, PIECE_LEN.min(size - start))
    })
}
