//! Options for writing a SavedModel.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::split::SplitOptions;

/// Maximum size of a `saved_model.pb` that TensorFlow reads, in bytes. This is protobuf's limit for
/// messages: 1 byte less than 2 GiB.
pub const MAX_PLAIN_SIZE: u64 = i32::MAX.unsigned_abs() as u64;

/// The form in which to write a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetForm {
    /// `saved_model.pb` if the model has at most [`MAX_PLAIN_SIZE`] bytes, otherwise
    /// `saved_model.cpb`.
    #[default]
    Auto,
    /// `saved_model.pb`. Writing fails if the model has more than [`MAX_PLAIN_SIZE`] bytes.
    Plain,
    /// `saved_model.cpb`. A model that doesn't need to be split becomes a single chunk.
    Chunked,
}

/// Options for writing a SavedModel.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    pub(super) split: SplitOptions,
    pub(super) keep_fingerprint: bool,
    pub(super) force: bool,
    pub(super) copying: Copying,
}

impl SaveOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        SaveOptions {
            split: SplitOptions::new(),
            keep_fingerprint: false,
            force: false,
            copying: Copying {
                report: None,
                progress: Progress::none(),
            },
        }
    }

    proto_splitter_core::options! {
        /// Sets the options for splitting the model. They apply only if the model is written as a
        /// `saved_model.cpb`. Default: [`SplitOptions::new`].
        ref split, get_split: SplitOptions;

        /// Sets whether to leave `fingerprint.pb` unchanged, even if TensorFlow would compute a
        /// different fingerprint for the new form of the model. Default: false.
        const keep_fingerprint, get_keep_fingerprint: bool;

        /// Sets whether to replace an existing SavedModel. Default: false.
        const force, get_force: bool;
    }

    /// Sets the progress listener for copying files, checking the variables and computing the
    /// fingerprint. The listener can also cancel the work, in which case no files are left.
    /// Splitting and merging use the listener in the options for [`split`](Self::split) instead.
    /// Default: none.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.copying.progress = progress;
        self
    }

    /// Sets a callback for progress in copying files. Its arguments are the file's path, the number
    /// of copied bytes, and the file's size in bytes. Default: none.
    #[must_use]
    pub fn on_copy(mut self, report: impl Fn(&Path, u64, u64) + Send + Sync + 'static) -> Self {
        self.copying.report = Some(Arc::new(report));
        self
    }

    /// Returns the progress listener for copying files, checking the variables and computing the
    /// fingerprint.
    pub const fn get_progress(&self) -> &Progress {
        &self.copying.progress
    }
}

type Report = dyn Fn(&Path, u64, u64) + Send + Sync;

/// The listeners for the progress of copying files.
#[derive(Clone, Default)]
pub(super) struct Copying {
    report: Option<Arc<Report>>,
    progress: Progress,
}

impl Copying {
    /// Returns a meter for copying a file of this size.
    pub(super) fn meter(&self, size: u64) -> Meter {
        self.progress.meter(size)
    }

    /// Reports that `copied` of the `of` bytes of `file` have been copied.
    pub(super) fn report(&self, file: &Path, copied: u64, of: u64) {
        if let Some(report) = &self.report {
            report(file, copied, of);
        }
    }
}

impl std::fmt::Debug for Copying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.report.is_some() {
            "heard"
        } else {
            "not heard"
        })
    }
}
