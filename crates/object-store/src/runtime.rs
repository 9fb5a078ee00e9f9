//! The threads that requests run on, whoever waits for them.

use std::future::Future;
use std::io;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Requests wait most of the time; what they do besides is to decrypt and to copy.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// The runtime of all requests, which begins with the first.
pub(crate) fn handle() -> io::Result<&'static Handle> {
    let runtime = RUNTIME.get_or_init(|| {
        // An application that has chosen another provider keeps it.
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
            "no threads for requests: {error}"
        ))),
    }
}

/// Waits for a future that needs the runtime, on any thread, one of another runtime included.
pub(crate) fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    let _entered = handle()?.enter();
    Ok(futures::executor::block_on(future))
}
