//! Work on several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proto_splitter_core::Result;

/// What `each` makes of every number below `count`, in order. Each thread has a buffer of
/// [`BUFFER_LEN`] bytes. After an error nothing more is begun.
///
/// # Errors
///
/// The first that `each` gives.
pub fn map<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    each: impl Fn(usize, &mut [u8]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let mut buffer = vec![0; BUFFER_LEN];
        let mut made = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = each(at, &mut buffer);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            made.push((at, result));
        }
        made
    };
    let mut made: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(count))
            .map(|_| scope.spawn(work))
            .collect();
        let mut made = work();
        for thread in others {
            match thread.join() {
                Ok(more) => made.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        made
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, result)| result).collect()
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
