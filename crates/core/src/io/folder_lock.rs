//! Keeps writers apart that put several files in their places.
//!
//! One file takes its place by one rename. Several can't: a writer looks which files of an earlier
//! split are there, puts its own in their places, and removes the others. Another that does the
//! same meanwhile would remove files that are needed.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::owner::{Fate, Owner};
use super::target::folder;
use super::temporary::are_locks_shared;
use crate::Result;
use crate::progress::Progress;

/// Held while files take their places beside one main file; whoever else wants to waits.
///
/// The lock is on a file `.protosplit-lock-89abcdef.tmp` beside the main file, which is there as
/// long as it is held. The system gives up the lock of a process that is killed, and the next writer
/// takes the file over. It lists the files that were about to take their places beside the main
/// file: if that isn't there, nothing refers to them, and whoever takes the lock next removes them.
#[derive(Debug)]
pub struct FolderLock {
    /// Lets go when it is dropped.
    held: system::Held,
}

impl FolderLock {
    /// Waits for the lock of the main file `main`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if nothing can be written to its folder,
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn take(main: &Path, progress: &Progress) -> Result<FolderLock> {
        let held = system::take(main, progress)?;
        finish(main, &held.listed());
        Ok(FolderLock { held })
    }

    /// Lists files that are about to take their places beside the main file.
    pub(crate) fn list<'a>(&self, files: impl Iterator<Item = &'a Path>) {
        let mut text = Owner::this().map_or_else(String::new, |owner| owner.to_string());
        for name in files.filter_map(|file| file.file_name()?.to_str()) {
            text.push('\n');
            text.push_str(name);
        }
        self.held.list(&text);
    }
}

/// Removes what a writer that was killed has left beside the main file `main`, if one has.
///
/// # Errors
///
/// As [`FolderLock::take`].
pub(crate) fn recover(main: &Path, progress: &Progress) -> Result<()> {
    if system::is_left(main) {
        FolderLock::take(main, progress)?;
    }
    Ok(())
}

/// Removes the files that a writer has listed before it was killed, unless the main file is there:
/// that may refer to them.
fn finish(main: &Path, listed: &str) {
    let mut lines = listed.lines();
    let owner = Owner::parse(lines.next().unwrap_or_default());
    let stem = main.file_stem().and_then(|stem| stem.to_str());
    let (Some(stem), Err(_)) = (stem, fs::symlink_metadata(main)) else {
        return;
    };
    let beside = |name: &&str| {
        name.strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with('.'))
            && Path::new(name).file_name() == Some(OsStr::new(name))
    };
    let paths = lines.filter(beside).map(|name| folder(main).join(name));
    let has_ended =
        are_locks_shared(folder(main)) || owner.is_some_and(|owner| owner.fate() == Fate::Ended);
    for path in paths.filter(|path| path.is_file()) {
        let shown = path.display();
        if !has_ended {
            tracing::warn!(
                "{shown} is left as it is: another host may be splitting a message to it; if none is, delete it"
            );
        } else if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(
                "{shown}, which a run that was killed has left, could not be removed: {error}"
            );
        } else {
            tracing::info!("removed {shown}, which a run that was killed had left");
        }
    }
}

#[cfg(unix)]
mod system {
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io::{self, Read, Seek, Write};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use std::thread::sleep;
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    use crate::io::folder;
    use crate::progress::Progress;
    use crate::{Error, Result};

    /// How long to wait until the lock is tried again: it is held for a few renames.
    const WAIT: Duration = Duration::from_millis(2);

    /// The most bytes that are read of a list.
    const MOST_LISTED: u64 = 64 << 20;

    /// The file that is locked, unless the file system has no locks.
    #[derive(Debug)]
    pub(super) struct Held(File, PathBuf);

    impl Held {
        /// What the writer before this one listed and didn't take back, if it was killed.
        pub(super) fn listed(&self) -> String {
            let mut listed = String::new();
            let read = (&self.0).take(MOST_LISTED).read_to_string(&mut listed);
            read.map_or_else(|_| String::new(), |_| listed)
        }

        /// Lists what is about to be done. A list that can't be written helps nobody, and stops
        /// nobody.
        pub(super) fn list(&self, text: &str) {
            let mut file = &self.0;
            let _ = file.rewind();
            let _ = file.set_len(0);
            let _ = file.write_all(text.as_bytes());
        }
    }

    pub(super) fn is_left(main: &Path) -> bool {
        fs::symlink_metadata(path_beside(main)).is_ok_and(|there| there.is_file())
    }

    pub(super) fn take(main: &Path, progress: &Progress) -> Result<Held> {
        let path = path_beside(main);
        let at = |error: io::Error| Error::from(error).context(main.display());
        loop {
            let file = match open(&path) {
                Ok(file) => file,
                // Its holder has just removed it.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && path.parent().is_some_and(Path::is_dir) =>
                {
                    continue;
                }
                Err(error) => return Err(at(error)),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // One that was removed while this waited for it keeps nobody out.
                Ok(()) if is_at(&file, &path) => return Ok(Held(file, path)),
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    progress.check()?;
                    sleep(WAIT);
                }
                // The file system has no locks.
                Err(_) => return Ok(Held(file, path)),
            }
        }
    }

    fn path_beside(main: &Path) -> PathBuf {
        let name = main.file_name().unwrap_or_default().as_encoded_bytes();
        let name = format!(".protosplit-lock-{:08x}.tmp", crc32c::crc32c(name));
        folder(main).join(name)
    }

    /// Opens the file to be locked, which another user may have made.
    fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o644);
        match options.clone().create_new(true).open(path) {
            Ok(file) => {
                // Whatever the umask: others have to see that it is locked.
                let _ = file.set_permissions(Permissions::from_mode(0o644));
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.open(path).or_else(|_| File::open(path))
            }
            Err(error) => Err(error),
        }
    }

    fn is_at(file: &File, path: &Path) -> bool {
        match (file.metadata(), fs::symlink_metadata(path)) {
            (Ok(file), Ok(path)) => (file.dev(), file.ino()) == (path.dev(), path.ino()),
            _ => false,
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // Whoever waits for it finds out that it is gone, and makes another.
            let _ = fs::remove_file(&self.1);
            // Closing wouldn't do: a process that is just being started has the file open too,
            // until it becomes its program.
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
            let listed: Vec<_> = listed.chain(["n.cpb", "m.0/n", "m.1"]).map(path).collect();
            lock.list(listed.iter().map(std::path::PathBuf::as_path));
            let list = fs::read(&left).unwrap();
            drop(lock);
            fs::write(&left, list).unwrap();
            for name in others.iter().chain(&["n.cpb", "m.00003-00000000.cpb"]) {
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
            assert!(path("n.cpb").exists() && path("m.1").exists());
            assert!(path("m.00003-00000000.cpb").exists() && !left.exists());
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
