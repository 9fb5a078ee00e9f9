//! Opening the files next to a model, and no others.
//!
//! A model is untrusted, and paths in models have been used to read and overwrite other files
//! (CVE-2022-25882, CVE-2024-27318, CVE-2026-27489, CVE-2026-34447). Therefore, a file is opened
//! only if it is beneath the model's folder, or beneath the folder of the model's real path. The
//! latter is needed since caches store a model and its data as symlinks into one folder of blobs.
//! Symlinks that lead elsewhere are refused, by the kernel if possible (`openat2`), so that no one
//! can change the path between the check and the opening.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use proto_splitter_core::atomic::folder;

/// The folders in which the external files of a model may be.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The model's folder according to its path; `None` if the path leads to something outside of
    /// the file system, such as a pipe.
    near: Option<Root>,
    /// The model's folder according to its path with all symlinks resolved; `None` if this folder
    /// equals `near`.
    real: Option<Root>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Handle of the open folder. The handle refers to the same folder even if the path later leads
    /// elsewhere.
    #[cfg(target_os = "linux")]
    handle: OnceLock<File>,
}

/// The symlinks that are allowed in a path beneath a [`Root`].
#[derive(Clone, Copy)]
enum Links {
    /// Symlinks whose targets are beneath the root.
    Beneath,
    /// No symlinks.
    None,
}

impl Folder {
    /// Returns the folders of the model at this path.
    pub(crate) fn of_model(model: &Path) -> io::Result<Folder> {
        let near = folder(model).to_owned();
        let real = match fs::canonicalize(model) {
            Ok(real) => real,
            // The file is open, but its path doesn't exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Folder {
                    near: None,
                    real: None,
                });
            }
            Err(error) => return Err(error),
        };
        let real = real.parent().map(Path::to_owned);
        let is_other = fs::canonicalize(&near).ok() != real;
        Ok(Folder {
            near: Some(Root::new(near)),
            real: real.filter(|_| is_other).map(Root::new),
        })
    }

    /// Returns the folder that the user specified for external files.
    pub(crate) fn named(path: PathBuf) -> Folder {
        Folder {
            near: Some(Root::new(path)),
            real: None,
        }
    }

    /// Returns the path at which a file is looked up first, as it appears in error messages.
    pub(crate) fn shown(&self, relative: &Path) -> PathBuf {
        match &self.near {
            Some(near) if near.path != Path::new(".") => near.path.join(relative),
            _ => relative.to_owned(),
        }
    }

    /// Opens the file at the path `relative` in the folder. Fails if the path, or a symlink in it,
    /// leaves the folder. If the file is a pipe, doesn't wait for its other end.
    pub(crate) fn open(&self, relative: &Path) -> io::Result<File> {
        let Some(near) = &self.near else {
            let message = "the model has no folder that could contain the file";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let refused = match near.open(relative, Links::Beneath) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let Some(real) = &self.real else {
            return Err(refused);
        };
        // A symlink next to the model may lead to the folder of the model's real path.
        let target = match fs::canonicalize(near.path.join(relative)) {
            Ok(target) => match target.strip_prefix(&real.path) {
                Ok(beneath) => beneath.to_owned(),
                Err(_) => return Err(refused),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => relative.to_owned(),
            Err(_) => return Err(refused),
        };
        real.open(&target, Links::None)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => refused,
                _ => error,
            })
    }
}

fn leaves() -> io::Error {
    io::Error::other("a symlink leaves the model's folder")
}

impl Root {
    fn new(path: PathBuf) -> Root {
        Root {
            path,
            #[cfg(target_os = "linux")]
            handle: OnceLock::new(),
        }
    }

    #[cfg(target_os = "linux")]
    fn open(&self, relative: &Path, links: Links) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        use rustix::io::Errno;

        let handle = match self.handle.get() {
            Some(handle) => handle,
            None => {
                let opened = File::open(&self.path)?;
                self.handle.get_or_init(|| opened)
            }
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if matches!(links, Links::None) {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        // The kernel reports EAGAIN if a folder in the path was renamed in the meantime.
        for _ in 0..16 {
            return match openat2(handle, relative, flags, Mode::empty(), resolve) {
                Ok(file) => Ok(File::from(file)),
                Err(Errno::AGAIN) => continue,
                Err(Errno::XDEV | Errno::LOOP) => Err(leaves()),
                // Kernels before 5.6 don't have `openat2`, and some sandboxes forbid it.
                Err(Errno::NOSYS | Errno::PERM) => self.open_checked(relative, links),
                Err(error) => Err(error.into()),
            };
        }
        Err(Errno::AGAIN.into())
    }

    #[cfg(not(target_os = "linux"))]
    fn open(&self, relative: &Path, links: Links) -> io::Result<File> {
        self.open_checked(relative, links)
    }

    /// Opens a file whose path, with all symlinks resolved, is beneath the root. Resolves the path
    /// again after opening the file, since the path may have changed in between.
    fn open_checked(&self, relative: &Path, links: Links) -> io::Result<File> {
        let root = fs::canonicalize(&self.path)?;
        let path = self.path.join(relative);
        let real = fs::canonicalize(&path)?;
        let stays = match links {
            Links::Beneath => real.starts_with(&root),
            Links::None => real == root.join(relative),
        };
        if !stays {
            return Err(leaves());
        }
        // Opening a pipe would wait for its other end.
        if !fs::metadata(&real)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(&real)?;
        if fs::canonicalize(&path)? == real && fs::symlink_metadata(&real)?.is_file() {
            Ok(file)
        } else {
            Err(leaves())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_look_before_and_after_refuses_what_the_kernel_refuses() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("model/sub")).unwrap();
        fs::write(path("model/w"), b"near").unwrap();
        fs::write(path("secret"), b"far").unwrap();
        symlink("../w", path("model/sub/in")).unwrap();
        symlink("../secret", path("model/out")).unwrap();
        symlink("..", path("model/up")).unwrap();
        let root = Root::new(path("model"));
        for (relative, links, opens) in [
            ("w", Links::Beneath, true),
            ("w", Links::None, true),
            ("sub/in", Links::Beneath, true),
            ("sub/in", Links::None, false),
            ("out", Links::Beneath, false),
            ("out", Links::None, false),
            ("up/secret", Links::Beneath, false),
            ("missing", Links::Beneath, false),
        ] {
            let relative = Path::new(relative);
            let checked = root.open_checked(relative, links);
            assert_eq!(checked.is_ok(), opens, "{}", relative.display());
            let by_kernel = root.open(relative, links);
            assert_eq!(by_kernel.is_ok(), opens, "{}", relative.display());
        }
    }
}
