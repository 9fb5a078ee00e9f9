//! Options for externalizing models.

use std::num::NonZeroUsize;

use proto_splitter_core::progress::Progress;
use proto_splitter_core::threads;

/// Default minimum size of constants that are moved out of the model, in bytes: 1 MiB.
pub const DEFAULT_MIN_SIZE: u64 = 1 << 20;

/// Smallest value that [`ExternalizeOptions::min_size`] allows, in bytes. A smaller constant would
/// hardly be larger than its replacement.
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
    /// Returns the default options. Each setter documents the default of its option.
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

    proto_splitter_core::options! {
        /// Sets the minimum size of constants that are moved out of the model, in bytes. Numbers that
        /// the model stores as varints may have another size in memory: their constant is moved if
        /// either size is large enough, but not if its node has fewer bytes in the model. Default:
        /// [`DEFAULT_MIN_SIZE`].
        const min_size, get_min_size: u64;

        /// Sets the number of threads that read and write; `None` means one per core. Each thread
        /// has a 1 MiB buffer. Default: `None`.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets whether to replace an existing SavedModel. Default: false.
        const force, get_force: bool;

        /// Sets whether the model maps its constants from files at absolute paths. Loading the
        /// model then needs no memory for constants. However, the model's folder can't be moved,
        /// and functions that XLA compiles keep their constants. Default: false.
        const mapped, get_mapped: bool;

        /// Sets the progress listener, which can also cancel the operation. All constants are read
        /// twice: once to find equal constants, and once to copy them. Default: none.
        ref progress, get_progress: Progress;
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        threads::count(self.threads)
    }
}
