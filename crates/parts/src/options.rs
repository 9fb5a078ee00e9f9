//! Options for running a part.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::objects::Objects;
use proto_splitter_core::container::Limits;
use proto_splitter_core::progress::Progress;

/// How a part is done, or a plan committed. What is done is in the plan.
///
/// ```
/// use proto_splitter_parts::PartOptions;
/// let options = PartOptions::new().threads(std::num::NonZeroUsize::new(2));
/// assert_eq!(options.threads.map(|threads| threads.get()), Some(2));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartOptions {
    /// How many threads work; as many as there are cores if `None`.
    pub threads: Option<NonZeroUsize>,
    /// Who is told how far it is.
    pub progress: Progress,
    /// What is accepted of a chunked file.
    pub limits: Limits,
    /// Where the objects are that the plan names by URL.
    pub objects: Option<Arc<dyn Objects>>,
    /// Whether a commit reads once more what the parts have written.
    pub reread: bool,
}

impl Default for PartOptions {
    fn default() -> Self {
        PartOptions::new()
    }
}

impl PartOptions {
    /// The defaults, which the setters name in parentheses.
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

    /// How many threads work (as many as there are cores). The result is the same.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// What is accepted of a chunked file ([`Limits::new`]).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where the objects are that the plan names by URL (only files are read and written).
    #[must_use]
    pub fn objects(mut self, objects: impl Into<Option<Arc<dyn Objects>>>) -> Self {
        self.objects = objects.into();
        self
    }

    /// Whether a commit of a split or a merge reads once what the parts have written, and compares
    /// it with their checksums (it does).
    ///
    /// Without that, damage done between a part and the commit goes unnoticed by the commit. A
    /// reader of a chunked file finds it later by the file's own checksums; a merged message has
    /// none, so nobody does.
    #[must_use]
    pub const fn reread(mut self, reread: bool) -> Self {
        self.reread = reread;
        self
    }
}
