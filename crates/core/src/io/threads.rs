//! Running work on several threads.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use crate::{Error, ErrorKind, Result};

/// Maximum number of threads, even if more are requested, since each thread takes memory. The
/// compiler checks that this constant isn't zero.
const MOST: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// Returns the number of threads to use: the requested number, or the number of cores for `None`;
/// at most 512.
#[must_use]
pub fn count(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    asked.unwrap_or_else(cores).min(MOST)
}

/// Spawns up to `count` threads that each call `work`, and returns the number of threads that the
/// system allowed to start. Reaching a limit on processes or memory isn't an error if other threads
/// can do the work.
pub(crate) fn spawn_up_to<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    count: usize,
    work: impl Fn() + Copy + Send + 'scope,
) -> usize {
    let spawned = (0..count).map(|_| Builder::new().spawn_scoped(scope, work));
    spawned.take_while(std::io::Result::is_ok).count()
}

/// Calls `work` once on each of up to `threads` threads, including the current one, and returns all
/// results. Propagates panics.
pub(crate) fn run<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others = (1..threads).map(|_| Builder::new().spawn_scoped(scope, &work));
        let others: Vec<_> = others.map_while(Result::ok).collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }));
        results
    })
}

/// Calls `each` with every number below `count`, on up to `threads` threads, and returns the
/// results in order. Starts no more calls after an error.
///
/// # Errors
///
/// The first error from `each`, in the order of the numbers.
pub fn map<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    each: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    map_with(threads, count, || (), |at, ()| each(at))
}

/// Does the same as [`map`], and also passes `each` a value from `own` that belongs to the thread,
/// such as a buffer.
///
/// # Errors
///
/// The same errors as [`map`].
pub fn map_with<B, T: Send>(
    threads: NonZeroUsize,
    count: usize,
    own: impl Fn() -> B + Sync,
    each: impl Fn(usize, &mut B) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let mut own = own();
        let mut made = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = each(at, &mut own);
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

/// Limits on the results that are made before the consumer takes them. The consumer takes the
/// results in order.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Maximum number of results that are in progress or wait for the consumer.
    pub count: NonZeroUsize,
    /// Maximum total size of the results that are in progress or wait for the consumer, in the unit
    /// of the jobs' sizes. A single result may be larger.
    pub size: u64,
}

/// Calls `make` with the index of each item of `sizes`, and passes the results to `take` in order,
/// on this thread, as [`each_in_order`] does.
///
/// `make` also receives a flag that is set once the result is no longer wanted, so that `make` can
/// return early.
pub(crate) fn in_order<T: Send>(
    threads: NonZeroUsize,
    sizes: impl ExactSizeIterator<Item = u64>,
    ahead: Ahead,
    make: impl Fn(usize, &AtomicBool) -> Result<T> + Sync,
    take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let jobs = sizes.enumerate().map(|(at, size)| (size, at));
    each_in_order(threads, jobs, ahead, make, take)
}

/// Calls `make` for each job, and passes the results to `take` in order, on this thread. Other
/// threads make results ahead of `take`, within the bounds in `ahead`; without other threads, this
/// thread alternates between `make` and `take`. Each job is paired with its size. The iterator of
/// jobs also runs on this thread, once there is room for another job. A job of size `u64::MAX`
/// starts only after the results of all earlier jobs were taken.
///
/// `make` also receives a flag that is set once the result is no longer wanted, so that `make` can
/// return early.
///
/// # Errors
///
/// The first error from `make`, in job order, or an earlier error from `take`.
pub fn each_in_order<J: Send, T: Send>(
    threads: NonZeroUsize,
    jobs: impl Iterator<Item = (u64, J)>,
    ahead: Ahead,
    make: impl Fn(J, &AtomicBool) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let abandoned = AtomicBool::new(false);
    let mut jobs = jobs.peekable();
    if threads.get() == 1 {
        return jobs.try_for_each(|(_, job)| take(make(job, &abandoned)?));
    }
    type Job<J, T> = (J, Sender<Result<T>>);
    let (begun, to_do) = mpsc::channel::<Job<J, T>>();
    let to_do = Mutex::new(to_do);
    let next = || to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let work = || {
        while let Ok((job, made)) = next() {
            // If the receiver is gone, the result isn't needed.
            drop(made.send(make(job, &abandoned)));
        }
    };
    std::thread::scope(|scope| {
        let most = jobs.size_hint().1.unwrap_or(usize::MAX);
        if spawn_up_to(scope, threads.get().min(most), work) == 0 {
            return jobs.try_for_each(|(_, job)| take(make(job, &abandoned)?));
        }
        // Both are dropped before the scope ends: dropping `_abandons` makes running jobs return
        // early, and dropping `begun` closes the channel, so that the threads end.
        let _abandons = Abandons(&abandoned);
        let begun = begun;
        let mut waiting: VecDeque<(u64, Receiver<Result<T>>)> = VecDeque::new();
        let mut waiting_size = 0u64;
        loop {
            let has_room = |count: usize, all: u64, size: u64| {
                count == 0 || (count < ahead.count.get() && all.saturating_add(size) <= ahead.size)
            };
            while waiting.len() < ahead.count.get()
                && let Some((size, job)) =
                    jobs.next_if(|(size, _)| has_room(waiting.len(), waiting_size, *size))
            {
                let (made, to_take) = mpsc::channel();
                drop(begun.send((job, made)));
                waiting.push_back((size, to_take));
                waiting_size += size;
            }
            let Some((size, made)) = waiting.pop_front() else {
                return Ok(());
            };
            let panicked = || Error::new(ErrorKind::Io, "a thread panicked");
            let made = made.recv().map_err(|_| panicked())?;
            waiting_size -= size;
            take(made?)?;
        }
    })
}

/// A guard that, when dropped, sets the flag that makes running jobs return early.
struct Abandons<'a>(&'a AtomicBool);

impl Drop for Abandons<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count_of(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    /// Returns the sizes of `count` items of size 1.
    fn ones(count: usize) -> impl ExactSizeIterator<Item = u64> + Clone {
        (0..count).map(|_| 1)
    }

    fn ahead(count: usize) -> Ahead {
        Ahead {
            count: count_of(count),
            size: u64::MAX,
        }
    }

    #[test]
    fn what_is_made_on_any_number_of_threads_is_taken_in_order_and_never_too_far_ahead() {
        for (threads, most) in [(1, 1), (2, 1), (2, 3), (5, 4)] {
            let taken = AtomicUsize::new(0);
            let make = |at: usize, _: &AtomicBool| {
                assert!(at < taken.load(Ordering::SeqCst) + most, "{at}");
                Ok(at * at)
            };
            let mut all = Vec::new();
            let take = |made| {
                all.push(made);
                taken.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            in_order(count_of(threads), ones(100), ahead(most), make, take).unwrap();
            let expected: Vec<_> = (0..100).map(|at| at * at).collect();
            assert_eq!(all, expected, "{threads} threads");
        }
    }

    #[test]
    fn what_is_ahead_is_never_too_large_but_for_one_alone() {
        let sizes = [3u64, 4, 3, 50, 1, 9, 1, 10, 0, 0, 11, 2];
        let waiting = Mutex::new((0u64, 0usize));
        let make = |at: usize, _: &AtomicBool| {
            let mut waiting = waiting.lock().unwrap();
            waiting.0 += sizes[at];
            waiting.1 += 1;
            assert!(waiting.0 <= 10 || waiting.1 == 1, "{at}: {waiting:?}");
            Ok(at)
        };
        let mut taken = Vec::new();
        let take = |at: usize| {
            let mut waiting = waiting.lock().unwrap();
            waiting.0 -= sizes[at];
            waiting.1 -= 1;
            taken.push(at);
            Ok(())
        };
        let ahead = Ahead {
            count: count_of(4),
            size: 10,
        };
        in_order(count_of(3), sizes.into_iter(), ahead, make, take).unwrap();
        assert!(taken.into_iter().eq(0..sizes.len()));
    }

    #[test]
    fn the_first_that_fails_ends_it_and_so_does_one_that_takes() {
        let failing = |at| Err::<usize, _>(Error::new(ErrorKind::Uncuttable, format!("{at}")));
        for threads in [1, 3] {
            let threads = count_of(threads);
            let make = |at, _: &AtomicBool| if at % 7 == 6 { failing(at) } else { Ok(at) };
            let mut taken = 0;
            let take = |_| {
                taken += 1;
                Ok(())
            };
            let error = in_order(threads, ones(100), ahead(4), make, take).unwrap_err();
            assert_eq!((error.to_string().as_str(), taken), ("6", 6));
            let take = |at| {
                if at == 3 {
                    failing(at).map(drop)
                } else {
                    Ok(())
                }
            };
            let error = in_order(threads, ones(100), ahead(4), |at, _| Ok(at), take);
            assert_eq!(error.unwrap_err().to_string(), "3");
        }
    }

    #[test]
    fn what_is_still_being_made_is_told_that_nobody_takes_it() {
        let make = |at, abandoned: &AtomicBool| {
            while at == 1 && !abandoned.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(())
        };
        let take = |()| Err(Error::new(ErrorKind::Io, "full"));
        let error = in_order(count_of(2), ones(2), ahead(2), make, take).unwrap_err();
        assert_eq!(error.to_string(), "full");
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_on_a_thread_is_passed_on() {
        let make = |at, _: &AtomicBool| {
            assert!(at != 3, "on purpose");
            Ok(())
        };
        drop(in_order(count_of(2), ones(10), ahead(2), make, |()| Ok(())));
    }
}
