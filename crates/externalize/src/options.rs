//! How models are externalized.

use std::num::NonZeroUsize;

use proto_splitter_core::progress::Progress;

/// Constants of fewer bytes stay where they are, unless something else is asked for: 1 MiB.
pub const DEFAULT_MIN_SIZE: u64 = 1 << 20;

/// The least that [`ExternalizeOptions::min_size`] may be: what replaces a constant is not much
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
    /// The defaults, which the setters name in parentheses.
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

    /// Constants of at least this many bytes move ([`DEFAULT_MIN_SIZE`]).
    #[must_use]
    pub const fn min_size(mut self, bytes: u64) -> Self {
        self.min_size = bytes;
        self
    }

    /// Sets how many threads read and write (one a core). Each holds a MiB.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets whether a SavedModel that is in the way is replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets whether the constants are mapped from files at absolute paths (no). Loading takes no memory
    /// for them then, but the folder can't be moved, and functions that XLA compiles keep theirs.
    #[must_use]
    pub const fn mapped(mut self, mapped: bool) -> Self {
        self.mapped = mapped;
        self
    }

    /// Returns true if the constants are mapped from files at absolute paths.
    pub const fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Sets the listener for progress, which can also cancel (none). All constants are read twice: once
    /// to find equal ones, once to copy them.
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
