//! Names of files that are brought to the disk, and taken away.

#[cfg(unix)]
use std::fs::File;
use std::path::Path;
use std::{fs, io};

use super::target::folder;

/// Brings to the disk which names are in the folder of `placed`; if that fails, warns of it, and
/// says so.
///
/// For use after the rename that counts: what was asked for is done then, and an error would say
/// that it isn't.
#[doc(hidden)]
pub fn warn_unless_synced(placed: &Path) -> bool {
    let synced = sync_folder(folder(placed));
    if let Err(error) = &synced {
        let placed = placed.display();
        tracing::warn!(
            "{placed} is complete, but a crash could undo that: its folder could not be brought to the disk: {error}"
        );
    }
    synced.is_ok()
}

/// Brings to the disk which names are in a folder.
#[doc(hidden)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    injected::check(injected::Call::SyncFolder)?;
    #[cfg(unix)]
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // Files can be made in a folder that can't be read, but it can't be opened to be synced.
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
/// What the system reports.
pub fn remove_file(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    injected::check(injected::Call::Remove)?;
    fs::remove_file(path)
}

/// Failures for tests, which disks that work don't have.
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
        /// The call that fails, and how many of its kind before it don't.
        static NEXT: Cell<Option<(Call, usize)>> = const { Cell::new(None) };
    }

    /// Runs something in which call number `number` (from 0) of this kind on this thread fails,
    /// and says whether there was one.
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
