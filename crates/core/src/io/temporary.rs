//! Temporary files and folders next to their targets, and the removal of leftovers from killed
//! processes.
//!
//! The process that writes a temporary file or folder locks it. The system releases the lock of a
//! process even if the process is killed, so the next process that writes to the parent folder can
//! tell which leftovers are unused, and removes them. On file systems whose locks might be
//! invisible to other hosts, the name of a temporary item also records the process that writes it.
//! Leftovers from ended processes on this host are removed, and possible leftovers from other hosts
//! are logged once they are an hour old.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tempfile::{Builder, NamedTempFile, TempDir};

use super::owner::{Fate, Owner};
use super::target::folder;

/// Prefix of the names of the temporary items that [`sweep`] may remove. A hash of the target's
/// name, a hyphen, and any text follow the prefix.
const PREFIX: &str = ".protosplit-";

const SUFFIX: &str = ".tmp";

/// Number of hexadecimal digits in the hash of the target's name.
const DIGITS: usize = 8;

/// Maximum number of attempts to create an item. Another process may remove a new item as a
/// leftover before it is locked.
const MOST_TRIES: usize = 100;

/// Minimum age at which an item from another host is logged as a possible leftover: 1 hour.
const OLD: Duration = Duration::from_secs(60 * 60);

/// Creates a temporary file next to `target`, with `permissions` if given.
pub(super) fn file_beside(
    target: &Path,
    permissions: Option<fs::Permissions>,
) -> io::Result<NamedTempFile> {
    beside(target, permissions, |builder| {
        let made = builder.tempfile_in(folder(target))?;
        let (file, path) = made.into_parts();
        if system::hold(&file, &path) {
            return Ok(Some(NamedTempFile::from_parts(file, path)));
        }
        // Another process has removed this file, so its name may now belong to another file, which
        // must not be removed.
        let _ = path.keep();
        Ok(None)
    })
}

/// A temporary folder next to its target, removed with its content on drop unless it is
/// [kept](Self::keep).
///
/// When a process creates its first temporary item in a parent folder, the leftovers from killed
/// processes in that folder are removed.
///
/// ```
/// use proto_splitter_core::atomic::TemporaryFolder;
///
/// let parent = tempfile::tempdir()?;
/// let target = parent.path().join("model");
/// let folder = TemporaryFolder::beside(&target, None)?;
/// std::fs::write(folder.path().join("part"), b"all of it")?;
/// std::fs::rename(folder.path(), &target)?;
/// folder.keep();
/// assert!(target.join("part").is_file());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: TempDir,
    /// Lock on the folder while it is temporary; `None` if the system can't open folders as files.
    _held: Option<Held>,
}

/// The lock on a temporary folder, released on drop. Closing the folder isn't enough to release the
/// lock: a child process between fork and exec has the folder open, too. Before the child closes
/// it, the folder may already be a finished model, which other processes need to lock.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        system::release(&self.0);
    }
}

impl TemporaryFolder {
    /// Creates a temporary folder next to `target`, with `permissions` if given; otherwise only its
    /// owner can access it.
    ///
    /// # Errors
    ///
    /// Any error from the operating system while creating the folder.
    pub fn beside(
        target: &Path,
        permissions: Option<fs::Permissions>,
    ) -> io::Result<TemporaryFolder> {
        beside(target, permissions, |builder| {
            let folder = builder.tempdir_in(folder(target))?;
            // Not every system can open folders as files.
            let handle = File::open(folder.path()).ok();
            if let Some(handle) = &handle
                && !system::hold(handle, folder.path())
            {
                let _ = folder.keep();
                return Ok(None);
            }
            let _held = handle.map(Held);
            Ok(Some(TemporaryFolder { folder, _held }))
        })
    }

    /// Returns the path at which the folder was created.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Renames the folder so that only processes that write to the same `target` treat it as a
    /// leftover. Call this before another folder can get this folder's name, for example when two
    /// folders are exchanged, and hold the lock of `target` from then on.
    ///
    /// # Errors
    ///
    /// Any error from the operating system while renaming the folder. After an error, the folder is
    /// removed.
    pub fn detach(self, target: &Path) -> io::Result<TempDir> {
        let parent = folder(self.path());
        let owner = owner_in(parent).map_or_else(String::new, |owner| owner.to_string());
        let prefix = format!("{}{owner}", detached_prefix(target));
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(SUFFIX);
        let detached = builder.tempdir_in(parent)?;
        fs::remove_dir(detached.path())?;
        fs::rename(self.path(), detached.path())?;
        self.keep();
        Ok(detached)
    }

    /// Prevents the removal of the folder on drop, whether or not it was moved.
    pub fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Creates a temporary item next to `target` with `create`. If `create` returns `None` because
/// another process has removed the new item, tries again, up to [`MOST_TRIES`] times.
fn beside<T>(
    target: &Path,
    permissions: Option<fs::Permissions>,
    create: impl Fn(&Builder<'_, '_>) -> io::Result<Option<T>>,
) -> io::Result<T> {
    sweep_once(folder(target));
    let of = target.file_name().unwrap_or_default().as_encoded_bytes();
    let prefix = prefix(of, owner_in(folder(target)));
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX);
    if let Some(permissions) = permissions {
        builder.permissions(permissions);
    }
    for _ in 0..MOST_TRIES {
        if let Some(made) = create(&builder).map_err(without_temporary)? {
            return Ok(made);
        }
    }
    Err(io::Error::other(
        "temporary files are removed as soon as they are created",
    ))
}

/// Removes the path of a temporary item from an error, since callers don't know that path. The
/// system's error number is only in the error's text.
fn without_temporary(error: io::Error) -> io::Error {
    let text = error.to_string();
    let Some((said, _)) = text.rsplit_once(" at path ") else {
        return error;
    };
    let number = said.rsplit_once("(os error ");
    let number = number.and_then(|(_, number)| number.strip_suffix(')')?.parse().ok());
    match number {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), said.to_owned()),
    }
}

/// Returns the identifier of this process if the locks in `folder` might be invisible to other
/// hosts, so that names in `folder` have to record the process; otherwise `None`.
fn owner_in(folder: &Path) -> Option<Owner> {
    let locks = system::are_locks_shared(folder);
    (!locks).then(Owner::this).flatten()
}

/// Returns the prefix of the names of folders that are [detached](TemporaryFolder::detach) for
/// `target`.
fn detached_prefix(target: &Path) -> String {
    let of = target.file_name().unwrap_or_default().as_encoded_bytes();
    format!("{PREFIX}swap-{:0DIGITS$x}-", crc32c::crc32c(of))
}

/// Removes a folder with its content. If this process is killed meanwhile, the next process that
/// writes to the parent folder removes the remaining files.
#[doc(hidden)]
pub fn discard(path: &Path) -> io::Result<()> {
    let second_name = beside(path, None, |builder| {
        builder.tempdir_in(folder(path)).map(Some)
    });
    let renamed = second_name.and_then(|made| {
        let doomed = made.keep();
        // Not every system can rename a folder over an empty one.
        let _ = fs::remove_dir(&doomed);
        fs::rename(path, &doomed).map(|()| doomed)
    });
    // Removes the folder at its original path if it couldn't be renamed.
    match fs::remove_dir_all(renamed.as_deref().unwrap_or(path)) {
        // Another process removed it first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns true if a folder that was [detached](TemporaryFolder::detach) for `target` exists.
#[doc(hidden)]
pub fn has_detached(target: &Path) -> bool {
    detached(target).next().is_some()
}

/// Returns the folders that were detached for `target`, each with the process that its name
/// records, if any.
fn detached(target: &Path) -> impl Iterator<Item = (PathBuf, Option<Owner>)> {
    let prefix = detached_prefix(target);
    let entries = fs::read_dir(folder(target)).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let rest = name.to_str()?.strip_prefix(&prefix)?;
        Some((entry.path(), Owner::parse(rest)))
    })
}

/// Removes the folders that killed processes had [detached](TemporaryFolder::detach) for `target`,
/// if they are empty or `may_go` returns true for their paths; otherwise logs them. Keeps the
/// folders of processes that may still run. The caller must hold the target's lock.
#[doc(hidden)]
pub fn discard_detached(target: &Path, may_go: impl Fn(&Path) -> bool) {
    let locks = system::are_locks_shared(folder(target));
    for (path, owner) in detached(target) {
        let owner = owner.filter(|_| !locks);
        match owner.map_or(Fate::Unknown, |owner| owner.fate()) {
            Fate::Runs => continue,
            Fate::Unknown if !locks => {
                name_if_old(&path);
                continue;
            }
            Fate::Unknown | Fate::Ended => {}
        }
        if fs::remove_dir(&path).is_ok() {
            continue;
        }
        let shown = path.display();
        if !may_go(&path) {
            tracing::warn!(
                "{shown} is kept: a killed process moved it there, but did not create it"
            );
        } else if let Err(error) = discard(&path) {
            tracing::warn!("{shown}, left by a killed process, could not be removed: {error}");
        }
    }
}

/// Returns the prefix of the names of temporary items for a target with the name `of`. The prefix
/// includes the process `owner`, if given.
fn prefix(of: &[u8], owner: Option<Owner>) -> String {
    let owner = owner.map_or_else(String::new, |owner| owner.to_string());
    format!("{PREFIX}{:0DIGITS$x}-{owner}", crc32c::crc32c(of))
}

/// Device number, inode number and creation time of a folder.
type FolderIdentity = (u64, u64, Option<SystemTime>);

/// Removes leftovers from killed processes in a folder, unless this process has done so before.
fn sweep_once(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<FolderIdentity>> = Mutex::new(BTreeSet::new());
    let Some(identity) = system::identity(folder) else {
        return;
    };
    let is_new = SWEPT.lock().is_ok_and(|mut swept| swept.insert(identity));
    if is_new {
        sweep(folder);
    }
}

/// Removes leftovers from killed processes in a folder. Ignores items that can't be read or
/// removed.
fn sweep(folder: &Path) {
    sweep_by(folder, system::are_locks_shared(folder));
}

/// Removes leftovers like [`sweep`]. Detects them by missing locks if `locks` is true, otherwise by
/// the owners that their names record.
fn sweep_by(folder: &Path, locks: bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = after_number(&name) else {
            continue;
        };
        if locks {
            remove_unlocked(&entry.path());
            continue;
        }
        match Owner::parse(rest).map_or(Fate::Unknown, |owner| owner.fate()) {
            Fate::Runs => {}
            Fate::Ended => remove(&entry.path()),
            Fate::Unknown => name_if_old(&entry.path()),
        }
    }
}

/// Returns true if locks in a folder are visible to all processes that can write to the folder, on
/// any host.
pub(super) fn are_locks_shared(folder: &Path) -> bool {
    system::are_locks_shared(folder)
}

/// Removes a file unless a process still [locks](hold_shared) it. If the locks in the file's folder
/// might be invisible to other hosts, keeps the file and logs its path.
#[doc(hidden)]
pub fn remove_abandoned(path: &Path) {
    if system::are_locks_shared(folder(path)) {
        remove_unlocked(path);
    } else {
        let path = path.display();
        tracing::warn!("{path} is kept, since another host may use it; if not, delete it");
    }
}

/// Protects a file from being [removed as abandoned](remove_abandoned) while it is open.
#[doc(hidden)]
pub fn hold_shared(file: &File) {
    system::hold_shared(file);
}

/// Logs an item that may be from another host, if it is at least an hour old.
fn name_if_old(path: &Path) {
    let changed = fs::symlink_metadata(path).and_then(|there| there.modified());
    let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
    if age.is_ok_and(|age| age >= OLD) {
        let path = path.display();
        tracing::warn!("{path} is kept, since another host may be writing it; if not, delete it");
    }
}

/// Returns the part of an item's name that follows the hash of the target's name and a hyphen;
/// `None` if the name isn't one from [`beside`].
fn after_number(name: &std::ffi::OsStr) -> Option<&str> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let (number, rest) = name.split_at_checked(DIGITS)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_hexdigit());
    let rest = rest.strip_prefix('-')?;
    (is_number && rest.ends_with(SUFFIX)).then_some(rest)
}

/// Removes the item at this path if no process locks it, which proves that the process that wrote
/// it was killed.
fn remove_unlocked(path: &Path) {
    let there = fs::symlink_metadata(path).ok();
    let held = there.and_then(|there| system::hold_left(path, &there));
    if held.is_some() {
        remove(path);
    }
}

/// Removes the file or folder that a killed process left at this path, and logs the outcome.
fn remove(path: &Path) {
    let Ok(there) = fs::symlink_metadata(path) else {
        return;
    };
    let removed = if there.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    let path = path.display();
    match removed {
        Ok(()) => tracing::info!("removed {path}, left by a killed process"),
        Err(error) => {
            tracing::warn!("{path}, left by a killed process, could not be removed: {error}")
        }
    }
}

#[cfg(unix)]
mod system {
    use std::fs::{self, File, OpenOptions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;

    use super::FolderIdentity;
    use crate::io::target::is_at;

    /// Locks the open file or folder that was just created at `path`. Returns false if another
    /// process has removed it or is about to.
    pub(super) fn hold(file: &File, path: &Path) -> bool {
        match lock(file) {
            Ok(()) => is_at(file, path),
            Err(Errno::WOULDBLOCK) => false,
            // On a file system without locks, no process removes the item.
            Err(_) => true,
        }
    }

    /// Opens and locks an item that an earlier process left at `path`. Returns `None` unless that
    /// process has certainly ended.
    pub(super) fn hold_left(path: &Path, there: &fs::Metadata) -> Option<File> {
        if !there.is_file() && !there.is_dir() {
            return None;
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = options.open(path).ok()?;
        lock(&file).ok()?;
        is_at(&file, path).then_some(file)
    }

    /// Releases a lock, even while another process still has the locked file open.
    pub(super) fn release(file: &File) {
        let _ = flock(file, FlockOperation::Unlock);
    }

    /// Acquires a shared lock on a file, which is held while the file is open. On file systems
    /// without locks, this has no effect, but no process relies on locks there.
    pub(super) fn hold_shared(file: &File) {
        let _ = flock(file, FlockOperation::NonBlockingLockShared);
    }

    /// Returns the identity of a folder: its device and inode numbers and, since inode numbers are
    /// reused, its creation time.
    pub(super) fn identity(folder: &Path) -> Option<FolderIdentity> {
        let metadata = fs::metadata(folder).ok()?;
        let created = metadata.created().ok();
        Some((metadata.dev(), metadata.ino(), created))
    }

    fn lock(file: &File) -> Result<(), Errno> {
        loop {
            match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Returns true if locks in a folder are visible to all processes that can write to the folder.
    /// Many file systems shared by several hosts keep the locks of each host separate.
    pub(super) fn are_locks_shared(folder: &Path) -> bool {
        #[cfg(target_os = "linux")]
        {
            /// The magic numbers of ext, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS and bcachefs.
            const LOCAL: [u64; 8] = [
                0xef53,
                0x5846_5342,
                0x9123_683e,
                0x0102_1994,
                0x794c_7630,
                0x2fc1_2fc1,
                0xf2f5_2010,
                0xca45_1a4e,
            ];
            let kind = rustix::fs::statfs(folder).map(|found| i128::from(found.f_type));
            kind.is_ok_and(|kind| LOCAL.iter().any(|&local| i128::from(local) == kind))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = folder;
            false
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{self, File};
    use std::path::Path;

    use super::FolderIdentity;

    pub(super) fn hold(_file: &File, _path: &Path) -> bool {
        true
    }

    pub(super) fn hold_left(_path: &Path, _there: &fs::Metadata) -> Option<File> {
        None
    }

    pub(super) fn release(_file: &File) {}

    pub(super) fn hold_shared(_file: &File) {}

    pub(super) fn identity(_folder: &Path) -> Option<FolderIdentity> {
        None
    }

    pub(super) fn are_locks_shared(_folder: &Path) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
