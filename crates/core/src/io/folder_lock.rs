//! A lock that lets one writer at a time move several files into place.
//!
//! A single file needs no lock, since one rename moves it into place. With several files, a writer
//! checks which files from an earlier split exist, moves its own files into place, and removes the
//! earlier ones. If two writers did this at the same time, one could remove files that the other
//! needs.

use std::fs;
use std::path::{Path, PathBuf};

use super::file_names::{is_part_name, stem};
use super::owner::{Fate, Owner};
use super::target::folder;
use super::temporary::are_locks_shared;
use crate::Result;
use crate::progress::Progress;

/// A lock to hold while moving files into place next to a main file that refers to them. Other
/// writers wait for the lock.
///
/// The locked file, such as `.protosplit-lock-89abcdef.tmp`, is next to the main file and exists
/// while the lock is held. The system releases the lock of a killed process, and the next writer
/// takes over the locked file. The locked file lists the files that its writer was about to move
/// into place. If the main file doesn't exist, nothing refers to the listed files, and the next
/// holder of the lock removes them. The locked file also lists the files that were about to be
/// replaced by files with other names.
#[derive(Debug)]
pub struct FolderLock {
    /// The locked file. Its lock is released on drop.
    held: system::Held,
    /// Files that a killed writer was about to replace, and that have not changed since.
    replaced: Vec<PathBuf>,
}

/// First character of those lines in the locked file that list a replaced file. No file name
/// contains this character.
const REPLACED: char = '/';

impl FolderLock {
    /// Waits for the lock of the main file `main`, and acquires it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the main file's folder isn't writable, or if there
    /// is a symlink at the path of the locked file;
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the operation was cancelled.
    pub fn take(main: &Path, progress: &Progress) -> Result<FolderLock> {
        let held = system::take(main, progress)?;
        let listed = held.listed();
        finish(main, &listed);
        let lines = listed.lines().skip(1);
        let replaced = lines.filter_map(|line| replaced(main, line)).collect();
        Ok(FolderLock { held, replaced })
    }

    /// Returns the files that a killed writer had listed as [replaced](Self::list_replaced), except
    /// files that have changed since. The files are next to the main file, which may still refer to
    /// them.
    pub fn replaced(&self) -> &[PathBuf] {
        &self.replaced
    }

    /// Records that the new main file no longer refers to `files`, which are next to it. If this
    /// process is killed before it removes them, the next holder of the lock finds them.
    pub fn list_replaced<'a>(&self, files: impl Iterator<Item = &'a Path>) {
        let lines = files.filter_map(|file| {
            let name = file.file_name()?.to_str()?;
            let stamp = system::stamp(file)?;
            Some(format!("\n{REPLACED}{stamp}{REPLACED}{name}"))
        });
        let text: String = lines.collect();
        if !text.is_empty() {
            self.held.add(&format!("{text}\n"));
        }
    }

    /// Records the files that are about to be moved into place next to the main file. Replaces what
    /// was recorded before.
    pub(crate) fn list<'a>(&self, files: impl Iterator<Item = &'a Path>) {
        let mut text = Owner::this().map_or_else(String::new, |owner| owner.to_string());
        for name in files.filter_map(|file| file.file_name()?.to_str()) {
            text.push('\n');
            text.push_str(name);
        }
        self.held.list(&text);
    }
}

/// Returns the file that a line of the locked file lists as replaced; `None` if the file has
/// changed since, or the line lists no replaced file.
fn replaced(main: &Path, line: &str) -> Option<PathBuf> {
    let (stamp, name) = line.strip_prefix(REPLACED)?.split_once(REPLACED)?;
    let path = main.with_file_name(Path::new(name).file_name().filter(|only| *only == name)?);
    (system::stamp(&path)? == stamp).then_some(path)
}

/// Removes the files that a killed writer left next to the main file `main`.
///
/// # Errors
///
/// The same errors as [`FolderLock::take`].
pub(crate) fn recover(main: &Path, progress: &Progress) -> Result<()> {
    if system::is_left(main) {
        FolderLock::take(main, progress)?;
    }
    Ok(())
}

/// Removes the files that a killed writer listed, unless the main file exists, since an existing
/// main file may refer to them.
fn finish(main: &Path, listed: &str) {
    let mut lines = listed.lines();
    let owner = Owner::parse(lines.next().unwrap_or_default());
    let (Some(stem), Err(_)) = (stem(main), fs::symlink_metadata(main)) else {
        return;
    };
    let names = lines.filter(|name| is_part_name(stem, name));
    let paths = names.map(|name| folder(main).join(name));
    let has_ended =
        are_locks_shared(folder(main)) || owner.is_some_and(|owner| owner.fate() == Fate::Ended);
    for path in paths.filter(|path| path.is_file()) {
        let shown = path.display();
        if !has_ended {
            tracing::warn!(
                "{shown} is kept, since another host may be splitting a message to it; if not, delete it"
            );
        } else if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("{shown}, left by a killed process, could not be removed: {error}");
        } else {
            tracing::info!("removed {shown}, left by a killed process");
        }
    }
}

#[cfg(unix)]
mod system {
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io::{self, Read, Seek, SeekFrom, Write};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use std::thread::sleep;
    use std::time::Duration;

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;
    use rustix::process::geteuid;

    use crate::io::folder;
    use crate::io::target::is_at;
    use crate::progress::Progress;
    use crate::{Error, ErrorKind, Result};

    /// Time to wait before trying the lock again. It is short, since a lock is held for only a few
    /// renames.
    const WAIT: Duration = Duration::from_millis(2);

    /// Maximum size of the list in a locked file, in bytes: 64 MiB.
    const MOST_LISTED: u64 = 64 << 20;

    /// The locked file and its path. If the file system has no locks, the file is open but not
    /// locked.
    #[derive(Debug)]
    pub(super) struct Held(File, PathBuf);

    impl Held {
        /// Returns the list that a killed writer left in the file; an empty string if it left none.
        /// A list of another user isn't trusted, since it could name any file of this user.
        pub(super) fn listed(&self) -> String {
            let mut listed = String::new();
            let user = geteuid().as_raw();
            if self.0.metadata().map_or(true, |there| there.uid() != user) {
                return listed;
            }
            let read = (&self.0).take(MOST_LISTED).read_to_string(&mut listed);
            read.map_or_else(|_| String::new(), |_| listed)
        }

        /// Replaces the list in the file with `text`. Errors are ignored, since a missing list is
        /// harmless.
        pub(super) fn list(&self, text: &str) {
            let mut file = &self.0;
            let _ = file.rewind();
            let _ = file.set_len(0);
            let _ = file.write_all(text.as_bytes());
        }

        /// Appends lines to the list in the file. Errors are ignored, since missing lines are
        /// harmless.
        pub(super) fn add(&self, text: &str) {
            let mut file = &self.0;
            let _ = file.seek(SeekFrom::End(0));
            let _ = file.write_all(text.as_bytes());
        }
    }

    /// Returns a string that changes if the file at `path` is modified or replaced; `None` if there
    /// is no regular file.
    pub(super) fn stamp(path: &Path) -> Option<String> {
        let there = fs::symlink_metadata(path).ok()?;
        let (len, number) = (there.len(), there.ino());
        let modified = (there.mtime(), there.mtime_nsec());
        let stamp = format!("{number} {len} {}.{}", modified.0, modified.1);
        there.is_file().then_some(stamp)
    }

    pub(super) fn is_left(main: &Path) -> bool {
        fs::symlink_metadata(path_beside(main)).is_ok_and(|there| there.is_file())
    }

    pub(super) fn take(main: &Path, progress: &Progress) -> Result<Held> {
        let path = path_beside(main);
        let at = |error: io::Error| Error::from(error).in_file(main);
        loop {
            match open(&path) {
                Ok(file) => match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    // A lock on a file that was removed in the meantime doesn't exclude other
                    // writers, so the loop tries again.
                    Ok(()) if is_at(&file, &path) => return Ok(Held(file, path)),
                    Ok(()) | Err(Errno::INTR) => {}
                    Err(Errno::WOULDBLOCK) => sleep(WAIT),
                    // The file system has no locks.
                    Err(_) => return Ok(Held(file, path)),
                },
                // The previous holder of the lock has just removed the file.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && path.parent().is_some_and(Path::is_dir) => {}
                Err(_) if path.is_symlink() => {
                    let path = path.display();
                    let message = format!("expected a lock file at {path}, found a symlink");
                    return Err(Error::new(ErrorKind::Io, message).in_file(main));
                }
                Err(error) => return Err(at(error)),
            }
            progress.check()?;
        }
    }

    pub(super) fn path_beside(main: &Path) -> PathBuf {
        let name = main.file_name().unwrap_or_default().as_encoded_bytes();
        let name = format!(".protosplit-lock-{:08x}.tmp", crc32c::crc32c(name));
        folder(main).join(name)
    }

    /// Opens the file to lock, which another user may have created. Doesn't follow a symlink, and
    /// doesn't wait for the other end of a pipe.
    fn open(path: &Path) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut reading = OpenOptions::new();
        reading.read(true).custom_flags(flags.bits().cast_signed());
        let mut options = reading.clone();
        options.write(true).mode(0o644);
        match options.clone().create_new(true).open(path) {
            Ok(file) => {
                // The umask is overridden, since other users must be able to open the lock file.
                let _ = file.set_permissions(Permissions::from_mode(0o644));
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.open(path).or_else(|_| reading.open(path))
            }
            Err(error) => Err(error),
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // Waiting writers notice that the lock file is gone, and create another one.
            let _ = fs::remove_file(&self.1);
            // Closing the file isn't enough to release the lock, since a child process between fork
            // and exec has the file open too.
            let _ = flock(&self.0, FlockOperation::Unlock);
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::path::Path;

    use crate::Result;
    use crate::progress::Progress;

    #[derive(Debug)]
    pub(super) struct Held;

    impl Held {
        pub(super) fn listed(&self) -> String {
            String::new()
        }

        pub(super) fn list(&self, _text: &str) {}

        pub(super) fn add(&self, _text: &str) {}
    }

    pub(super) fn stamp(_path: &Path) -> Option<String> {
        None
    }

    pub(super) fn is_left(_main: &Path) -> bool {
        false
    }

    pub(super) fn take(_main: &Path, _progress: &Progress) -> Result<Held> {
        Ok(Held)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::ErrorKind;
    use crate::progress::CancelToken;

    #[test]
    fn one_at_a_time_holds_the_lock_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("m.cpb");
        let (inside, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _lock = FolderLock::take(&main, &Progress::none()).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        turns.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 200);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_writer_left_locks_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("m.cpb");
        let lock = FolderLock::take(&main, &Progress::none()).unwrap();
        let left = fs::read_dir(folder.path()).unwrap().next();
        let left = left.unwrap().unwrap().path();
        drop(lock);
        fs::write(&left, "").unwrap();
        drop(FolderLock::take(&main, &Progress::none()).unwrap());
        assert!(!left.exists());
    }

    #[test]
    fn the_files_that_a_killed_writer_listed_go_unless_the_main_file_is_there() {
        let others = ["m.00001-89abcdef.cpb", "m.00002-00000000.cpb"];
        for is_there in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let main = path("m.cpb");
            let lock = FolderLock::take(&main, &Progress::none()).unwrap();
            let left = fs::read_dir(folder.path()).unwrap().next();
            let left = left.unwrap().unwrap().path();
            let listed = others.iter().copied();
            let listed: Vec<_> = listed
                .chain(["n.cpb", "m.onnx", "m.0/n", "m.1"])
                .map(path)
                .collect();
            lock.list(listed.iter().map(std::path::PathBuf::as_path));
            let list = fs::read(&left).unwrap();
            drop(lock);
            fs::write(&left, list).unwrap();
            for name in others
                .iter()
                .chain(&["n.cpb", "m.onnx", "m.00003-00000000.cpb"])
            {
                fs::write(path(name), "").unwrap();
            }
            fs::create_dir(path("m.1")).unwrap();
            if is_there {
                fs::write(&main, "").unwrap();
            }
            recover(&main, &Progress::none()).unwrap();
            for other in others {
                assert_eq!(path(other).exists(), is_there, "{other}");
            }
            assert!(path("n.cpb").exists() && path("m.1").exists() && path("m.onnx").exists());
            assert!(path("m.00003-00000000.cpb").exists() && !left.exists());
        }
    }

    #[test]
    fn the_files_that_a_killed_writer_was_about_to_replace_are_known_unless_they_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let main = path("m.onnx");
        let names = ["m-00001.data", "m-00002.data", "m-00003.data"];
        for name in [&names[..], &["m.onnx"]].concat() {
            fs::write(path(name), name).unwrap();
        }
        fs::create_dir(path("m.folder")).unwrap();
        let lock = FolderLock::take(&main, &Progress::none()).unwrap();
        assert!(lock.replaced().is_empty());
        let others = names.iter().copied().chain(["m.folder", "absent"]);
        let others: Vec<_> = others.map(path).collect();
        lock.list_replaced(others[..1].iter().map(PathBuf::as_path));
        lock.list_replaced(others[1..].iter().map(PathBuf::as_path));
        let left = system::path_beside(&main);
        let list = fs::read_to_string(&left).unwrap();
        drop(lock);
        fs::write(path(names[1]), "another text").unwrap();
        // The last list ends in the middle of a line, as happens when the disk is full.
        let elsewhere = list.replace("m-00001.data", "../m.onnx");
        for (list, expected) in [
            (&*list, &others[..1]),
            (&elsewhere, &[]),
            (&list[..20], &[]),
        ] {
            fs::write(&left, list).unwrap();
            fs::remove_file(path(names[2])).ok();
            let lock = FolderLock::take(&main, &Progress::none()).unwrap();
            assert_eq!(lock.replaced(), expected);
        }
        assert!(path(names[0]).exists() && !left.exists());
    }

    #[test]
    fn what_another_user_listed_is_neither_removed_nor_known_as_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (main, part) = (path("m.cpb"), path("m.00001-89abcdef.cpb"));
        fs::write(&part, "").unwrap();
        let lock = FolderLock::take(&main, &Progress::none()).unwrap();
        lock.list([&*part].into_iter());
        lock.list_replaced([&*part].into_iter());
        let left = system::path_beside(&main);
        let list = fs::read(&left).unwrap();
        drop(lock);
        fs::write(&left, list).unwrap();
        if std::os::unix::fs::chown(&left, Some(65534), None).is_err() {
            // Only root may give a file to another user.
            return;
        }
        let lock = FolderLock::take(&main, &Progress::none()).unwrap();
        assert!(lock.replaced().is_empty() && part.exists());
    }

    #[test]
    fn a_symlink_in_place_of_the_locked_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("m.cpb");
        let (link, other) = (system::path_beside(&main), folder.path().join("other"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        for is_there in [false, true] {
            if is_there {
                fs::write(&other, "").unwrap();
            }
            let error = FolderLock::take(&main, &Progress::none()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            let (error, link) = (error.to_string(), link.display().to_string());
            assert!(error.contains(&link), "{error}");
            assert_eq!(other.exists(), is_there);
        }
    }

    #[test]
    fn waiting_for_the_lock_can_be_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("m.cpb");
        let _lock = FolderLock::take(&main, &Progress::none()).unwrap();
        let token = CancelToken::new();
        token.cancel();
        let waited = FolderLock::take(&main, &Progress::none().cancelled_by(&token));
        assert_eq!(waited.err().unwrap().kind(), ErrorKind::Cancelled);
    }
}
