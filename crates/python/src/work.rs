//! Running work without the GIL, with progress callbacks and cancellation.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use proto_splitter::progress::{CancelToken, Progress};
use proto_splitter::{Error, Result};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{of_output, raise};

/// Interval at which a running job's caller checks for signals and progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs a job on another thread, without the GIL. Meanwhile, the calling thread checks for signals
/// and calls `look`, every 50 ms.
///
/// If a signal handler or `look` raises an exception, `stop` is called once, and should make the
/// job end soon.
///
/// # Errors
///
/// The exception that was raised, after the job has ended; `RuntimeError` if no thread can be
/// started.
fn watched<T: Send>(
    py: Python<'_>,
    job: impl FnOnce() -> T + Send,
    mut look: impl FnMut(Python<'_>) -> PyResult<()> + Send,
    stop: impl FnOnce() + Send,
) -> PyResult<T> {
    let mut stop = Some(stop);
    let mut raised = None;
    let value = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(1);
            let started = std::thread::Builder::new()
                .name("proto-splitter".into())
                .spawn_scoped(scope, move || {
                    // Sending doesn't fail, since the receiver exists until the result has been
                    // received.
                    let _ = sender.send(job());
                });
            if let Err(error) = started {
                let message = format!("a thread can't be started: {error}");
                return Err(PyRuntimeError::new_err(message));
            }
            loop {
                match receiver.recv_timeout(LOOK_EVERY) {
                    Ok(value) => return Ok(value),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PyRuntimeError::new_err("the work ended midway"));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if raised.is_none()
                    && let Err(error) =
                        Python::attach(|py| py.check_signals().and_then(|()| look(py)))
                {
                    raised = Some(error);
                    if let Some(stop) = stop.take() {
                        stop();
                    }
                }
            }
        })
    })?;
    match raised {
        Some(raised) => Err(raised),
        None => Ok(value),
    }
}

/// The numbers of bytes that a job has reported most recently: bytes done, and total bytes.
#[derive(Debug, Default)]
struct Reported {
    done: AtomicU64,
    total: AtomicU64,
}

impl Reported {
    fn read(&self) -> (u64, u64) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed).min(total), total)
    }

    /// Returns the progress callback to pass to a job.
    fn teller(self: &Arc<Self>) -> Told {
        let told = Arc::clone(self);
        Box::new(move |done, total| {
            // Progress starts again if the total changes, since several jobs may run one after
            // another.
            if told.total.swap(total, Ordering::Relaxed) == total {
                told.done.fetch_max(done, Ordering::Relaxed);
            } else {
                told.done.store(done, Ordering::Relaxed);
            }
        })
    }

    /// Returns a function that calls `callback` if progress was reported since the returned
    /// function was last called.
    fn look(
        self: &Arc<Self>,
        callback: Option<&Bound<'_, PyAny>>,
    ) -> impl FnMut(Python<'_>) -> PyResult<()> + Send + use<> {
        let reported = Arc::clone(self);
        let callback = callback.map(|callback| callback.clone().unbind());
        let mut last = (0, 0);
        move |py| {
            let now = reported.read();
            if now == last {
                return Ok(());
            }
            last = now;
            match &callback {
                Some(callback) => callback.call1(py, now).map(drop),
                None => Ok(()),
            }
        }
    }

    /// Calls `callback` for the end of the job, if any progress was reported.
    fn finish(&self, callback: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if let Some(callback) = callback
            && let (_, total @ 1..) = self.read()
        {
            callback.call1((total, total))?;
        }
        Ok(())
    }
}

/// Runs a job that uses the library, without the GIL.
///
/// The calling thread calls `progress(done, total)`, both in bytes, at most twenty times a second
/// and once at the end. If the callback or a signal handler raises an exception, the job is
/// cancelled, and leaves no partial files. The exception is raised again after the job has ended.
///
/// # Errors
///
/// The exception that was raised, or the job's error as an exception. If the job's error becomes an
/// `OSError`, its `filename` is `file`.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    file: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(Progress) -> Result<T> + Send,
) -> PyResult<T> {
    detached_with(py, progress, job, |error: Error| raise(py, &error, file))
}

/// Runs a job that writes `outputs`, like [`detached`]. An exception about an output has the
/// output's path as its `filename`; any other `OSError` has `file`.
pub(crate) fn detached_writing<T: Send>(
    py: Python<'_>,
    file: Option<&str>,
    outputs: &[PathBuf],
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(Progress) -> Result<T> + Send,
) -> PyResult<T> {
    detached_with(py, progress, job, |error: Error| {
        let output = outputs.iter().find(|output| error.file() == Some(output));
        let output = output.map(|output| output.display().to_string());
        let raised = raise(py, &error, output.as_deref().or(file));
        of_output(py, raised, outputs)
    })
}

/// Runs a job like [`detached`]. `raise` converts the job's errors to exceptions.
pub(crate) fn detached_with<T: Send, E: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(Progress) -> Result<T, E> + Send,
    raise: impl FnOnce(E) -> PyErr,
) -> PyResult<T> {
    let reported = Arc::new(Reported::default());
    let token = CancelToken::new();
    let handed = Progress::new(reported.teller()).cancelled_by(&token);
    let look = reported.look(progress);
    let ended = watched(py, || job(handed), look, || token.cancel())?;
    let value = ended.map_err(raise)?;
    reported.finish(progress)?;
    Ok(value)
}

/// A progress callback, which is called with the number of bytes done and the total number of
/// bytes.
type Told = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Runs a job that doesn't report progress. Calls `stop` if a signal handler raises an exception.
///
/// # Errors
///
/// The signal handler's exception, after the job has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    job: impl FnOnce() -> T + Send,
    stop: impl FnOnce() + Send,
) -> PyResult<T> {
    watched(py, job, |_| Ok(()), stop)
}

/// Converts the number of threads that Python passes. `None` means one per core.
///
/// # Errors
///
/// `ValueError` for 0.
pub(crate) fn threads(number: Option<usize>) -> PyResult<Option<NonZeroUsize>> {
    let some = |number| {
        let message = "threads must be at least 1";
        NonZeroUsize::new(number).ok_or_else(|| PyValueError::new_err(message))
    };
    number.map(some).transpose()
}
