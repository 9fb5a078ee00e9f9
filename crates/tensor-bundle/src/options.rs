//! Options for writing and checking bundles.

use std::num::NonZeroUsize;

use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::progress::Progress;

/// Maximum number of data files in a bundle. TensorFlow writes this number with five digits in the
/// names of the files.
pub const MAX_SHARDS: u32 = 99_999;

/// Options for writing or checking a bundle.
///
/// ```
/// use proto_splitter_tensor_bundle::BundleOptions;
///
/// let options = BundleOptions::new().force(true).threads(std::num::NonZeroUsize::MIN);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    threads: Option<NonZeroUsize>,
    pub(crate) force: bool,
    pub(crate) made_from: MadeFrom,
    pub(crate) progress: Progress,
}

impl BundleOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        BundleOptions {
            threads: None,
            force: false,
            made_from: MadeFrom::Nothing,
            progress: Progress::none(),
        }
    }

    /// Sets the number of threads that read and write tensors. Each thread has a 1 MiB buffer.
    /// Default: one per core.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets the input files from which the tensors come. New files have at most the permissions of the
    /// input files. Default: none.
    #[must_use]
    pub fn made_from(mut self, made_from: MadeFrom) -> Self {
        self.made_from = made_from;
        self
    }

    /// Sets whether to replace existing files. Default: false.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets the progress listener, which can also cancel the work. Default: none.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Returns the number of threads that read and write tensors; `None` for one per core.
    pub const fn get_threads(&self) -> Option<NonZeroUsize> {
        self.threads
    }

    /// Returns whether to replace existing files.
    pub const fn get_force(&self) -> bool {
        self.force
    }

    /// Returns the input files from which the tensors come.
    pub const fn get_made_from(&self) -> &MadeFrom {
        &self.made_from
    }

    /// Returns the listener for progress and cancellation.
    pub const fn get_progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(cores)
    }
}
