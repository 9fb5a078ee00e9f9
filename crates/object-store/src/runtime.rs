//! The threads that run all requests to stores.

use std::future::Future;
use std::io;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Number of threads. Few threads are enough, since requests mostly wait, and otherwise only
/// decrypt and copy bytes.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// Returns the handle of the runtime that runs all requests. The first call starts the runtime.
pub(crate) fn handle() -> io::Result<&'static Handle> {
    let runtime = RUNTIME.get_or_init(|| {
        // This has no effect if the application has already chosen another TLS provider.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("object-store")
            .enable_all()
            .build();
        runtime.map_err(|error| error.to_string())
    });
    match runtime {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(io::Error::other(format!(
            "can't start threads for requests: {error}"
        ))),
    }
}

/// Waits for a future that needs the runtime of this crate. May be called on any thread, even on
/// one of another runtime.
pub(crate) fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    let _entered = handle()?.enter();
    Ok(futures::executor::block_on(future))
}
