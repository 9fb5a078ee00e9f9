//! Files that appear complete or not at all.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub use super::fails_once::FailsOnce;
use super::file_at::FileAt;
#[doc(hidden)]
pub use super::file_at::WRITE_LEN;
#[doc(hidden)]
pub use super::folder_lock::FolderLock;
pub use super::synced::{sync_folder, warn_unless_synced};
use super::target::{already_exists, check_name, check_replaceable, folder, written_through};
pub use super::target::{at_target, check_folder, check_space, names_folder, same_file};
pub use super::temporary::TemporaryFolder;
use super::temporary::file_beside;
use crate::{Error, ErrorKind, Result};

/// A file that is written beside its target and takes its place once it is complete.
///
/// Dropped without [`commit`](Self::commit), it leaves nothing behind.
///
/// ```
/// use std::io::Write;
///
/// use proto_splitter_core::atomic::AtomicFile;
///
/// let folder = tempfile::tempdir()?;
/// let target = folder.path().join("model.pb");
/// let mut file = AtomicFile::create(&target, false)?;
/// file.as_file_mut().write_all(b"all of it")?;
/// assert!(!target.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&target)?, b"all of it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    temporary: NamedTempFile,
    target: PathBuf,
    force: bool,
}

/// Writes from `offset` on, without moving the file's own position: for several threads at once.
#[doc(hidden)]
pub fn writer_at(file: &File, offset: u64) -> impl Write + Seek + '_ {
    FileAt::new(file, offset)
}

impl AtomicFile {
    /// Starts a file that becomes `target`. A target that is a symlink is written through.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the target is there and `force` isn't set;
    /// [`ErrorKind::NoFolder`] if its folder isn't; [`ErrorKind::InvalidConfig`] if it is there and
    /// no file, as a device or a pipe, whose place no file is to take; [`ErrorKind::Io`] if its
    /// folder can't be written to.
    pub fn create(target: impl AsRef<Path>, force: bool) -> Result<AtomicFile> {
        AtomicFile::create_with(target.as_ref(), force, None)
    }

    /// [`create`](Self::create), with the mode of another file if one is given.
    fn create_with(target: &Path, force: bool, like: Option<&File>) -> Result<AtomicFile> {
        let create = || -> io::Result<AtomicFile> {
            let target = written_through(target)?;
            check_folder(&target)?;
            check_name(&target)?;
            let existing = match fs::metadata(&target) {
                Ok(metadata) => {
                    check_replaceable(&metadata)?;
                    Some(metadata.permissions())
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if existing.is_some() && !force {
                return Err(already_exists(&target).into());
            }
            let like = match like {
                Some(file) => Some(file.metadata()?.permissions()),
                None => existing,
            };
            // A new file gets what the umask leaves, like any other.
            #[cfg(unix)]
            let mode = Some(
                like.clone()
                    .unwrap_or_else(|| std::os::unix::fs::PermissionsExt::from_mode(0o666)),
            );
            #[cfg(not(unix))]
            let mode = None;
            let temporary = file_beside(&target, mode).map_err(without_temporary)?;
            #[cfg(unix)]
            if let Some(permissions) = like {
                temporary.as_file().set_permissions(permissions)?;
            }
            #[cfg(not(unix))]
            let _ = like;
            Ok(AtomicFile {
                temporary,
                target,
                force,
            })
        };
        create().map_err(|error| {
            let error = Error::from(error);
            match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NoFolder => error,
                _ => error.context(target.display()),
            }
        })
    }

    /// Starts a file in the folder of this one and with its mode, whose name isn't known yet:
    /// [`commit_as`](Self::commit_as) gives it one.
    pub(crate) fn create_beside(&self) -> Result<AtomicFile> {
        let target = self.target.with_extension("protosplit-part");
        AtomicFile::create_with(&target, true, Some(self.as_file()))
    }

    /// The file as it is so far.
    pub fn as_file(&self) -> &File {
        self.temporary.as_file()
    }

    /// The file as it is so far, to be written.
    pub fn as_file_mut(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Writes from this offset of the file on. What is written goes to the disk meanwhile. Several
    /// threads may write to places of one file.
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// use proto_splitter_core::atomic::AtomicFile;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let target = folder.path().join("two");
    /// let file = AtomicFile::create(&target, false)?;
    /// file.writer_at(4).write_all(b"last")?;
    /// file.writer_at(0).write_all(b"1st ")?;
    /// file.commit()?;
    /// assert_eq!(std::fs::read(&target)?, b"1st last");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer_at(&self, offset: u64) -> impl Write + Seek + '_ {
        writer_at(self.as_file(), offset)
    }

    /// Takes away what `permissions` don't give, so that a new file isn't more readable than the
    /// one it is made from.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the mode can't be changed.
    pub fn restrict_to(&self, permissions: &fs::Permissions) -> Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let own = self.as_file().metadata()?.permissions().mode();
            let mode = own & permissions.mode();
            self.as_file()
                .set_permissions(fs::Permissions::from_mode(mode))?;
        }
        #[cfg(not(unix))]
        let _ = permissions;
        Ok(())
    }

    /// Takes away what those files don't give that this one is made from; but one that is there
    /// keeps its mode.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if a mode can't be read or changed.
    pub fn restrict_to_files<P: AsRef<Path>>(
        &self,
        files: impl IntoIterator<Item = P>,
    ) -> Result<()> {
        if self.target.exists() {
            return Ok(());
        }
        for file in files {
            let file = file.as_ref();
            let metadata = fs::metadata(file);
            let metadata = metadata.map_err(|error| Error::from(error).context(file.display()))?;
            // A file without a name is a copy of what came through a pipe, which anyone might see.
            #[cfg(unix)]
            if std::os::unix::fs::MetadataExt::nlink(&metadata) == 0 {
                continue;
            }
            self.restrict_to(&metadata.permissions())?;
        }
        Ok(())
    }

    /// Where the file will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder it will be in.
    pub fn folder(&self) -> &Path {
        folder(&self.target)
    }

    /// Brings the file to the disk, and to its place.
    ///
    /// Once the file is in its place, this succeeds: if the folder can't be brought to the disk
    /// then, a warning says so (of `tracing`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the target has appeared meanwhile and may not be replaced;
    /// [`ErrorKind::Io`] if the file can't be brought to the disk or renamed. Then nothing is
    /// left of it, and what was there is still there.
    pub fn commit(self) -> Result<()> {
        self.sync()?;
        let target = self.target.clone();
        self.place()?;
        warn_unless_synced(&target);
        Ok(())
    }

    /// Brings what is in the file to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.as_file().sync_all();
        synced.map_err(|error| Error::from(error).context(self.target.display()))
    }

    /// Moves the file to its place, without a [`sync`](Self::sync) of it or of its folder.
    pub(crate) fn place(self) -> Result<()> {
        let AtomicFile {
            temporary,
            target,
            force,
        } = self;
        let placed = if force {
            temporary.persist(&target)
        } else {
            temporary.persist_noclobber(&target)
        };
        match placed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(already_exists(&target))
            }
            Err(error) => Err(Error::from(error.error).context(target.display())),
        }
    }

    /// The same file, which may replace what is in its place, or not.
    pub(crate) fn forced(mut self, force: bool) -> AtomicFile {
        self.force = force;
        self
    }

    /// Brings the file to the disk, and to this place in the same folder instead of its own, whatever
    /// is there. The folder isn't brought to the disk.
    #[doc(hidden)]
    pub fn commit_as(self, target: PathBuf) -> Result<()> {
        self.sync()?;
        self.place_as(target)
    }

    /// [`place`](Self::place) under this name in the folder it is in, whatever is there.
    pub(crate) fn place_as(mut self, target: PathBuf) -> Result<()> {
        self.target = target;
        self.force = true;
        self.place()
    }
}

/// The error without the path of a temporary file, which nobody has asked for.
fn without_temporary(error: io::Error) -> io::Error {
    match error.to_string().rsplit_once(" at path ") {
        Some((said, _)) => io::Error::new(error.kind(), said.to_owned()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::Builder;

    use super::*;

    fn write(target: &Path, force: bool, bytes: &[u8]) -> Result<()> {
        let mut file = AtomicFile::create(target, force)?;
        file.as_file_mut().write_all(bytes)?;
        file.commit()
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let mut file = AtomicFile::create(&target, false).unwrap();
        file.as_file_mut().write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(file);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left"
        );
        write(&target, false, b"whole").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        fs::write(&target, b"old").unwrap();
        // At once, and not when all is written.
        let error = AtomicFile::create(&target, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        write(&target, true, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), b"").unwrap();
        for (target, named, why) in [
            ("missing/a", "missing", "does not exist"),
            ("missing/more/a", "missing", "does not exist"),
            ("file/a", "file", "is not a folder"),
            ("file/more/a", "file", "is not a folder"),
        ] {
            let error = write(&path(target), true, b"").unwrap_err();
            let (target, named) = (path(target), path(named));
            let (target, named) = (target.display(), named.display());
            assert_eq!(error.kind(), ErrorKind::NoFolder);
            assert_eq!(
                error.to_string(),
                format!("{target}: the folder {named} {why}")
            );
        }
        check_folder("in_the_working_directory").unwrap();
        check_folder("/").unwrap();
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let file = AtomicFile::create(&target, false).unwrap();
        fs::write(&target, b"other").unwrap();
        assert_eq!(file.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"other");
    }

    #[test]
    fn a_folder_that_takes_no_file_is_not_blamed_on_a_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = Builder::new().prefix(".mark").tempfile_in(missing);
        let error = error.unwrap_err();
        assert!(error.to_string().contains(".mark"), "{error}");
        let kind = error.kind();
        let error = without_temporary(error);
        assert!(!error.to_string().contains(".mark"), "{error}");
        assert_eq!(error.kind(), kind);
    }

    #[test]
    fn only_a_file_gives_its_place_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        let mut targets = vec!["folder", "folder/", "new/"];
        #[cfg(unix)]
        {
            let _listening = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
            std::os::unix::fs::symlink("socket", path("link")).unwrap();
            targets.extend(["socket", "link"]);
        }
        for target in targets {
            let before = fs::metadata(path(target))
                .map(|there| there.file_type())
                .ok();
            let error = write(&path(target), true, b"new").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{target}: {error}");
            let after = fs::metadata(path(target))
                .map(|there| there.file_type())
                .ok();
            assert_eq!(after, before, "{target}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_made_of_a_private_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        for (name, mode) in [("private", 0o600), ("open", 0o644), ("there", 0o640)] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for target in ["new", "there"] {
            let file = AtomicFile::create(path(target), true).unwrap();
            file.restrict_to_files([path("open"), path("private")])
                .unwrap();
            file.commit().unwrap();
        }
        assert_eq!((mode("new"), mode("there")), (0o600, 0o640));
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let piped = tempfile::tempfile().unwrap();
            let name = format!("/proc/self/fd/{}", piped.as_raw_fd());
            let file = AtomicFile::create(path("piped"), false).unwrap();
            file.restrict_to_files([name]).unwrap();
            file.commit().unwrap();
            fs::write(path("like any"), "").unwrap();
            assert_eq!(mode("piped"), mode("like any"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_written_through_and_modes_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&target, b"old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        write(&link, true, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }
}
