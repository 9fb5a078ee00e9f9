//! Temporary files and folders beside their targets, and those that killed runs have left there.
//!
//! Each is locked by the run that writes it. The system gives up the lock of a process that ends,
//! however it does. So the next run that writes to the folder knows which of them nobody needs, and
//! removes those. On file systems whose locks other hosts may not see, names say which process writes
//! a file: what ended processes of this host have left is removed, and what others may have left is
//! named once it is an hour old.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tempfile::{Builder, NamedTempFile, TempDir};

use super::owner::{Fate, Owner};
use super::target::folder;

/// How the names of all that may be removed begin. After a number for the target and a hyphen,
/// anything may come.
const PREFIX: &str = ".protosplit-";

const SUFFIX: &str = ".tmp";

/// Digits of the number for the target.
const DIGITS: usize = 8;

/// How often something is created again because another run has taken it for left behind: it is
/// only seen unlocked in the moment after it was created.
const MOST_TRIES: usize = 100;

/// How old something is that another host writes, or has left, before it is named.
const OLD: Duration = Duration::from_secs(60 * 60);

/// Creates a file beside `target`, with these permissions if any are given.
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
        // Whatever has the name by now is another's.
        let _ = path.keep();
        Ok(None)
    })
}

/// A folder that is filled beside its target, and is removed with all that is in it unless it is
/// [kept](Self::keep).
///
/// What earlier runs left in the same place when they were killed is removed when a new one is
/// created, once in a process.
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
    /// Holds the lock for as long as the folder is there.
    _held: Option<File>,
}

impl TemporaryFolder {
    /// Creates a folder beside `target`, with these permissions if any are given, else one that only
    /// its owner can enter.
    ///
    /// # Errors
    ///
    /// What the system reports if no folder can be created there.
    pub fn beside(
        target: &Path,
        permissions: Option<fs::Permissions>,
    ) -> io::Result<TemporaryFolder> {
        beside(target, permissions, |builder| {
            let folder = builder.tempdir_in(folder(target))?;
            // Not every system opens folders as files.
            let _held = File::open(folder.path()).ok();
            match &_held {
                Some(handle) if !system::hold(handle, folder.path()) => {
                    let _ = folder.keep();
                    Ok(None)
                }
                _ => Ok(Some(TemporaryFolder { folder, _held })),
            }
        })
    }

    /// The folder, as long as it is where it was created.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Renames the folder to a name that no later run takes for something left behind: for use
    /// before the name may come to be that of another folder, as after an exchange.
    ///
    /// # Errors
    ///
    /// What the system reports if the folder can't be renamed; it is removed then.
    pub fn detach(self) -> io::Result<TempDir> {
        let parent = folder(self.path());
        let mut builder = Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let detached = builder.tempdir_in(parent)?;
        fs::remove_dir(detached.path())?;
        fs::rename(self.path(), detached.path())?;
        self.keep();
        Ok(detached)
    }

    /// Leaves the folder as it is, wherever it is by now.
    pub fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Creates something beside `target`. `create` gives none if another run has removed what it made.
fn beside<T>(
    target: &Path,
    permissions: Option<fs::Permissions>,
    create: impl Fn(&Builder<'_, '_>) -> io::Result<Option<T>>,
) -> io::Result<T> {
    sweep_once(folder(target));
    let of = target.file_name().unwrap_or_default().as_encoded_bytes();
    let owner = if system::are_locks_shared(folder(target)) {
        None
    } else {
        Owner::this()
    };
    let prefix = prefix(of, owner);
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX);
    if let Some(permissions) = permissions {
        builder.permissions(permissions);
    }
    for _ in 0..MOST_TRIES {
        if let Some(made) = create(&builder)? {
            return Ok(made);
        }
    }
    Err(io::Error::other(
        "temporary files are removed as soon as they are created",
    ))
}

/// The beginning of the names of temporary files of the target `of`, and of the process that writes
/// them, if that has to be recorded.
fn prefix(of: &[u8], owner: Option<Owner>) -> String {
    let owner = owner.map_or_else(String::new, |owner| owner.to_string());
    format!("{PREFIX}{:0DIGITS$x}-{owner}", crc32c::crc32c(of))
}

/// The device, the number and the time of creation of a folder.
type FolderIdentity = (u64, u64, Option<SystemTime>);

/// Removes what killed runs have left in a folder, unless this process has looked there before.
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

/// Removes what killed runs have left in a folder. What can't be read or removed is in nobody's way.
fn sweep(folder: &Path) {
    sweep_by(folder, system::are_locks_shared(folder));
}

/// [`sweep`] by locks, or else by the owners that names record.
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

/// Returns true if all that can write to a folder see the locks in it.
pub(super) fn are_locks_shared(folder: &Path) -> bool {
    system::are_locks_shared(folder)
}

/// Removes a file that processes [lock](hold_shared) while they use it, if none does. Where locks don't
/// tell that, the file is named.
#[doc(hidden)]
pub fn remove_abandoned(path: &Path) {
    if system::are_locks_shared(folder(path)) {
        remove_unlocked(path);
    } else {
        let path = path.display();
        tracing::warn!("{path} is left as it is: another host may use it; if none does, delete it");
    }
}

/// Keeps a file from being [taken for abandoned](remove_abandoned) for as long as it is open.
#[doc(hidden)]
pub fn hold_shared(file: &File) {
    system::hold_shared(file);
}

/// Names what another host is writing, or has left.
fn name_if_old(path: &Path) {
    let changed = fs::symlink_metadata(path).and_then(|there| there.modified());
    let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
    if age.is_ok_and(|age| age >= OLD) {
        let path = path.display();
        tracing::warn!(
            "{path} is left as it is: another host writes it, or was killed while it did"
        );
    }
}

/// Returns the end of a name that [`beside`] gives, behind the number for the target.
fn after_number(name: &std::ffi::OsStr) -> Option<&str> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let (number, rest) = name.split_at_checked(DIGITS)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_hexdigit());
    let rest = rest.strip_prefix('-')?;
    (is_number && rest.ends_with(SUFFIX)).then_some(rest)
}

/// Removes what a run has left at this path, if by its lock it is certain that it was killed.
fn remove_unlocked(path: &Path) {
    let there = fs::symlink_metadata(path).ok();
    let held = there.and_then(|there| system::hold_left(path, &there));
    if held.is_some() {
        remove(path);
    }
}

/// Removes what a killed run has left at this path.
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
        Ok(()) => tracing::info!("removed {path}, which a run that was killed had left"),
        Err(error) => tracing::warn!(
            "{path}, which a run that was killed has left, could not be removed: {error}"
        ),
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

    /// Locks what was just created at `path`. False if another run has removed it or is about to.
    pub(super) fn hold(file: &File, path: &Path) -> bool {
        match lock(file) {
            Ok(()) => is_at(file, path),
            Err(Errno::WOULDBLOCK) => false,
            // Without locks nobody removes it.
            Err(_) => true,
        }
    }

    /// Locks what an earlier run has created at `path`. None unless that run has certainly ended.
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

    /// Locks a file for as long as it is open, beside others that do. Without locks nobody asks.
    pub(super) fn hold_shared(file: &File) {
        let _ = flock(file, FlockOperation::NonBlockingLockShared);
    }

    /// What tells a folder from all others: its number, and since that is given again to another once
    /// the folder is gone, when it was created.
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

    fn is_at(file: &File, path: &Path) -> bool {
        match (file.metadata(), fs::symlink_metadata(path)) {
            (Ok(file), Ok(path)) => (file.dev(), file.ino()) == (path.dev(), path.ino()),
            _ => false,
        }
    }

    /// Returns true if all that can write to the folder see the locks in it. Of file systems that
    /// several hosts share, many keep the locks of each host to itself.
    pub(super) fn are_locks_shared(folder: &Path) -> bool {
        #[cfg(target_os = "linux")]
        {
            /// ext, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs: by the numbers of their kinds.
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

    pub(super) fn hold_shared(_file: &File) {}

    pub(super) fn identity(_folder: &Path) -> Option<FolderIdentity> {
        None
    }

    pub(super) fn are_locks_shared(_folder: &Path) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::io::owner;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// As a process that is killed leaves them: a file and a folder that nobody has open.
    fn left_in(folder: &Path) -> [PathBuf; 2] {
        let [file, inner] = ["file", "inner"].map(|name| {
            let name = format!(".protosplit-01234567-{name}.tmp");
            folder.join(name)
        });
        fs::write(&file, "half").unwrap();
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("part"), "half").unwrap();
        [file, inner]
    }

    #[test]
    fn what_a_killed_run_left_goes_with_the_next() {
        // Both at once, since a folder that is gone may lend its number to the next.
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for (folder, is_folder) in folders.iter().zip([false, true]) {
            let left = left_in(folder.path());
            let target = folder.path().join("m.cpb");
            if is_folder {
                drop(TemporaryFolder::beside(&target, None).unwrap());
            } else {
                drop(file_beside(&target, None).unwrap());
            }
            assert!(left.iter().all(|left| !left.exists()));
            assert_eq!(names(folder.path()), [""; 0]);
        }
    }

    #[test]
    fn what_is_written_stays_and_so_does_what_has_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m.cpb");
        let file = file_beside(&target, None).unwrap();
        let inner = TemporaryFolder::beside(&target, None).unwrap();
        let detached = TemporaryFolder::beside(&target, None).unwrap();
        let detached = detached.detach().unwrap();
        let others = [
            ".protosplit-lock-01234567.tmp",
            ".protosplit-0123456789abcdef.tmp",
            ".protosplit-m.old",
            "m.cpb",
        ];
        for other in others {
            fs::write(folder.path().join(other), "all").unwrap();
        }
        let before = names(folder.path());
        sweep(folder.path());
        assert_eq!(names(folder.path()), before);
        assert!(file.path().exists() && inner.path().exists() && detached.path().exists());
    }

    #[test]
    fn where_locks_tell_nothing_only_what_an_ended_process_of_this_host_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = |owner| format!("{}a.tmp", prefix(b"m.cpb", owner));
        let left = name(Some(owner::tests::ended()));
        let mut stay = [
            name(Some(Owner::this().unwrap())),
            name(Some(owner::tests::elsewhere())),
            name(None),
        ];
        for name in stay.iter().chain([&left]) {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        sweep_by(folder.path(), false);
        stay.sort();
        assert_eq!(names(folder.path()), stay);
    }

    #[test]
    fn a_file_is_abandoned_once_no_process_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("room");
        fs::write(&path, "half").unwrap();
        let users = [(); 2].map(|()| File::open(&path).unwrap());
        users.iter().for_each(hold_shared);
        for user in users {
            remove_abandoned(&path);
            assert!(path.exists());
            drop(user);
        }
        remove_abandoned(&path);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "all").unwrap();
        let link = folder.path().join(".protosplit-01234567-a.tmp");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        sweep(folder.path());
        assert_eq!(fs::read(&precious).unwrap(), b"all");
        assert!(link.is_symlink());
    }

    #[test]
    fn of_many_at_once_none_removes_what_another_writes() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m.cpb");
        let kept = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let made = file_beside(&target, None).unwrap();
                        sweep(folder.path());
                        let of = thread::current().id();
                        let to = folder.path().join(format!("{of:?} {round}"));
                        made.persist(to).unwrap();
                        kept.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(names(folder.path()).len(), kept.into_inner());
    }
}
