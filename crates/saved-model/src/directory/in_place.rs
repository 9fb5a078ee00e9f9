//! Conversion of a SavedModel where it is.
//!
//! The order is the promise: the new model's file appears by rename, complete; then
//! `fingerprint.pb` is replaced; then the old model's file goes. Whenever this is interrupted, the
//! folder has the old model, or the old and the new, which say the same, or the new. Begun again,
//! it goes on from there.

use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io;
use std::path::Path;

use proto_splitter_core::atomic::{sync_folder, warn_unless_synced};
use proto_splitter_core::split::parts_beside;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::copy::is_temporary;
use super::model::Model;
use super::options::{SaveOptions, TargetForm};
use super::outcome::{FingerprintOutcome, update_fingerprint};
use super::rebuild::parts_of_model;
use super::save::Saved;
use super::{ModelForm, SavedModelDir, model_path};
use crate::canonical::{Canonical, Edits, Hashed as _};
use crate::fingerprint::descriptor;
use crate::{SAVED_MODEL, fingerprint};

impl SavedModelDir {
    /// Brings the model of the folder `path` into this form, in place.
    ///
    /// Safe against being interrupted at any moment: there is always a model that can be read, and
    /// it is always the same. Called again, it finishes what was begun.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if there is a `saved_model.pb` beside a `saved_model.cpb` and
    /// the two are not the same model; [`ErrorKind::LimitExceeded`] if the model is too large
    /// to be a `saved_model.pb`; [`ErrorKind::Io`] if another conversion is at work in the
    /// folder; and as for splitting and merging.
    pub fn convert_in_place(
        path: impl AsRef<Path>,
        form: TargetForm,
        options: &SaveOptions,
    ) -> Result<Saved> {
        let path = path.as_ref();
        let _lock = FolderLock::take(path)?;
        remove_unfinished(path)?;
        let dir = SavedModelDir::open(path)?;
        let target = dir.resolve(form)?;
        let message_size = dir.message_size();
        let saved = |form, fingerprint, changed| Saved {
            model_path: model_path(path, form),
            form,
            message_size,
            fingerprint,
            changed,
        };
        let is_there = |form| model_path(path, form).is_file();
        let old = if is_there(ModelForm::Chunked) && is_there(ModelForm::Plain) {
            other(target)
        } else if dir.form() == target {
            return Ok(saved(target, unchanged(path, options)?, false));
        } else {
            dir.write_model(path, target, options)?;
            dir.form()
        };
        // The old one goes for good: not before the new one is known to say the same.
        check_same(path, old, target)?;
        let fingerprint = update_fingerprint(path, target, options)?;
        let parts = match old {
            ModelForm::Chunked => parts_of_model(path)?,
            ModelForm::Plain | ModelForm::Text => Vec::new(),
        };
        let old = model_path(path, old);
        // Else a crash could leave neither.
        sync_folder(path).map_err(|error| Error::from(error).context(path.display()))?;
        fs::remove_file(&old).map_err(|error| Error::from(error).context(old.display()))?;
        if warn_unless_synced(&model_path(path, target)) {
            for part in parts {
                if let Err(error) = fs::remove_file(&part) {
                    tracing::warn!("{} was not removed: {error}", part.display());
                }
            }
        }
        Ok(saved(target, fingerprint, true))
    }
}

/// Removes the model's file of this form from a folder, unless it is the `saved_model.pb`, which has
/// taken its place; and the other files that its chunks are in.
///
/// # Errors
///
/// [`ErrorKind::Io`], also if there is no `saved_model.pb`.
pub fn remove_model(path: &Path, form: ModelForm) -> Result<()> {
    fs::metadata(model_path(path, ModelForm::Plain))
        .map_err(|error| Error::from(error).context(path.display()))?;
    let parts = match form {
        ModelForm::Plain => return Ok(()),
        ModelForm::Chunked => parts_of_model(path)?,
        ModelForm::Text => Vec::new(),
    };
    fs::remove_file(model_path(path, form))?;
    for part in parts {
        fs::remove_file(part)?;
    }
    Ok(sync_folder(path)?)
}

fn other(form: ModelForm) -> ModelForm {
    match form {
        ModelForm::Chunked => ModelForm::Plain,
        ModelForm::Plain | ModelForm::Text => ModelForm::Chunked,
    }
}

fn unchanged(path: &Path, options: &SaveOptions) -> Result<FingerprintOutcome> {
    Ok(match fingerprint::read(path)? {
        _ if options.keep_fingerprint => FingerprintOutcome::Kept,
        Some(stored) => FingerprintOutcome::Written(stored),
        None => FingerprintOutcome::Absent,
    })
}

/// Fails unless both files hold the same model.
fn check_same(path: &Path, old: ModelForm, new: ModelForm) -> Result<()> {
    let [of_old, of_new] = [old, new].map(|form| -> Result<(u64, u64)> {
        let model = Model::open_file(&model_path(path, form), form)?;
        let data = model.data();
        let mut canonical = Canonical::new(&*data, model.size());
        let whole = canonical.whole();
        let plan = canonical.message(&descriptor(SAVED_MODEL)?, &whole, &Edits::none())?;
        Ok((plan.len(), canonical.hash(&plan)?))
    });
    if of_old? == of_new? {
        return Ok(());
    }
    let message = format!(
        "{}: saved_model.{} and saved_model.{} are two different models",
        path.display(),
        old.extension(),
        new.extension()
    );
    Err(Error::new(ErrorKind::AlreadyExists, message))
}

/// Removes what conversions left that were interrupted. The lock says that none is at work.
fn remove_unfinished(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(|error| Error::from(error).context(path.display()))? {
        let entry = entry?.path();
        if is_temporary(&entry) && entry.is_file() {
            fs::remove_file(entry)?;
        }
    }
    // The other files of a model go after their main file. Beside nothing they may be all that is
    // left of a model.
    let main = model_path(path, ModelForm::Chunked);
    if fs::symlink_metadata(&main).is_err() && model_path(path, ModelForm::Plain).is_file() {
        for part in parts_beside(main)? {
            fs::remove_file(part)?;
        }
    }
    Ok(())
}

/// Keeps other conversions out of a folder for as long as it lives.
///
/// ```
/// use proto_splitter_saved_model::directory::FolderLock;
///
/// let folder = tempfile::tempdir()?;
/// let lock = FolderLock::take(folder.path())?;
/// # if cfg!(unix) {
/// assert!(FolderLock::take(folder.path()).is_err(), "one at a time");
/// # }
/// drop(lock);
/// FolderLock::take(folder.path())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FolderLock(#[cfg(unix)] Option<File>);

impl FolderLock {
    /// Locks the folder `path`. On a file system without locks, this does nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if another conversion is at work in the folder, or there is no such folder.
    pub fn take(path: &Path) -> Result<FolderLock> {
        let at = |error: io::Error| Error::from(error).context(path.display());
        // Opening a pipe to lock it would wait for a writer.
        if !fs::metadata(path).map_err(at)?.is_dir() {
            return Err(at(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        #[cfg(unix)]
        {
            use rustix::fs::{FlockOperation, flock};
            let folder = File::open(path).map_err(at)?;
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(FolderLock(Some(folder))),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let message = format!("{}: another conversion is at work", path.display());
                    Err(Error::new(ErrorKind::Io, message))
                }
                // A file system without locks is no reason not to convert.
                Err(_) => Ok(FolderLock(None)),
            }
        }
        #[cfg(not(unix))]
        {
            Ok(FolderLock())
        }
    }
}

#[cfg(unix)]
impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing wouldn't do: a process that is just being started has the file open too, until it
        // becomes its program.
        if let Some(folder) = &self.0 {
            let _ = rustix::fs::flock(folder, rustix::fs::FlockOperation::Unlock);
        }
    }
}
