//! Parallel work on all cores, as a reference for benchmarks.

use std::error::Error;
use std::thread;

/// Runs the same work on one thread per core. The threads share out the work between them.
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
