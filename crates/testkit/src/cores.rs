//! Parallel work on all cores, as a reference for benchmarks.

use std::error::Error;
use std::thread;

/// Runs `work` on one thread per core. To share the work out, `work` can take pieces from a common
/// queue until the queue is empty.
///
/// # Errors
///
/// An error from any of the threads.
pub fn on_all_cores<E: Error + Send + Sync + 'static>(
    work: impl Fn() -> Result<(), E> + Sync,
) -> Result<(), Box<dyn Error>> {
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(&work)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}
