//! Converting a SavedModel in place.
//!
//! The order of the steps makes an interruption harmless. First, the complete new model file is
//! renamed to its final name. Then, `fingerprint.pb` is replaced. Finally, the old model file is
//! removed. After an interruption, the folder has the old model file, the new one, or both with
//! equal models. Running the conversion again completes it.

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
use crate::fingerprint::descriptor;
use crate::hashed::{Canonical, Edits, Hashed as _};
use crate::{SAVED_MODEL, fingerprint};

impl SavedModelDir {
    /// Converts the model file in the folder `path` to the form `form`, in place.
    ///
    /// If the conversion is interrupted, the folder still has a readable model with the same
    /// content. Calling the function again completes the conversion.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if `saved_model.pb` and `saved_model.cpb` both exist and
    /// contain different models; [`ErrorKind::LimitExceeded`] if the model is too large for a
    /// `saved_model.pb`; [`ErrorKind::Io`] if another conversion is running in the folder; and the
    /// errors of splitting and merging.
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
        // The old file will be removed, so checks that the new file has the same model.
        check_same(path, old, target)?;
        let fingerprint = update_fingerprint(path, target, options)?;
        let parts = match old {
            ModelForm::Chunked => parts_of_model(path)?,
            ModelForm::Plain | ModelForm::Text => Vec::new(),
        };
        let old = model_path(path, old);
        // Syncs the folder before the removal: otherwise, a crash could lose both files.
        sync_folder(path).map_err(|error| Error::from(error).in_file(path))?;
        fs::remove_file(&old).map_err(|error| Error::from(error).in_file(&old))?;
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

/// Removes the model file of the form `form` from the folder `path`, which must also contain a
/// `saved_model.pb`. For a `.cpb`, also removes the other files that contain the model's chunks.
/// Does nothing for [`ModelForm::Plain`].
///
/// # Errors
///
/// [`ErrorKind::Io`] if a file can't be removed, or if there is no `saved_model.pb`.
pub fn remove_model(path: &Path, form: ModelForm) -> Result<()> {
    fs::metadata(model_path(path, ModelForm::Plain))
        .map_err(|error| Error::from(error).in_file(path))?;
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

/// Fails if the folder `path` has a `saved_model.pb` and a `saved_model.cpb` with different models.
/// Changes nothing.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if the models differ; any error if a model can't be read.
pub fn check_forms(path: &Path) -> Result<()> {
    let [plain, chunked] = [ModelForm::Plain, ModelForm::Chunked];
    if [plain, chunked]
        .iter()
        .all(|form| model_path(path, *form).is_file())
    {
        check_same(path, plain, chunked)?;
    }
    Ok(())
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

/// Fails unless the model files in these two forms contain the same model.
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

/// Removes temporary and leftover files of interrupted conversions. The caller holds the folder's
/// lock, so no conversion is running. Keeps files that are still being written.
fn remove_unfinished(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(|error| Error::from(error).in_file(path))? {
        let entry = entry?.path();
        if is_temporary(&entry) && entry.is_file() {
            remove_unless_held(&entry)?;
        }
    }
    // The main file of a chunked model is removed before its other files. If the main file is
    // missing, the other files may be left over from an interrupted removal.
    let main = model_path(path, ModelForm::Chunked);
    if fs::symlink_metadata(&main).is_err() && model_path(path, ModelForm::Plain).is_file() {
        for part in parts_beside(main)? {
            fs::remove_file(part)?;
        }
    }
    Ok(())
}

/// Removes a temporary file, unless a process holds the file's lock because it is writing the file.
/// On a file system without locks, removes the file.
fn remove_unless_held(path: &Path) -> io::Result<()> {
    // The lock is kept until the file is removed, so that no other writer can take the file.
    #[cfg(unix)]
    let file = File::open(path).ok();
    #[cfg(unix)]
    if let Some(file) = &file {
        use std::os::unix::fs::MetadataExt;

        use rustix::fs::{FlockOperation, flock};
        let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Ok(());
        }
        // The writer may have moved or removed the file after it was opened here. In that case,
        // another writer's file may have its name.
        let now = fs::metadata(path).map(|now| (now.dev(), now.ino()));
        let is_there = file.metadata().is_ok_and(|file| {
            let file = (file.dev(), file.ino());
            now.is_ok_and(|now| now == file)
        });
        if !is_there {
            return Ok(());
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A lock on a folder. Until the lock is dropped, no other conversion can run in the folder.
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
    /// Locks the folder `path`. Succeeds without a lock if the file system has no locks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if another conversion is running in the folder, or the folder doesn't
    /// exist.
    pub fn take(path: &Path) -> Result<FolderLock> {
        let at = |error: io::Error| Error::from(error).in_file(path);
        // Checks this first, since opening a pipe would wait for a writer.
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
                    let message = format!("{}: another conversion is running", path.display());
                    Err(Error::new(ErrorKind::Io, message))
                }
                // On a file system without locks, the conversion runs without one.
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
        // Closing the file doesn't release the lock while a child process, between fork and exec,
        // has the file open.
        if let Some(folder) = &self.0 {
            let _ = rustix::fs::flock(folder, rustix::fs::FlockOperation::Unlock);
        }
    }
}
