//! Whole SavedModels, written anew.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::AtomicFile;
use proto_splitter_core::merge::{MergeOptions, Merger};
use proto_splitter_core::progress::CancelToken;
use proto_splitter_core::split::{ComposableSplitter, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};

use super::copy::copy_file;
use super::model::Model;
use super::rebuild::{parent, rebuild};
use super::{MODEL_STEM, ModelForm, SavedModelDir, model_path};
use crate::fingerprint::{self, FingerprintError, descriptor};
use crate::proto::FingerprintDef;
use crate::{SAVED_MODEL, SavedModelSplitter};

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
    /// `saved_model.cpb`. A model in which nothing has to be cut is written as a `saved_model.pb`.
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

/// What became of a model's `fingerprint.pb`.
#[derive(Clone, Debug, PartialEq)]
pub enum FingerprintOutcome {
    /// It was computed anew, and is this now.
    Written(FingerprintDef),
    /// It was left as it is, as was asked for.
    Kept,
    /// The model has none, and still has none.
    Absent,
    /// It was left as it is: TensorFlow's own code can't compute one for the model in its new form,
    /// for this reason.
    Refused(String),
}

/// A SavedModel that was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The model's file.
    pub model_path: PathBuf,
    /// The form it is in.
    pub form: ModelForm,
    /// Bytes of the model as a message, which is what a `saved_model.pb` has.
    pub message_size: u64,
    /// What became of `fingerprint.pb`.
    pub fingerprint: FingerprintOutcome,
    /// Whether anything had to be done. Only a conversion in place may find that not.
    pub changed: bool,
}

impl SavedModelDir {
    /// Writes the SavedModel to the folder `to`, with a `saved_model.pb`.
    ///
    /// # Errors
    ///
    /// As [`save_as`](Self::save_as).
    pub fn save(&self, to: impl AsRef<Path>, options: &SaveOptions) -> Result<Saved> {
        self.save_as(to, TargetForm::Plain, options)
    }

    /// Writes the SavedModel to the folder `to`, with a `saved_model.cpb`.
    ///
    /// # Errors
    ///
    /// As [`save_as`](Self::save_as).
    pub fn save_as_chunked(&self, to: impl AsRef<Path>, options: &SaveOptions) -> Result<Saved> {
        self.save_as(to, TargetForm::Chunked, options)
    }

    /// Writes the SavedModel to the folder `to`, with its model in this form.
    ///
    /// Everything else in the folder is copied. The new folder appears complete, under its name, or
    /// not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if `to` is there and isn't empty, unless it is a SavedModel and
    /// `force` is set; [`ErrorKind::LimitExceeded`] if the model is too large to be a
    /// `saved_model.pb`; [`ErrorKind::InvalidConfig`] if one folder lies in the other; and as
    /// for splitting and merging.
    pub fn save_as(
        &self,
        to: impl AsRef<Path>,
        form: TargetForm,
        options: &SaveOptions,
    ) -> Result<Saved> {
        let form = self.resolve(form)?;
        let fill = |prefix: &Path| self.write_model(parent(prefix), form, options);
        let rebuilt = rebuild(self.path(), to.as_ref(), options, fill)?;
        Ok(Saved {
            model_path: model_path(to.as_ref(), rebuilt.filled),
            form: rebuilt.filled,
            message_size: self.message_size(),
            fingerprint: rebuilt.fingerprint,
            changed: true,
        })
    }

    /// Has `fingerprint.pb` agree with the model, where there is one. Its uuid stays.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`], and what is wrong with the model or with what is stored.
    pub fn rewrite_fingerprint(&self) -> Result<FingerprintOutcome> {
        update_fingerprint(self.path(), self.form(), &SaveOptions::new())
    }

    /// The form that is meant.
    pub(super) fn resolve(&self, form: TargetForm) -> Result<ModelForm> {
        let size = self.message_size();
        match form {
            TargetForm::Chunked => Ok(ModelForm::Chunked),
            TargetForm::Auto if size > MAX_PLAIN_SIZE => Ok(ModelForm::Chunked),
            TargetForm::Plain if size > MAX_PLAIN_SIZE => {
                let message = format!(
                    "a saved_model.pb of {size} bytes: {} more than the {MAX_PLAIN_SIZE} that TensorFlow reads",
                    size - MAX_PLAIN_SIZE
                );
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
            TargetForm::Auto | TargetForm::Plain => Ok(ModelForm::Plain),
        }
    }

    /// Writes the model's file of this form to a folder, complete or not at all; gives the form
    /// that it has in the end.
    pub(super) fn write_model(
        &self,
        folder: &Path,
        form: ModelForm,
        options: &SaveOptions,
    ) -> Result<ModelForm> {
        let target = model_path(folder, form);
        match (self.form(), form) {
            (from, to) if from == to => {
                copy_file(&self.model_path(), &target, &options.progress)?;
            }
            (ModelForm::Chunked, _) => {
                let prefix = self.path().join(MODEL_STEM);
                let merging = MergeOptions::new()
                    .descriptor(descriptor(SAVED_MODEL)?)
                    .progress(options.split.get_progress().clone());
                Merger::merge_to_file(&target, prefix, &merging)?;
            }
            (_, ModelForm::Chunked) => {
                let prefix = folder.join(MODEL_STEM);
                let split = options.split.clone().force(false);
                let written = SavedModelSplitter.write_with(self.source()?, prefix, &split)?;
                if !written.is_split {
                    return Ok(ModelForm::Plain);
                }
            }
            _ => {
                let mut file = AtomicFile::create(&target, false)?;
                self.model.copy_to(file.as_file_mut())?;
                file.commit()?;
            }
        }
        Ok(form)
    }
}

/// Has a folder's `fingerprint.pb` agree with the model of this form that is in it now.
pub(super) fn update_fingerprint(
    folder: &Path,
    form: ModelForm,
    options: &SaveOptions,
) -> Result<FingerprintOutcome> {
    if options.keep_fingerprint {
        return Ok(FingerprintOutcome::Kept);
    }
    let Some(stored) = fingerprint::read(folder)? else {
        return Ok(FingerprintOutcome::Absent);
    };
    let model = Model::open_file(&model_path(folder, form), form)?;
    let mut computed = match model.hashes(options.split.get_progress()) {
        Ok(hashes) => hashes.in_folder(folder),
        Err(FingerprintError::Refused(why)) => return Ok(FingerprintOutcome::Refused(why)),
        Err(FingerprintError::Unreadable(error)) => return Err(error),
    };
    computed.uuid.clone_from(&stored.uuid);
    if computed != stored {
        fingerprint::write(folder, &computed)?;
    }
    Ok(FingerprintOutcome::Written(computed))
}

/// Brings what is in a folder, and what isn't any more, to the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
