//! Options for externalizing models.

use std::num::NonZeroUsize;

use proto_splitter_core::progress::Progress;

/// Default size from which constants are moved: 1 MiB.
pub const DEFAULT_MIN_SIZE: u64 = 1 << 20;

/// Smallest allowed [`ExternalizeOptions::min_size`]: the replacement of a constant is not much
/// smaller.
pub const LEAST_MIN_SIZE: u64 = 256;

/// Options for externalizing a model.
///
/// ```
/// use proto_splitter_externalize::ExternalizeOptions;
///
/// let options = ExternalizeOptions::new().min_size(64 << 10).force(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ExternalizeOptions {
    pub(crate) min_size: u64,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) force: bool,
    pub(crate) mapped: bool,
    pub(crate) progress: Progress,
}

impl Default for ExternalizeOptions {
    fn default() -> Self {
        ExternalizeOptions::new()
    }
}

impl ExternalizeOptions {
    /// Returns the defaults, which each setter documents.
    #[must_use]
    pub const fn new() -> Self {
        ExternalizeOptions {
            min_size: DEFAULT_MIN_SIZE,
            threads: None,
            force: false,
            mapped: false,
            progress: Progress::none(),
        }
    }

    /// Sets the size from which constants are moved, in bytes. Default: [`DEFAULT_MIN_SIZE`].
    #[must_use]
    pub const fn min_size(mut self, bytes: u64) -> Self {
        self.min_size = bytes;
        self
    }

    /// Sets the number of threads that read and write, each with a buffer of 1 MiB. Default: one
    /// per core.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets whether an existing SavedModel is replaced. Default: false.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets whether the constants are mapped from files at absolute paths. Loading then takes no
    /// memory for them, but the folder can't be moved, and functions that XLA compiles keep their
    /// constants. Default: false.
    #[must_use]
    pub const fn mapped(mut self, mapped: bool) -> Self {
        self.mapped = mapped;
        self
    }

    /// Returns true if the constants are mapped from files at absolute paths.
    pub const fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Sets the progress listener, which can also cancel. All constants are read twice: once to
    /// find equal ones, once to copy them. Default: none.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(cores)
    }
}
