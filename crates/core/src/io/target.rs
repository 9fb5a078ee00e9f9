//! Checks of the target path of a new file: its folder, an existing file there, and free space.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

/// Fails if the folder of `target` doesn't exist, naming the outermost missing folder.
///
/// # Errors
///
/// [`ErrorKind::NoFolder`] if the folder doesn't exist, or isn't a folder. Other problems are
/// reported when the file is written.
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
            Ok(_) => "is not a folder",
            Err(error) => match error.kind() {
                // The last ancestor of a relative path is empty: the current folder, which exists.
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

/// Returns true if a path ends in a slash, and thus can only name a folder.
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

/// Fails if `target` ends in a slash, and thus can only name a folder.
pub(super) fn check_name(target: &Path) -> io::Result<()> {
    if names_folder(target) {
        Err(Error::new(ErrorKind::InvalidConfig, A_FOLDER).into())
    } else {
        Ok(())
    }
}

/// Fails if the existing item at a path is not a regular file, since a folder, a device or a pipe
/// must not be replaced.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], without the path.
pub fn check_replaceable(there: &fs::Metadata) -> io::Result<()> {
    let message = if there.is_file() {
        return Ok(());
    } else if there.is_dir() {
        A_FOLDER
    } else {
        "not a regular file, so it is not replaced"
    };
    Err(Error::new(ErrorKind::InvalidConfig, message).into())
}

const A_FOLDER: &str = "expected a file, found a folder";

/// Adds the path `target` to an error about a full disk. Returns other errors unchanged.
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
    if no_room {
        error.in_file(target)
    } else {
        error
    }
}

/// Fails if the folder of `path` doesn't exist, or if `path` exists and `force` is false.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if `path` exists and `force` is false; the same errors as
/// [`check_folder`]; [`ErrorKind::Io`] if the operating system fails to inspect `path`.
pub fn check_absent(path: &Path, force: bool) -> Result<()> {
    check_folder(path)?;
    match fs::symlink_metadata(path) {
        Ok(_) if !force => Err(already_exists(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from(error).in_file(path)),
    }
}

/// Fails if the file system of `target` has fewer than `bytes` bytes free. Call this before a long
/// write.
///
/// ```
/// use proto_splitter_core::atomic::check_space;
///
/// let target = std::env::temp_dir().join("target.pb");
/// assert!(check_space(&target, 0).is_ok());
/// # #[cfg(unix)]
/// assert!(check_space(&target, u64::MAX).is_err());
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`], naming the file, the space it needs and the free space.
pub fn check_space(target: &Path, bytes: u64) -> Result<()> {
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
    #[cfg(not(unix))]
    let _ = (target, bytes);
    Ok(())
}

/// Returns true if two paths refer to the same existing file. Unlike the crate `same-file`, this
/// opens neither file, since opening a pipe would wait for its other end.
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Returns true if `path` refers to the open file `file`, and isn't a symbolic link to it.
#[cfg(unix)]
pub(super) fn is_at(file: &fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(path)) => (file.dev(), file.ino()) == (path.dev(), path.ino()),
        _ => false,
    }
}

#[cold]
pub(super) fn already_exists(path: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("{} is there already", path.display()),
    )
}

/// Returns the folder of a file: `.` if the path has no folder.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Follows the symlinks at `path`, and returns the path at their end, where a file need not exist.
///
/// # Errors
///
/// If there are 40 symlinks or more, as in a cycle.
pub fn written_through(path: &Path) -> io::Result<PathBuf> {
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
