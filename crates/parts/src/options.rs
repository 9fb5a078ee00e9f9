//! Options for running a part, and for committing a plan.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::objects::Objects;
use proto_splitter_core::container::Limits;
use proto_splitter_core::progress::Progress;

/// Options for running a part, or for committing a plan. The plan itself specifies the work.
///
/// ```
/// use proto_splitter_parts::PartOptions;
/// let options = PartOptions::new().threads(std::num::NonZeroUsize::new(2));
/// assert_eq!(options.get_threads().map(|threads| threads.get()), Some(2));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartOptions {
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
    pub(crate) limits: Limits,
    pub(crate) objects: Option<Arc<dyn Objects>>,
    pub(crate) reread: bool,
}

impl Default for PartOptions {
    fn default() -> Self {
        PartOptions::new()
    }
}

impl PartOptions {
    /// Creates the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        PartOptions {
            threads: None,
            progress: Progress::none(),
            limits: Limits::new(),
            objects: None,
            reread: true,
        }
    }

    proto_splitter_core::options! {
        /// Sets the number of threads; `None` means one per core. The result doesn't depend on this
        /// number. Default: `None`.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets the progress listener, which can also cancel the work. Default: none.
        ref progress, get_progress: Progress;

        /// Sets the limits for reading a chunked file. Default: [`Limits::new`].
        ref limits, get_limits: Limits;

        /// Sets whether a commit of a split or a merge rereads all data that the parts have
        /// written, and verifies the checksums in the parts' reports. Default: true.
        ///
        /// Without rereading, a commit doesn't detect damage to the data of a part that happened
        /// after the part was run. A reader of a chunked file detects such damage by the file's own
        /// checksums. A merged message has no checksums, so the damage isn't detected.
        const reread, get_reread: bool;

        /// Sets the access to object stores, for the objects that the plan names by URL. Default:
        /// `None`, so that only files can be read and written.
        optional objects, get_objects: Arc<dyn Objects>;
    }
}
