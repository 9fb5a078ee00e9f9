//! How a SavedModel is written, and who hears of it.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::progress::CancelToken;
use proto_splitter_core::split::SplitOptions;

/// The largest `saved_model.pb` that TensorFlow reads: protobuf's messages end at 2 GiB.
pub const MAX_PLAIN_SIZE: u64 = i32::MAX.unsigned_abs() as u64;

/// The form a model is to be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetForm {
    /// `saved_model.pb` if it is no larger than [`MAX_PLAIN_SIZE`], else `saved_model.cpb`.
    #[default]
    Auto,
    /// `saved_model.pb`.
    Plain,
    /// `saved_model.cpb`. A model in which nothing has to be cut is one chunk in it.
    Chunked,
}

/// How a SavedModel is written.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    pub(super) split: SplitOptions,
    pub(super) keep_fingerprint: bool,
    pub(super) force: bool,
    pub(super) progress: Progress,
}

impl SaveOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        SaveOptions {
            split: SplitOptions::new(),
            keep_fingerprint: false,
            force: false,
            progress: Progress {
                report: None,
                cancel: proto_splitter_core::progress::Progress::none(),
            },
        }
    }

    /// How the model is split, where it is ([`SplitOptions::new`]).
    #[must_use]
    pub fn split(mut self, split: SplitOptions) -> Self {
        self.split = split;
        self
    }

    /// Whether `fingerprint.pb` is left as it is (no). TensorFlow would compute another one once
    /// the model is in another form.
    #[must_use]
    pub const fn keep_fingerprint(mut self, keep: bool) -> Self {
        self.keep_fingerprint = keep;
        self
    }

    /// Whether a SavedModel that is in the way is replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Is told of every file that is copied, and of how many of its bytes have been.
    #[must_use]
    pub fn progress(mut self, report: impl Fn(&Path, u64, u64) + Send + Sync + 'static) -> Self {
        self.progress.report = Some(Arc::new(report));
        self
    }

    /// Can be stopped by this token: in the middle of a split, a merge or a copy. Nothing is left
    /// behind then.
    #[must_use]
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.progress.cancel = self.progress.cancel.cancelled_by(token);
        self
    }
}

type Report = dyn Fn(&Path, u64, u64) + Send + Sync;

/// Who hears of files being copied.
#[derive(Clone, Default)]
pub struct Progress {
    report: Option<Arc<Report>>,
    cancel: proto_splitter_core::progress::Progress,
}

impl Progress {
    /// Fails if it was cancelled.
    pub(super) fn report(&self, file: &Path, copied: u64, of: u64) -> Result<()> {
        if let Some(report) = &self.report {
            report(file, copied, of);
        }
        self.cancel.check()
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.report.is_some() {
            "heard"
        } else {
            "not heard"
        })
    }
}
