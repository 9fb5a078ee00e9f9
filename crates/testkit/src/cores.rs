//! Work on all cores, for what benchmarks compare with.

use std::error::Error;
use std::thread;

/// Does the same work on as many threads as there are cores: each takes its share from somewhere
/// until there is no more.
///
/// # Errors
///
/// That of any thread.
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
