//! Progress reporting and cancellation.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use proto_splitter_core::ErrorKind;
//! use proto_splitter_core::progress::{CancelToken, Progress};
//! use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
//!
//! let file = prost_reflect::prost_types::FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
//! let folder = tempfile::tempdir()?;
//! let seen = Arc::new(AtomicU64::new(0));
//! let progress = Progress::new({
//!     let seen = Arc::clone(&seen);
//!     move |done, _total| _ = seen.fetch_max(done, Ordering::Relaxed)
//! });
//! let options = SplitOptions::new().max_chunk_size(1000).progress(progress);
//! SizeSplitter.write_with(&file, folder.path().join("file"), &options)?;
//! assert!(seen.load(Ordering::Relaxed) > 5000);
//!
//! let cancel = CancelToken::new();
//! cancel.cancel();
//! let options = options.force(true).progress(Progress::default().cancelled_by(&cancel));
//! let error = SizeSplitter.write_with(&file, folder.path().join("file"), &options).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::Cancelled);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Error, ErrorKind, Result};

/// Minimum number of bytes between two reports.
const STEP: u64 = 1 << 20;

/// A handle to cancel operations from any thread. Clones share their state.
///
/// ```
/// use proto_splitter_core::ErrorKind;
/// use proto_splitter_core::progress::{CancelToken, Progress};
///
/// let token = CancelToken::new();
/// let progress = Progress::default().cancelled_by(&token);
/// assert!(progress.check().is_ok());
/// token.cancel();
/// assert_eq!(progress.check().unwrap_err().kind(), ErrorKind::Cancelled);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    cancelled: Arc<AtomicBool>,
}

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Cancels the operations that use this token: they fail with [`ErrorKind::Cancelled`] and
    /// leave no files, unless they have finished already.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

type Report = dyn Fn(u64, u64) + Send + Sync;

/// A listener for the progress of an operation, and a token that can cancel the operation. Both are
/// optional. Default: neither.
#[derive(Clone, Default)]
pub struct Progress {
    report: Option<Arc<Report>>,
    cancel: Option<CancelToken>,
}

impl Progress {
    /// Creates a `Progress` that reports nothing and can't be cancelled.
    #[must_use]
    pub const fn none() -> Self {
        Progress {
            report: None,
            cancel: None,
        }
    }

    /// Creates a `Progress` that calls `report` with the number of processed bytes and the total
    /// number of bytes. The calls are made about once per MiB and at the end, from any worker
    /// thread.
    pub fn new(report: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Progress {
            report: Some(Arc::new(report)),
            cancel: None,
        }
    }

    /// Sets the token that can cancel the operation.
    #[must_use]
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Fails if the operation was cancelled.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`] if the operation was cancelled.
    pub fn check(&self) -> Result<()> {
        match &self.cancel {
            Some(token) if token.is_cancelled() => Err(cancelled()),
            _ => Ok(()),
        }
    }

    /// Creates a counter for an operation that will process `total` bytes.
    pub fn meter(&self, total: u64) -> Meter {
        Meter {
            progress: self.clone(),
            total,
            done: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("reports", &self.report.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

#[cold]
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}

/// A counter of the bytes that one operation has processed. Several threads may share it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use proto_splitter_core::progress::Progress;
///
/// let seen = Arc::new(AtomicU64::new(0));
/// let progress = Progress::new({
///     let seen = Arc::clone(&seen);
///     move |done, total| seen.store(100 * done / total, Ordering::Relaxed)
/// });
/// let meter = progress.meter(8 << 20);
/// meter.advance(2 << 20)?;
/// assert_eq!(seen.load(Ordering::Relaxed), 25);
/// meter.advance(6 << 20)?;
/// assert_eq!(seen.load(Ordering::Relaxed), 100);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Meter {
    progress: Progress,
    total: u64,
    done: AtomicU64,
}

impl Meter {
    /// Fails if the operation was cancelled.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`] if the operation was cancelled.
    pub fn check(&self) -> Result<()> {
        self.progress.check()
    }

    /// Adds `bytes` to the number of processed bytes. Fails if the operation was cancelled.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`] if the operation was cancelled.
    pub fn advance(&self, bytes: u64) -> Result<()> {
        self.check()?;
        if let Some(report) = &self.progress.report {
            let before = self.done.fetch_add(bytes, Ordering::Relaxed);
            let done = before + bytes;
            if before / STEP != done / STEP || done >= self.total {
                report(done.min(self.total), self.total);
            }
        }
        Ok(())
    }

    /// Returns true if there is a listener or a cancel token.
    fn is_heeded(&self) -> bool {
        self.progress.report.is_some() || self.progress.cancel.is_some()
    }

    /// Wraps a reader. Bytes read through the wrapper count as processed.
    pub fn read<R>(&self, inner: R) -> Metered<'_, R> {
        Metered { inner, meter: self }
    }

    /// Wraps a writer. Bytes written through the wrapper count as processed.
    pub fn written_to<W>(&self, inner: W) -> Metered<'_, W> {
        Metered { inner, meter: self }
    }
}

/// A wrapper of a reader or writer that adds the bytes passing through it to a [`Meter`]; returned
/// by [`Meter::read`] and [`Meter::written_to`].
#[derive(Debug)]
pub struct Metered<'a, R> {
    inner: R,
    meter: &'a Meter,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.meter.advance(n as u64)?;
        Ok(n)
    }
}

impl<W: Write> Write for Metered<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buf)?;
        self.meter.advance(n as u64)?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A counter for a traversal that may skip bytes or go back. It counts up to the furthest position
/// reached.
#[derive(Debug)]
pub(crate) struct HighWaterMark {
    meter: Meter,
    at: u64,
    /// Position of the next report; `u64::MAX` if there is neither a listener nor a token. In that
    /// case, the only cost is to compare positions with this value.
    due: u64,
}

impl HighWaterMark {
    /// Creates a counter for the traversal of an input whose size is the total of `meter`.
    pub(crate) fn new(meter: Meter) -> Self {
        let due = if meter.is_heeded() { STEP } else { u64::MAX };
        HighWaterMark { meter, at: 0, due }
    }

    /// Records that the traversal reached `position`. Fails if the operation was cancelled.
    #[inline]
    pub(crate) fn reach(&mut self, position: u64) -> Result<()> {
        if position < self.due {
            return Ok(());
        }
        self.report(position)
    }

    #[cold]
    fn report(&mut self, position: u64) -> Result<()> {
        self.meter.advance(position - self.at)?;
        self.at = position;
        self.due = position.saturating_add(STEP);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_hops_and_goes_back_is_as_far_as_it_ever_was() {
        let seen = Arc::new(AtomicU64::new(0));
        let progress = Progress::new({
            let seen = Arc::clone(&seen);
            move |done, _| seen.store(done, Ordering::Relaxed)
        });
        let mut furthest = HighWaterMark::new(progress.meter(10 * STEP));
        for (position, expected) in [
            (STEP / 2, 0),
            (3 * STEP, 3 * STEP),
            (0, 3 * STEP),
            (4 * STEP - 1, 3 * STEP),
            (9 * STEP, 9 * STEP),
        ] {
            furthest.reach(position).unwrap();
            assert_eq!(seen.load(Ordering::Relaxed), expected, "{position}");
        }
    }

    #[test]
    fn a_walk_ends_soon_after_it_was_cancelled() {
        let token = CancelToken::new();
        let progress = Progress::default().cancelled_by(&token);
        let mut furthest = HighWaterMark::new(progress.meter(10 * STEP));
        furthest.reach(2 * STEP).unwrap();
        token.cancel();
        assert!(furthest.reach(2 * STEP + 1).is_ok());
        let error = furthest.reach(3 * STEP).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
