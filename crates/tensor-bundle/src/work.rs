//! Work on several threads.

use std::num::NonZeroUsize;

use proto_splitter_core::{Result, threads};

/// Returns what `each` makes of every number below `count`, in order. Each thread has a buffer of
/// [`BUFFER_LEN`] bytes. After an error nothing more is begun.
///
/// # Errors
///
/// The first that `each` gives.
pub fn map<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    each: impl Fn(usize, &mut Vec<u8>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let buffer = || vec![0; BUFFER_LEN];
    threads::map_with(threads, count, buffer, |at, buffer| each(at, buffer))
}

/// Bytes that a thread reads at a time.
pub const BUFFER_LEN: usize = 1 << 20;

/// The most bytes of a tensor that one thread does before it takes up something else, so that all
/// threads have work to the end.
pub(crate) const PIECE_LEN: u64 = 32 << 20;

/// The pieces of `size` bytes: where each begins and its length.
pub(crate) fn pieces(size: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..size.div_ceil(PIECE_LEN)).map(move |piece| {
        let start = piece * PIECE_LEN;
        (start, PIECE_LEN.min(size - start))
    })
}
