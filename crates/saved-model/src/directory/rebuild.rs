//! A SavedModel's folder, made anew with its model in another form. It appears complete or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, ErrorKind, Result};
use tempfile::TempDir;

use super::copy::copy_folder;
use super::save::{FingerprintOutcome, SaveOptions, sync_folder, update_fingerprint};
use super::{MODEL_STEM, ModelForm, model_path};

/// A SavedModel's folder that was made anew.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rebuilt<T> {
    /// What writing the model gave.
    pub filled: T,
    /// What became of `fingerprint.pb`.
    pub fingerprint: FingerprintOutcome,
}

/// Makes the folder `to` of all that is in the folder `from`, but for the model: `fill` writes that, to the prefix it is given.
///
/// [`SavedModelDir::save_as`](super::SavedModelDir::save_as) is this, with the model written as it is asked for.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if `to` is there and isn't empty, unless force is set; [`ErrorKind::InvalidConfig`] if it is no
/// SavedModel then, or if one folder lies in the other; [`ErrorKind::Io`]; and what `fill` says.
pub fn rebuild<T, E: From<Error>>(
    from: &Path,
    to: &Path,
    options: &SaveOptions,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<Rebuilt<T>, E> {
    let to = check_target(from, to, options.force)?;
    let temporary = tempfile::Builder::new()
        .prefix(".protosplit-")
        .suffix(".tmp")
        .tempdir_in(parent(&to))
        .map_err(Error::from)?;
    let folder = temporary.path();
    // What can fail for the data's sake goes first: copying may take long.
    let filled = fill(&folder.join(MODEL_STEM))?;
    let finish = || -> Result<FingerprintOutcome> {
        let models = ModelForm::ALL.map(|form| model_path(from, form));
        copy_folder(from, folder, &models, &options.progress)?;
        let written = |form: &&ModelForm| model_path(folder, **form).is_file();
        let fingerprint = match ModelForm::ALL.iter().find(written) {
            Some(form) => update_fingerprint(folder, *form, options)?,
            None => FingerprintOutcome::Kept,
        };
        // Only now: it may be a folder that nothing can be added to.
        fs::set_permissions(folder, fs::metadata(from)?.permissions())?;
        Ok(fingerprint)
    };
    let fingerprint = finish()?;
    move_in(temporary, &to)?;
    Ok(Rebuilt {
        filled,
        fingerprint,
    })
}

/// Where the result may go: nowhere that would lose something.
fn check_target(from: &Path, to: &Path, force: bool) -> Result<PathBuf> {
    let refuse = |kind, why: &str| Err(Error::new(kind, format!("{}: {why}", to.display())));
    let source = fs::canonicalize(from)?;
    let target = if fs::symlink_metadata(to).is_ok() {
        fs::canonicalize(to)?
    } else {
        match to.file_name() {
            Some(name) => fs::canonicalize(parent(to))?.join(name),
            None => return refuse(ErrorKind::InvalidConfig, "no name for a new folder"),
        }
    };
    if target.starts_with(&source) || source.starts_with(&target) {
        let why = "the output must be a folder apart from the input";
        return refuse(ErrorKind::InvalidConfig, why);
    }
    match fs::read_dir(&target) {
        Ok(mut entries) => {
            let is_model = || {
                ModelForm::ALL
                    .iter()
                    .any(|form| model_path(&target, *form).is_file())
            };
            match (entries.next().is_none(), force) {
                (true, _) => Ok(target),
                (false, true) if is_model() => Ok(target),
                (false, false) => refuse(ErrorKind::AlreadyExists, "there already, and not empty"),
                (false, true) => refuse(
                    ErrorKind::InvalidConfig,
                    "not empty, and no SavedModel: not even force replaces it",
                ),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(target),
        Err(error) => Err(Error::from(error).context(to.display())),
    }
}

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Puts a finished folder in its place. What was there is put aside first and removed last.
fn move_in(temporary: TempDir, to: &Path) -> Result<()> {
    let mut aside = None;
    if fs::symlink_metadata(to).is_ok() {
        let old = tempfile::Builder::new()
            .prefix(".protosplit-")
            .suffix(".old")
            .tempdir_in(parent(to))?;
        fs::rename(to, old.path().join("old"))?;
        aside = Some(old);
    }
    if let Err(error) = fs::rename(temporary.path(), to) {
        if let Some(old) = aside
            && let Err(lost) = fs::rename(old.path().join("old"), to)
        {
            let kept = old.keep();
            let message = format!("{lost}; what was there is in {}", kept.display());
            return Err(Error::new(ErrorKind::Io, message).context(to.display()));
        }
        return Err(Error::from(error).context(to.display()));
    }
    // It is no longer where it would be looked for to be removed.
    let _ = temporary.keep();
    if let Some(old) = aside {
        old.close()?;
    }
    sync_folder(parent(to))
}
