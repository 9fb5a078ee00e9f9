//! Doing things on several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::Result;

/// How many threads work: as many as there are cores, unless somebody said.
pub(crate) fn count(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

/// Runs `work` on so many threads, one of them this one, and gives what each came to. A panic is
/// passed on.
pub(crate) fn run<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }));
        results
    })
}

/// What `each` makes of every number below `count`, in order.
pub(crate) fn map<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    each: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let mut made = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = each(at);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            made.push((at, result));
        }
        made
    };
    let mut made: Vec<_> = run(threads.get().min(count), work)
        .into_iter()
        .flatten()
        .collect();
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, result)| result).collect()
}
