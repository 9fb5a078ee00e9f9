//! Copying a SavedModel's folder atomically, with a new model file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{
    FolderLock, TemporaryFolder, check_folder, discard, discard_detached, folder, has_detached,
    warn_unless_synced,
};
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::parts_beside;
use proto_splitter_core::{Error, ErrorKind, Result};
use tempfile::TempDir;

use super::copy::{Pending, check_outside, copy_folder, make_removable, removable};
use super::options::SaveOptions;
use super::outcome::{FingerprintOutcome, update_fingerprint};
use super::swap::aside;
use super::variables::check_variables;
use super::{MODEL_STEM, ModelForm, model_path};

/// The result of [`rebuild`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rebuilt<T> {
    /// Value that `fill`, the argument of [`rebuild`], returned.
    pub filled: T,
    /// Effect on `fingerprint.pb`.
    pub fingerprint: FingerprintOutcome,
}

/// Creates the folder `to` as a copy of the folder `from` with a new model file, which `fill`
/// writes. The argument of `fill` is the model file's path without an extension. The checksums of
/// the variables are verified; other files have no checksums.
///
/// [`SavedModelDir::save_as`](super::SavedModelDir::save_as) calls this function with a `fill` that
/// writes the model in the requested form.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if `force` isn't set, and `to` has content, even if another process
/// adds the content in the meantime; [`ErrorKind::InvalidConfig`] if an existing `to` is not a
/// SavedModel, if one folder is inside the other, or if a link leads from one into the other;
/// [`ErrorKind::NoFolder`] if the parent folder of `to` doesn't exist;
/// [`ErrorKind::ChecksumMismatch`] if a variable is damaged; [`ErrorKind::Io`]; and any error from
/// `fill`.
pub fn rebuild<T, E: From<Error>>(
    from: &Path,
    to: &Path,
    options: &SaveOptions,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<Rebuilt<T>, E> {
    rebuild_except(from, to, &[], options, fill)
}

/// Creates the folder like [`rebuild`], but omits the files in `except`, and folders that contain
/// only those files.
///
/// # Errors
///
/// The errors of [`rebuild`].
pub fn rebuild_except<T, E: From<Error>>(
    from: &Path,
    to: &Path,
    except: &[PathBuf],
    options: &SaveOptions,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<Rebuilt<T>, E> {
    let to = check_target(from, to, options.force)?;
    let temporary = TemporaryFolder::beside(&to, None)
        // The error names the target, since the temporary folder would mean nothing to the caller.
        .map_err(|error| Error::from(io::Error::from(error.kind())).in_file(&to))?;
    let folder = temporary.path();
    // Writes the model before copying other files, since copying may be slow, and invalid data
    // should fail early.
    let filled = fill(&folder.join(MODEL_STEM))?;
    let finish = || -> Result<(FingerprintOutcome, Vec<Pending>)> {
        let mut models = ModelForm::ALL.map(|form| model_path(from, form)).to_vec();
        models.extend(parts_of_model(from)?);
        models.extend(named_parts(from));
        models.extend_from_slice(except);
        check_variables(from, options.get_progress())?;
        let mut pending = copy_folder(from, folder, &models, &options.copying)?;
        let written = |form: &&ModelForm| model_path(folder, **form).is_file();
        let fingerprint = match ModelForm::ALL.iter().find(written) {
            Some(form) => update_fingerprint(folder, *form, options)?,
            None => FingerprintOutcome::Kept,
        };
        let permissions = fs::metadata(from)?.permissions();
        fs::set_permissions(folder, removable(&permissions))?;
        pending.push((PathBuf::new(), permissions));
        Ok((fingerprint, pending))
    };
    let (fingerprint, pending) = finish()?;
    let _lock = FolderLock::take(&to, &Progress::none())?;
    let temporary = temporary
        .detach(&to)
        .map_err(|error| Error::from(error).in_file(&to))?;
    move_in(temporary, &to, options.force)?;
    // Makes folders read-only last: before, they may have to be removed.
    for (folder, permissions) in pending {
        let folder = to.join(folder);
        fs::set_permissions(&folder, permissions)
            .map_err(|error| Error::from(error).in_file(&folder))?;
    }
    Ok(Rebuilt {
        filled,
        fingerprint,
    })
}

/// Returns the files next to a folder's `saved_model.cpb` whose names mark them as files with
/// further chunks of the model. Returns an empty list if the folder has no `saved_model.cpb`.
pub(super) fn parts_of_model(folder: &Path) -> Result<Vec<PathBuf>> {
    let model = model_path(folder, ModelForm::Chunked);
    if model.is_file() {
        parts_beside(model)
    } else {
        Ok(Vec::new())
    }
}

/// Returns the paths of the other files with chunks, as the `.cpb` in a folder names them. A `.cpb`
/// can name any path. Returns an empty list if the `.cpb` can't be read, since other code reports
/// that error.
fn named_parts(folder: &Path) -> Vec<PathBuf> {
    let Ok(file) = ChunkedFile::open(model_path(folder, ModelForm::Chunked)) else {
        return Vec::new();
    };
    let named = file.trailer().metadata().files.iter();
    named.map(|file| folder.join(&file.path)).collect()
}

/// Returns the canonical path of the target. Fails if replacing the target would destroy the input,
/// or other content that `force` doesn't allow to be replaced.
fn check_target(from: &Path, to: &Path, force: bool) -> Result<PathBuf> {
    let refuse = |kind, why: &str| Err(Error::new(kind, format!("{}: {why}", to.display())));
    let source = fs::canonicalize(from)?;
    check_folder(to)?;
    let target = if fs::symlink_metadata(to).is_ok() {
        fs::canonicalize(to)?
    } else {
        match to.file_name() {
            Some(name) => fs::canonicalize(folder(to))?.join(name),
            None => return refuse(ErrorKind::InvalidConfig, "the path names no new folder"),
        }
    };
    if target.starts_with(&source) || source.starts_with(&target) {
        let why = "the output must be a folder apart from the input";
        return refuse(ErrorKind::InvalidConfig, why);
    }
    recover(&target)?;
    match fs::read_dir(&target) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                check_replaceable(&target, to, force)?;
                check_outside(from, &target)?;
            }
            Ok(target)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let why = "expected a folder, found a file";
            refuse(ErrorKind::InvalidConfig, why)
        }
        Err(error) => Err(Error::from(error).in_file(&target)),
    }
}

/// Fails unless `force` is set and the non-empty folder `target` is a SavedModel, so that the
/// folder may be replaced. `named` is the path that error messages show.
fn check_replaceable(target: &Path, named: &Path, force: bool) -> Result<()> {
    let refuse = |kind, why| Err(Error::new(kind, format!("{}: {why}", named.display())));
    if !force {
        return refuse(ErrorKind::AlreadyExists, "already exists and is not empty");
    }
    if !has_model(target) {
        let why = "not empty and not a SavedModel: not even force replaces it";
        return refuse(ErrorKind::InvalidConfig, why);
    }
    Ok(())
}

fn has_model(folder: &Path) -> bool {
    let is_file = |form: &ModelForm| model_path(folder, *form).is_file();
    ModelForm::ALL.iter().any(is_file)
}

/// Renames the finished folder `temporary` to `to`, and removes the previous folder at `to`.
///
/// Checks the content of `to` again, since other content may have appeared while the new folder was
/// written.
fn move_in(temporary: TempDir, to: &Path, force: bool) -> Result<()> {
    move_in_by(exchange, temporary, to, force)
}

/// Implements [`move_in`]. `exchange` is the function that swaps two folders.
fn move_in_by(
    exchange: fn(&Path, &Path) -> io::Result<()>,
    temporary: TempDir,
    to: &Path,
    force: bool,
) -> Result<()> {
    let failed = |error: io::Error| Error::from(error).in_file(to);
    match take_place(temporary.path(), to) {
        Ok(()) => {
            // Keeps `TempDir` from removing its path, since the folder is now at `to`.
            let _ = temporary.keep();
            warn_unless_synced(to);
            return Ok(());
        }
        Err(error) if is_taken(&error) => {}
        Err(error) => return Err(failed(error)),
    }
    check_replaceable(to, to, force)?;
    match exchange(temporary.path(), to) {
        Ok(()) => {
            // The content of `to` may have changed between the check and the swap.
            if let Err(refused) = check_replaceable(temporary.path(), to, force) {
                return match exchange(temporary.path(), to) {
                    Ok(()) => Err(refused),
                    Err(lost) => Err(stranded(&lost, &temporary.keep()).in_file(to)),
                };
            }
            remove_replaced(&temporary.keep(), to);
            Ok(())
        }
        Err(error) if can_not(&error) => move_in_by_turns(temporary, to),
        Err(error) => Err(failed(error)),
    }
}

/// Implements [`move_in`] on systems that can't swap folders. First renames the previous folder to
/// [`aside`]. If the process is interrupted before the new folder is renamed to `to`, the next run
/// renames the previous folder back. Until then, opening the model fails with an error that has the
/// path of the previous folder.
fn move_in_by_turns(temporary: TempDir, to: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::from(error).in_file(to);
    let aside = aside(to);
    fs::rename(to, &aside).map_err(failed)?;
    if let Err(error) = take_place(temporary.path(), to) {
        return match take_place(&aside, to) {
            Ok(()) => Err(failed(error)),
            Err(lost) => Err(stranded(&lost, &aside).in_file(to)),
        };
    }
    let _ = temporary.keep();
    remove_replaced(&aside, to);
    Ok(())
}

fn stranded(error: &io::Error, kept: &Path) -> Error {
    let message = format!("{error}; the previous folder is in {}", kept.display());
    Error::new(ErrorKind::Io, message)
}

/// Removes the folder `old`, whose replacement is now at `to`.
fn remove_replaced(old: &Path, to: &Path) {
    if warn_unless_synced(to)
        && let Err(error) = discard_all(old)
    {
        tracing::warn!("{} was not removed: {error}", old.display());
    }
}

/// Removes a folder, even if it or its subfolders are read-only.
fn discard_all(folder: &Path) -> io::Result<()> {
    // If this fails, removing the folder reports why.
    let _ = make_removable(folder);
    discard(folder)
}

/// Swaps two folders atomically.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        let _ = (one, other);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns true if the error means that the system or the file system doesn't support swapping.
fn can_not(error: &io::Error) -> bool {
    // File systems without this feature report an invalid flag.
    let unknown = [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput];
    unknown.contains(&error.kind())
}

/// Completes an interrupted [`move_in`]. If the previous folder was renamed to [`aside`], removes
/// it, or renames it back to `to` if the new folder isn't there yet. Also removes finished folders
/// that were never renamed to `to`.
fn recover(to: &Path) -> Result<()> {
    let aside = aside(to);
    if !aside.is_dir() && !has_detached(to) {
        return Ok(());
    }
    let _lock = FolderLock::take(to, &Progress::none())?;
    if aside.is_dir() {
        let recovered = if fs::symlink_metadata(to).is_err() {
            fs::rename(&aside, to)
        } else {
            discard_all(&aside)
        };
        recovered.map_err(|error| Error::from(error).in_file(&aside))?;
    }
    discard_detached(to, has_model);
    Ok(())
}

/// Renames `folder` to `to`, which must not exist or must be an empty folder. The operating system
/// checks this: if this function checked it first, content could appear between the check and the
/// renaming.
fn take_place(folder: &Path, to: &Path) -> io::Result<()> {
    // Not every system renames over an empty folder. `remove_dir` fails for a folder with content.
    #[cfg(not(unix))]
    let _ = fs::remove_dir(to);
    fs::rename(folder, to)
}

/// Returns true if a rename failed because its target is a folder that isn't empty.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
    ) || (cfg!(not(unix)) && error.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a temporary folder, the path of a SavedModel in it, and the path of a target, which
    /// doesn't exist.
    fn model_and_target() -> (TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("saved_model.pb"), b"model").unwrap();
        fs::write(from.join("beside"), b"beside").unwrap();
        (folder, from, to)
    }

    /// Rebuilds a folder. Calls `meanwhile` after the new model is written and before it is moved
    /// to `to`.
    fn rebuild_while(from: &Path, to: &Path, force: bool, meanwhile: impl FnOnce()) -> Result<()> {
        let options = SaveOptions::new().force(force).keep_fingerprint(true);
        let fill = |prefix: &Path| {
            fs::write(prefix.with_extension("pb"), b"new")?;
            meanwhile();
            Ok(())
        };
        rebuild(from, to, &options, fill).map(|_| ())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_that_appears_meanwhile_stays() {
        for file in ["precious", "saved_model.pb"] {
            let (folder, from, to) = model_and_target();
            let precious = to.join(file);
            let error = rebuild_while(&from, &to, false, || {
                fs::create_dir(&to).unwrap();
                fs::write(&precious, b"precious").unwrap();
            });
            assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
            assert_eq!(names(folder.path()), ["from", "to"], "nothing is left");
        }
    }

    #[test]
    fn a_file_that_appears_meanwhile_stays() {
        for force in [false, true] {
            let (folder, from, to) = model_and_target();
            let error = rebuild_while(&from, &to, force, || fs::write(&to, b"precious").unwrap());
            assert!(error.is_err());
            assert_eq!(fs::read(&to).unwrap(), b"precious");
            assert_eq!(names(folder.path()), ["from", "to"], "nothing is left");
        }
    }

    #[test]
    fn an_empty_folder_that_appears_meanwhile_is_filled() {
        let (folder, from, to) = model_and_target();
        rebuild_while(&from, &to, false, || fs::create_dir(&to).unwrap()).unwrap();
        assert_eq!(names(&to), ["beside", "saved_model.pb"]);
        assert_eq!(names(folder.path()), ["from", "to"]);
    }

    #[test]
    fn force_replaces_a_model_and_nothing_that_has_come_in_its_stead() {
        let (folder, from, to) = model_and_target();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("saved_model.pb"), b"old").unwrap();
        let error = rebuild_while(&from, &to, true, || {
            fs::remove_file(to.join("saved_model.pb")).unwrap();
            fs::write(to.join("precious"), b"precious").unwrap();
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidConfig);
        assert_eq!(names(&to), ["precious"]);
        fs::write(to.join("saved_model.cpb"), b"old").unwrap();
        rebuild_while(&from, &to, true, || {}).unwrap();
        assert_eq!(names(&to), ["beside", "saved_model.pb"]);
        assert_eq!(names(folder.path()), ["from", "to"], "nothing is left");
    }

    /// Returns a temporary folder, a new SavedModel in it, and the path of an old SavedModel, which
    /// the new one should replace.
    fn finished_and_replaced() -> (TempDir, TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("saved_model.pb"), b"old").unwrap();
        let finished = TempDir::with_prefix_in(".protosplit-", folder.path()).unwrap();
        fs::write(finished.path().join("saved_model.pb"), b"new").unwrap();
        (folder, finished, to)
    }

    fn model(folder: &Path) -> Vec<u8> {
        fs::read(folder.join("saved_model.pb")).unwrap()
    }

    fn no_exchange(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[test]
    fn a_folder_is_replaced_with_and_without_exchange() {
        for by in [exchange, no_exchange] {
            let (folder, finished, to) = finished_and_replaced();
            move_in_by(by, finished, &to, true).unwrap();
            assert_eq!(model(&to), b"new");
            assert_eq!(names(folder.path()), ["to"], "nothing is left");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_is_replaced_is_never_missing() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (folder, finished, to) = finished_and_replaced();
        let done = AtomicBool::new(false);
        let mut next = Some(finished);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut read = 0;
                while !done.load(Ordering::Relaxed) {
                    let there = fs::symlink_metadata(&to);
                    assert!(there.is_ok(), "after {read} looks");
                    read += 1;
                }
                read
            });
            for _ in 0..200 {
                let finished = next.take().unwrap_or_else(|| {
                    let new = TempDir::with_prefix_in(".protosplit-", folder.path()).unwrap();
                    fs::write(new.path().join("saved_model.pb"), b"new").unwrap();
                    new
                });
                move_in(finished, &to, true).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            assert!(reading.join().unwrap() > 0);
        });
    }

    #[test]
    fn what_was_put_out_and_is_no_model_comes_back() {
        /// Swaps two folders. If `other` has the old model, first replaces the model with a user's
        /// file, so that the folder is no longer a SavedModel.
        fn late_exchange(one: &Path, other: &Path) -> io::Result<()> {
            let model = other.join("saved_model.pb");
            if model.is_file() && fs::read(&model)? == b"old" {
                fs::remove_file(model)?;
                fs::write(other.join("precious"), b"precious")?;
            }
            exchange(one, other)
        }
        let (folder, finished, to) = finished_and_replaced();
        match move_in_by(late_exchange, finished, &to, true) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}"),
            Ok(()) => panic!("it was replaced"),
        }
        assert_eq!(names(&to), ["precious"]);
        assert_eq!(names(folder.path()), ["to"], "nothing is left");
    }

    #[test]
    fn a_replacement_that_was_interrupted_is_said_and_undone() {
        let (folder, from, to) = model_and_target();
        let aside = folder.path().join(".protosplit-to.old");
        fs::create_dir(&aside).unwrap();
        fs::write(aside.join("saved_model.pb"), b"old").unwrap();
        let error = super::super::SavedModelDir::open(&to)
            .unwrap_err()
            .to_string();
        assert!(error.contains(".protosplit-to.old"), "{error}");
        // Without force, nothing is lost. With force, the restored folder is replaced.
        let error = rebuild_while(&from, &to, false, || {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(model(&to), b"old");
        rebuild_while(&from, &to, true, || {}).unwrap();
        assert_eq!(model(&to), b"new");
        assert_eq!(names(folder.path()), ["from", "to"]);
    }

    #[cfg(unix)]
    #[test]
    fn subfolders_become_read_only_when_nothing_has_to_be_removed_anymore() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (folder, from, to) = model_and_target();
        fs::create_dir_all(from.join("deep/er")).unwrap();
        for name in ["deep/er", "deep", ""] {
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(0o555)).unwrap();
        }
        let copy = folder.path().join("copy");
        fs::create_dir(&copy).unwrap();
        copy_folder(&from, &copy, &[], &Default::default()).unwrap();
        for name in ["deep", "deep/er"] {
            assert_eq!(mode(&copy.join(name)), 0o755, "{name}");
        }
        for _ in 0..2 {
            rebuild_while(&from, &to, true, || {}).unwrap();
            for name in ["", "deep", "deep/er"] {
                assert_eq!(mode(&to.join(name)), 0o555, "{name}");
            }
        }
        make_removable(&to).unwrap();
        for name in ["", "deep", "deep/er"] {
            assert_eq!(mode(&to.join(name)), 0o755, "{name}");
        }
        make_removable(&from).unwrap();
        assert_eq!(names(folder.path()), ["copy", "from", "to"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_that_multiply_are_refused_and_nothing_is_left() {
        let (folder, from, to) = model_and_target();
        for depth in 0..30 {
            let here = from.join(format!("d{depth}"));
            fs::create_dir(&here).unwrap();
            for name in ["one", "other"] {
                let next = format!("../d{}", depth + 1);
                std::os::unix::fs::symlink(next, here.join(name)).unwrap();
            }
        }
        fs::create_dir(from.join("d30")).unwrap();
        let error = rebuild_while(&from, &to, false, || {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("more than 16 times"), "{error}");
        assert_eq!(names(folder.path()), ["from"]);
    }

    #[cfg(unix)]
    #[test]
    fn force_replaces_no_folder_that_the_model_links_to() {
        use std::os::unix::fs::symlink;
        for linked in ["saved_model.pb", "beside", "deep/er", "deep"] {
            let (_folder, from, to) = model_and_target();
            fs::create_dir(&to).unwrap();
            fs::write(to.join("saved_model.pb"), b"source").unwrap();
            let link = from.join(linked);
            let _ = fs::remove_file(&link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let leads_to = if linked == "deep" {
                to.clone()
            } else {
                to.join("saved_model.pb")
            };
            symlink(leads_to, &link).unwrap();
            let error = rebuild_while(&from, &to, true, || {}).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{linked}");
            assert!(error.to_string().contains(linked), "{error}");
            assert_eq!(fs::read(to.join("saved_model.pb")).unwrap(), b"source");
        }
    }
}
