//! Running work on all cores, for benchmarks that need fully parallel work as a comparison.

use std::error::Error;
use std::thread;

/// Runs `work` on one thread per core. All threads call the same function, so it should divide the
/// work itself, for example by removing pieces from a shared queue until the queue is empty.
///
/// # Errors
///
/// An error that `work` returned on one of the threads, or an error if a thread panicked.
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
