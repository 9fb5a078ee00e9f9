//! The last step of writing: moves all new files into place, and removes the files that the new
//! ones replace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::beside::{DonePart, parts_beside};
use crate::io::folder_lock::FolderLock;
use crate::io::synced::{remove_file, sync_folder, warn_unless_synced};
use crate::io::{AtomicFile, check_absent, folder};
use crate::progress::Progress;
use crate::split::options::SplitOptions;
use crate::{Error, Result};

/// Completed files, and the files they replace.
///
/// The order of the steps guarantees consistency: first, the files with chunks, to which nothing
/// refers yet, are moved into place; then the main file, by one rename; then the folder is synced;
/// then the old files are removed. If a step fails, or the process is killed at any time, a reader
/// still finds either the old message or the new one. After an error, a reader finds the old
/// message.
#[derive(Debug)]
pub struct Commit<'a> {
    /// The main file, which ends with the trailer.
    pub main: AtomicFile,
    /// The files that contain chunks, except the main file.
    pub parts: Vec<DonePart>,
    /// Path of the message's chunked file, even if `main` is the message in one piece. Files with
    /// chunks from an earlier split are next to this path.
    pub chunked: &'a Path,
    /// The file to remove if it exists: the one with the same prefix as `main`, but in the other
    /// form (chunked, or a message in one piece). `None` to remove no such file.
    pub sibling: Option<Sibling<'a>>,
    /// True if existing files may be replaced.
    pub force: bool,
    /// Progress, whose token can cancel the wait for another writer.
    pub progress: &'a Progress,
}

/// The file with the same prefix as the written file, but in the other form: a message in one piece
/// if the written file is chunked, and chunked if the written file is a message in one piece.
#[derive(Debug, Clone, Copy)]
pub struct Sibling<'a> {
    /// Path of the file.
    pub path: &'a Path,
    /// True if this file is chunked. Readers then prefer it to the file that was written.
    pub is_preferred: bool,
}

/// The old files that were removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Removed files with chunks from an earlier split.
    pub parts: Vec<PathBuf>,
    /// The removed file with the same prefix as the written file: a message in one piece if a
    /// chunked file was written, or a chunked file if a message in one piece was written. `None` if
    /// no such file was removed.
    pub sibling: Option<PathBuf>,
}

impl Commit<'_> {
    /// Moves all files into place, and removes the files from an earlier split, except those for
    /// which `stays` returns true.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if a file exists and may not be replaced;
    /// [`Io`](crate::ErrorKind::Io) if moving a file fails;
    /// [`Cancelled`](crate::ErrorKind::Cancelled) if the operation was cancelled.
    pub(crate) fn run(self, stays: impl Fn(&Path) -> bool) -> Result<Removed> {
        self.run_if(|| Ok(()), stays)
    }

    /// Does the same as [`run`](Self::run), unless `check` fails. No other writer removes files
    /// between the call of `check` and the return of this method.
    ///
    /// # Errors
    ///
    /// The same errors as [`run`](Self::run), and any error from `check`.
    pub fn run_if(
        self,
        check: impl FnOnce() -> Result<()>,
        stays: impl Fn(&Path) -> bool,
    ) -> Result<Removed> {
        self.main.sync()?;
        for part in &self.parts {
            part.file.sync()?;
        }
        let lock = FolderLock::take(self.chunked, self.progress)?;
        check()?;
        // Checked before writing began, too, but another writer may have created files since then.
        let target = self.main.target().to_owned();
        check_absent(&target, self.force)?;
        if let Some(sibling) = self.sibling {
            check_absent(sibling.path, self.force)?;
        }
        let mut stale = parts_beside(self.chunked)?;
        stale.retain(|path| !stays(path));
        for path in &stale {
            check_absent(path, self.force)?;
        }
        stale.retain(|path| self.parts.iter().all(|part| part.path != *path));
        let new = self.parts.iter().map(|part| part.path.as_path());
        lock.list(new.filter(|path| fs::symlink_metadata(path).is_err()));
        let sibling = self.sibling.map(|sibling| sibling.path);
        let replaced = stale.iter().map(PathBuf::as_path).chain(sibling);
        lock.list_replaced(replaced);
        let placed = Placed::all(self.parts, &target)?;
        let mut removed = Removed::default();
        match self.sibling.filter(is_in_front) {
            Some(sibling) => {
                replace_preferred(self.main, sibling.path)?;
                removed.sibling = Some(sibling.path.to_owned());
            }
            None => self.main.place()?,
        }
        placed.stay();
        removed.remove_old(&target, sibling, stale);
        Ok(removed)
    }
}

/// Returns true if readers ignore the written file until the sibling is removed.
fn is_in_front(sibling: &Sibling<'_>) -> bool {
    sibling.is_preferred && fs::symlink_metadata(sibling.path).is_ok()
}

/// Moves `main` into place, and removes `preferred`, since readers ignore `main` while `preferred`
/// exists.
fn replace_preferred(main: AtomicFile, preferred: &Path) -> Result<()> {
    let target = main.target().to_owned();
    let was_there = fs::symlink_metadata(&target).is_ok();
    main.place()?;
    let replace = || -> Result<()> {
        sync_folder(folder(&target)).map_err(|error| Error::from(error).in_file(&target))?;
        remove_file(preferred).map_err(|error| not_removed(preferred, error))
    };
    replace().inspect_err(|_| {
        if !was_there {
            let _ = fs::remove_file(&target);
        }
    })
}

/// Removes the chunked file `preferred`, which readers would read instead of `plain`, and then its
/// other files, except those for which `stays` returns true. `main` is `preferred`, or, if that is
/// a link, its target.
pub(super) fn remove_preferred(
    preferred: &Path,
    main: &Path,
    plain: &Path,
    options: &SplitOptions,
    stays: impl Fn(&Path) -> bool,
) -> Result<Removed> {
    let _lock = FolderLock::take(main, &options.progress)?;
    let mut parts = parts_beside(main)?;
    parts.retain(|path| !stays(path));
    for path in parts.iter().map(PathBuf::as_path).chain([preferred]) {
        check_absent(path, options.force)?;
    }
    remove_file(preferred).map_err(|error| not_removed(preferred, error))?;
    let mut removed = Removed {
        sibling: Some(preferred.to_owned()),
        ..Removed::default()
    };
    removed.remove_old(plain, None, parts);
    Ok(removed)
}

impl Removed {
    /// Removes the old files that the file at `placed` replaces. If a file can't be removed, only
    /// logs a warning, since that file matters only to the next split, which reports it.
    fn remove_old(&mut self, placed: &Path, sibling: Option<&Path>, parts: Vec<PathBuf>) {
        // Without a sync, a crash could restore the old main file, which needs the old files.
        if !warn_unless_synced(placed) {
            return;
        }
        let remove = |path: &Path| match remove_file(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!("{}", not_removed(path, error));
                false
            }
        };
        if let Some(sibling) = sibling.filter(|sibling| remove(sibling)) {
            self.sibling = Some(sibling.to_owned());
        }
        self.parts
            .extend(parts.into_iter().filter(|part| remove(part)));
    }
}

fn not_removed(path: &Path, error: io::Error) -> Error {
    Error::from(error).context(format_args!("{} was not removed", path.display()))
}

/// Files that were moved into place. Dropping this value removes the files again, unless `stay` was
/// called.
struct Placed(Vec<PathBuf>);

impl Placed {
    /// Moves the files with chunks in addition to `main` into place.
    fn all(parts: Vec<DonePart>, main: &Path) -> Result<Placed> {
        let mut placed = Placed(Vec::new());
        for DonePart { file, path, .. } in parts {
            // If a file with this name exists, it has the same content, and the existing message
            // needs it.
            let was_there = fs::symlink_metadata(&path).is_ok();
            file.place_as(path.clone())?;
            if !was_there {
                placed.0.push(path);
            }
        }
        if !placed.0.is_empty() {
            sync_folder(folder(main)).map_err(|error| Error::from(error).in_file(main))?;
        }
        Ok(placed)
    }

    fn stay(mut self) {
        self.0.clear();
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for path in &self.0 {
            // A file that can't be removed affects the next split, which reports it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use prost_reflect::prost_types::FileDescriptorProto;

    use super::*;
    use crate::ErrorKind;
    use crate::io::synced::injected::{Call, failing};
    use crate::merge::Merger;
    use crate::split::{
        LEAST_MAX_FILE_SIZE, Profile, SizeSplitter, SplitExt, SplitOptions, Written,
    };

    /// Returns a message that is split into a main file and several other files.
    fn message(text: char) -> FileDescriptorProto {
        let dependency = (0..6).map(|at| format!("{at}{}", text.to_string().repeat(900)));
        FileDescriptorProto {
            dependency: dependency.collect(),
            ..Default::default()
        }
    }

    fn to_several(force: bool) -> SplitOptions {
        SplitOptions::new()
            .max_chunk_size(1000)
            .profile(Profile::Extended)
            .max_file_size(Some(LEAST_MAX_FILE_SIZE))
            .compression(record_file::Compression::None)
            .force(force)
    }

    fn split(prefix: &Path, text: char, options: &SplitOptions) -> Result<Written> {
        SizeSplitter.write_with(&message(text), prefix, options)
    }

    fn read(prefix: &Path) -> Result<FileDescriptorProto> {
        Merger::new().read(prefix)
    }

    fn count(prefix: &Path) -> usize {
        fs::read_dir(folder(prefix)).unwrap().count()
    }

    #[test]
    fn of_two_splits_at_once_the_one_that_is_refused_leaves_the_other_whole() {
        for round in 0..30 {
            let folder = tempfile::tempdir().unwrap();
            let prefix = folder.path().join("m");
            let results = thread::scope(|scope| {
                let split = || split(&prefix, 'a', &to_several(false));
                let both = [scope.spawn(split), scope.spawn(split)];
                both.map(|thread| thread.join().unwrap())
            });
            let (done, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            assert_eq!((done.len(), refused.len()), (1, 1), "round {round}");
            let error = refused[0].as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert!(read(&prefix).unwrap() == message('a'), "round {round}");
            assert!(done[0].as_ref().unwrap().files.len() > 2);
        }
    }

    #[test]
    fn of_two_splits_at_once_that_replace_one_is_there_whole() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("m");
        split(&prefix, 'a', &to_several(false)).unwrap();
        for round in 0..60 {
            thread::scope(|scope| {
                for text in ['b', 'c'] {
                    let prefix = &prefix;
                    scope.spawn(move || split(prefix, text, &to_several(true)).unwrap());
                }
            });
            let read = read(&prefix).unwrap();
            let others = if read == message('b') { 'b' } else { 'c' };
            assert!(read == message(others), "round {round}");
            let files = parts_beside(prefix.with_extension("cpb")).unwrap().len();
            assert_eq!(
                count(&prefix),
                1 + files,
                "round {round}: nothing else is left"
            );
        }
    }

    /// Repeatedly splits a message over existing files, and makes a different call of the kind
    /// `call` fail each time. Checks that a reader finds the new message if the split succeeds, and
    /// the old one if the split fails. Returns the number of splits that failed, and the number of
    /// splits that succeeded despite the failing call.
    fn with_each_failing(call: Call, old: &SplitOptions, new: &SplitOptions) -> (usize, usize) {
        let (mut failed, mut done) = (0, 0);
        for number in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let prefix = folder.path().join("m");
            split(&prefix, 'a', old).unwrap();
            let before = count(&prefix);
            let (result, was_called) = failing(call, number, || split(&prefix, 'b', new));
            let found = read(&prefix).unwrap();
            match result {
                _ if !was_called => break,
                Ok(_) => {
                    done += 1;
                    assert!(found == message('b'), "{call:?} {number}");
                }
                Err(error) => {
                    failed += 1;
                    assert!(found == message('a'), "{call:?} {number}: {error}");
                    assert_eq!(count(&prefix), before, "{call:?} {number}: nothing is left");
                }
            }
        }
        (failed, done)
    }

    #[test]
    fn whatever_fails_the_result_says_whether_the_old_or_the_new_is_there() {
        let several = to_several(true);
        let whole = SplitOptions::new().force(true);
        for (old, new, syncs, removals) in [
            (&several, &several, (1, 1), (0, 4)),
            (&whole, &several, (1, 1), (0, 1)),
            // Readers prefer the old main file as long as it exists, so the split fails if that
            // file can't be removed.
            (&several, &whole, (1, 1), (1, 4)),
        ] {
            assert_eq!(with_each_failing(Call::SyncFolder, old, new), syncs);
            assert_eq!(with_each_failing(Call::Remove, old, new), removals);
        }
    }
}
