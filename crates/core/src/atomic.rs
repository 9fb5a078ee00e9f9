//! Files that appear complete or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

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

impl AtomicFile {
    /// Starts a file that is to become `target`. A target that is a symlink is written through.
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
            let mut builder = Builder::new();
            builder.prefix(".protosplit-").suffix(".tmp");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                // A new file gets what the umask leaves, like any other.
                let mode = like
                    .clone()
                    .unwrap_or_else(|| fs::Permissions::from_mode(0o666));
                builder.permissions(mode);
            }
            let temporary = builder
                .tempfile_in(folder(&target))
                .map_err(without_temporary)?;
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

    /// Where the file will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder it will be in.
    pub fn folder(&self) -> &Path {
        folder(&self.target)
    }

    /// Brings the file to the disk, and to this place in the folder it is in, whatever is there.
    pub(crate) fn commit_as(mut self, target: PathBuf) -> Result<()> {
        self.target = target;
        self.force = true;
        self.commit()
    }

    /// Brings the file to the disk, and to its place.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the target has appeared meanwhile and may not be replaced;
    /// [`ErrorKind::Io`] if the file can't be brought to the disk or renamed. Then nothing is
    /// left of it.
    pub fn commit(self) -> Result<()> {
        let AtomicFile {
            temporary,
            target,
            force,
        } = self;
        let commit = || -> io::Result<()> {
            temporary.as_file().sync_all()?;
            let persisted = if force {
                temporary.persist(&target)
            } else {
                temporary.persist_noclobber(&target)
            };
            persisted.map_err(|error| error.error)?;
            sync_folder(folder(&target))
        };
        commit().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(&target),
            _ => Error::from(error).context(target.display()),
        })
    }
}

/// Fails if the folder that `target` is to be in isn't there, and names the outermost that is
/// missing.
///
/// # Errors
///
/// [`ErrorKind::NoFolder`] if that folder isn't there, or what has its name is no folder. Any other
/// trouble is left to the writing.
///
/// ```
/// use proto_splitter_core::{ErrorKind, atomic::check_folder};
/// let folder = tempfile::tempdir()?;
/// assert!(check_folder(folder.path().join("model.cpb")).is_ok());
/// let error = check_folder(folder.path().join("missing/model.cpb")).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NoFolder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_folder(target: impl AsRef<Path>) -> Result<()> {
    let target = target.as_ref();
    let mut missing = None;
    for folder in folder(target).ancestors() {
        let why = match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => break,
            Ok(_) => "is no folder",
            Err(error) => match error.kind() {
                // A relative path begins in a folder that is there.
                _ if folder == Path::new("") => break,
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "does not exist",
                _ => break,
            },
        };
        missing = Some((folder, why));
    }
    match missing {
        None => Ok(()),
        Some((folder, why)) => {
            let (target, folder) = (target.display(), folder.display());
            let message = format!("{target}: the folder {folder} {why}");
            Err(Error::new(ErrorKind::NoFolder, message))
        }
    }
}

/// Whether a path ends in a slash, and so can only be a folder's.
///
/// ```
/// use proto_splitter_core::atomic::names_folder;
///
/// assert!(names_folder("models/".as_ref()) && !names_folder("models".as_ref()));
/// ```
#[must_use]
pub fn names_folder(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    last.is_some_and(|&last| std::path::is_separator(char::from(last)))
}

fn check_name(target: &Path) -> io::Result<()> {
    match names_folder(target) {
        true => Err(Error::new(ErrorKind::InvalidConfig, A_FOLDER).into()),
        false => Ok(()),
    }
}

/// Fails unless what is there is a file: another takes its place, as it must not that of a device
/// or a pipe.
fn check_replaceable(there: &fs::Metadata) -> io::Result<()> {
    let message = if there.is_file() {
        return Ok(());
    } else if there.is_dir() {
        A_FOLDER
    } else {
        "no regular file, and is not replaced"
    };
    Err(Error::new(ErrorKind::InvalidConfig, message).into())
}

const A_FOLDER: &str = "a folder, where a file is to be";

/// The error without the path of a temporary file, which nobody has asked for.
fn without_temporary(error: io::Error) -> io::Error {
    match error.to_string().rsplit_once(" at path ") {
        Some((said, _)) => io::Error::new(error.kind(), said.to_owned()),
        None => error,
    }
}

/// Names the file that is written in an error that there is no room for it, which says by itself
/// where in the file, but not in which.
///
/// ```
/// use std::io;
/// use std::path::Path;
///
/// use proto_splitter_core::{Error, ErrorKind, atomic::at_target};
/// let full = Error::from(io::Error::from(io::ErrorKind::StorageFull));
/// let error = at_target(full, Path::new("model.cpb"));
/// assert!(error.to_string().starts_with("model.cpb: "));
/// let other = Error::new(ErrorKind::InvalidMessage, "a bad tag");
/// assert_eq!(at_target(other, Path::new("model.cpb")).to_string(), "a bad tag");
/// ```
#[must_use]
pub fn at_target(error: Error, target: &Path) -> Error {
    let mut causes = std::iter::successors(std::error::Error::source(&error), |e| e.source());
    let no_room = causes.any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        kind.is_some_and(|kind| {
            matches!(
                kind,
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            )
        })
    });
    match no_room {
        true => error.context(target.display()),
        false => error,
    }
}

/// Fails if a file that may not be replaced is at `path`, or the folder that it would be in is not
/// there.
pub(crate) fn check_absent(path: &Path, force: bool) -> Result<()> {
    check_folder(path)?;
    match fs::symlink_metadata(path) {
        Ok(_) if !force => Err(already_exists(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from(error).context(path.display())),
    }
}

/// Fails if the file system of `target` has fewer than `bytes` bytes left, so that a long write
/// isn't begun in vain.
pub(crate) fn check_space(target: &Path, bytes: u64) -> Result<()> {
    #[cfg(unix)]
    if let Ok(space) = rustix::fs::statvfs(folder(target)) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < bytes {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "{}: {bytes} bytes are needed and {free} are free",
                    target.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Whether two paths lead to one file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cold]
fn already_exists(path: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("{} is there already", path.display()),
    )
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// The file that a row of symlinks leads to, whether or not it is there.
pub(crate) fn written_through(path: &Path) -> io::Result<PathBuf> {
    const LONGEST_ROW: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LONGEST_ROW {
        match fs::read_link(&path) {
            Ok(next) => path = folder(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
            ("file/a", "file", "is no folder"),
            ("file/more/a", "file", "is no folder"),
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
