//! Opening the files beside a model, and no others.
//!
//! A model is untrusted, and the paths in it have been used to read and overwrite what they must not
//! (CVE-2022-25882, CVE-2024-27318, CVE-2026-27489, CVE-2026-34447). What is opened lies beneath the
//! model's folder, or beneath the folder of the model's real path: caches keep a model and its data
//! as symlinks into one folder of blobs. Symlinks that lead elsewhere are refused, by the kernel
//! where it can (`openat2`), so that nothing can be changed in between.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

/// Where the files of a model may be.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The folder in the model's path; none if the model is in no folder, as one that came through a
    /// pipe.
    near: Option<Root>,
    /// The folder of its real path, if it is another.
    real: Option<Root>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Held open, so that it stays the same folder.
    #[cfg(target_os = "linux")]
    handle: OnceLock<File>,
}

/// What a path beneath a root may do.
#[derive(Clone, Copy)]
enum Links {
    /// Go through symlinks that stay beneath.
    Beneath,
    /// Go through none.
    None,
}

impl Folder {
    /// The folder of a model.
    pub(crate) fn of_model(model: &Path) -> io::Result<Folder> {
        let near = match model.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let real = match fs::canonicalize(model) {
            Ok(real) => real,
            // It is open, and has no name.
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

    /// A folder that was named.
    pub(crate) fn named(path: PathBuf) -> Folder {
        Folder {
            near: Some(Root::new(path)),
            real: None,
        }
    }

    /// Where a file is looked for first, to name it in errors.
    pub(crate) fn shown(&self, relative: &Path) -> PathBuf {
        match &self.near {
            Some(near) if near.path != Path::new(".") => near.path.join(relative),
            _ => relative.to_owned(),
        }
    }

    /// Opens a file, whose relative path goes down only. It isn't waited for if it is a pipe.
    pub(crate) fn open(&self, relative: &Path) -> io::Result<File> {
        let Some(near) = &self.near else {
            let message = "the model is in no folder in which it could be";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let refused = match near.open(relative, Links::Beneath) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let Some(real) = &self.real else {
            return Err(refused);
        };
        // A symlink beside the model may lead to where the model's own leads.
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
        // The kernel asks to try again if a folder on the way was renamed meanwhile.
        for _ in 0..16 {
            return match openat2(handle, relative, flags, Mode::empty(), resolve) {
                Ok(file) => Ok(File::from(file)),
                Err(Errno::AGAIN) => continue,
                Err(Errno::XDEV | Errno::LOOP) => Err(leaves()),
                // Kernels before 5.6 haven't got it, and some sandboxes forbid it.
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

    /// Looks where the path leads before it is opened, and again afterwards.
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
        // Opening a pipe waits for its other end.
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
