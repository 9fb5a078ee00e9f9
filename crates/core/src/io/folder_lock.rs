//! Keeps writers apart that put several files in their places.
//!
//! One file takes its place by one rename. Several can't: a writer looks which files of an earlier
//! split are there, puts its own in their places, and removes the others. Another that does the
//! same meanwhile would remove files that are needed.

use std::path::Path;

use crate::Result;
use crate::progress::Progress;

/// Held while files take their places beside one main file; whoever else wants to waits.
///
/// The lock is on a file `.protosplit-lock-89abcdef.tmp` beside the main file, which is there as
/// long as it is held. The system gives up the lock of a process that is killed: the file then
/// means nothing, and the next writer takes it over.
#[derive(Debug)]
pub struct FolderLock {
    /// Lets go when it is dropped.
    _held: system::Held,
}

impl FolderLock {
    /// Waits for the lock of the main file `main`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if nothing can be written to its folder,
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn take(main: &Path, progress: &Progress) -> Result<FolderLock> {
        system::take(main, progress).map(|_held| FolderLock { _held })
    }
}

#[cfg(unix)]
mod system {
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io;
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

    /// The file that is locked; none where the file system has no locks.
    #[derive(Debug)]
    pub(super) struct Held(Option<(File, PathBuf)>);

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
                Ok(()) if is_at(&file, &path) => return Ok(Held(Some((file, path)))),
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    progress.check()?;
                    sleep(WAIT);
                }
                Err(_) => {
                    let _ = fs::remove_file(&path);
                    return Ok(Held(None));
                }
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
            if let Some((file, path)) = &self.0 {
                // Whoever waits for it finds out that it is gone, and makes another.
                let _ = fs::remove_file(path);
                // Closing wouldn't do: a process that is just being started has the file open too,
                // until it becomes its program.
                let _ = flock(file, FlockOperation::Unlock);
            }
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
