//! Removing files, and syncing folders to the disk so that the names of their files survive a
//! crash.

#[cfg(unix)]
use std::fs::File;
use std::path::Path;
use std::{fs, io};

use super::target::folder;

/// Syncs the folder of the file `placed`. Returns true on success; logs a warning and returns false
/// on failure.
///
/// Call this after the rename that completes an operation. Returning an error would then wrongly
/// claim that the operation failed.
#[doc(hidden)]
pub fn warn_unless_synced(placed: &Path) -> bool {
    let synced = sync_folder(folder(placed));
    if let Err(error) = &synced {
        let placed = placed.display();
        tracing::warn!(
            "{placed} is complete, but a crash could undo that: its folder could not be synced to the disk: {error}"
        );
    }
    synced.is_ok()
}

/// Syncs a folder to the disk, so that the names of its files survive a crash.
#[doc(hidden)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    injected::check(injected::Call::SyncFolder)?;
    #[cfg(unix)]
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // Files can be created in a folder that can't be read, but such a folder can't be opened
        // for syncing.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        Ok(())
    }
}

/// Removes a file.
///
/// # Errors
///
/// Any error from the operating system.
pub fn remove_file(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    injected::check(injected::Call::Remove)?;
    fs::remove_file(path)
}

/// Failures injected for tests, since working disks don't produce any.
#[cfg(test)]
pub(crate) mod injected {
    use std::cell::Cell;
    use std::io;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Call {
        SyncFolder,
        Remove,
    }

    thread_local! {
        /// The kind of call that will fail, and the number of calls of that kind that succeed
        /// before it. `None` if no call will fail.
        static NEXT: Cell<Option<(Call, usize)>> = const { Cell::new(None) };
    }

    /// Calls `run`, and makes one call of the kind `call` on this thread fail: the call with this
    /// `number`, counted from 0. Returns the result of `run`, and true if the failing call was
    /// made.
    pub(crate) fn failing<T>(call: Call, number: usize, run: impl FnOnce() -> T) -> (T, bool) {
        NEXT.set(Some((call, number)));
        let result = run();
        (result, NEXT.take().is_none())
    }

    pub(super) fn check(call: Call) -> io::Result<()> {
        match NEXT.get() {
            Some((wanted, 0)) if wanted == call => {
                NEXT.set(None);
                Err(io::Error::other("an injected failure"))
            }
            Some((wanted, left)) if wanted == call => {
                NEXT.set(Some((wanted, left - 1)));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
