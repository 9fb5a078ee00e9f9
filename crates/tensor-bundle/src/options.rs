//! Options for writing and checking bundles.

use std::num::NonZeroUsize;

use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::threads;

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

    proto_splitter_core::options! {
        /// Sets the number of threads that read and write tensors. Each thread has a 1 MiB buffer.
        /// Default: `None`, one per core.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets the input files from which the tensors come. New files have at most the permissions
        /// of the input files. Default: none.
        ref made_from, get_made_from: MadeFrom;

        /// Sets whether to replace existing files. Default: false.
        const force, get_force: bool;

        /// Sets the progress listener, which can also cancel the work. Default: none.
        ref progress, get_progress: Progress;
    }

    pub(crate) fn thread_count(&self) -> NonZeroUsize {
        threads::count(self.threads)
    }
}
