//! The files that a trailer names: their paths, and whether they may be opened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::Limits;
use crate::io::{FilePool, PooledFile, open_file};
use crate::merge::read::file_source::FileSource;
use crate::proto::chunk_metadata::ExternalFile;
use crate::{Error, ErrorKind, Result};

/// An opener of the files that are named in the trailer of a main file.
#[derive(Debug)]
pub(super) struct ExternalFiles {
    /// Folder of the file that contains the trailer, without symbolic links; `None` for an open
    /// file without a name.
    folder: Option<PathBuf>,
    allow_outside: bool,
    /// Paths of the opened files, without symbolic links.
    paths: Vec<PathBuf>,
    pool: Arc<FilePool>,
}

impl ExternalFiles {
    /// Creates an opener of the files that the trailer of `main` names. Their paths are relative to
    /// the folder of `main`, or of its target if `main` is a symbolic link.
    pub(super) fn of(main: &Path, limits: &Limits) -> Result<ExternalFiles> {
        let folder = match fs::canonicalize(main) {
            Ok(real) => Some(real.parent().unwrap_or(&real).to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::from(error).in_file(main)),
        };
        Ok(ExternalFiles {
            folder,
            allow_outside: limits.allow_outside,
            paths: Vec::new(),
            pool: Arc::default(),
        })
    }

    /// Opens a file that the trailer names, through a pool that keeps only a few files open at a
    /// time.
    pub(super) fn open<S>(&mut self, file: &ExternalFile) -> Result<FileSource<S>> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            let message =
                "chunks are in other files, but the file with the trailer has no folder to look in";
            Error::new(ErrorKind::Io, message)
        })?;
        let path = folder.join(self.relative(&file.path)?);
        let real = fs::canonicalize(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let message = "the file holds chunks of the message, and isn't there";
                Error::new(ErrorKind::Io, message).with_source(error)
            }
            _ => Error::from(error),
        })?;
        if !self.allow_outside && !real.starts_with(folder) {
            return Err(outside("a symbolic link leads to"));
        }
        // Checked before opening, since opening a pipe waits for its other end.
        if !fs::metadata(&real)?.is_file() {
            return Err(Error::new(ErrorKind::Io, "it is not a regular file"));
        }
        let number = self.paths.len();
        self.paths.push(real.clone());
        let file = PooledFile::new(&self.pool, number, open_file(&real)?, real)?;
        Ok(FileSource::pooled(file))
    }

    /// Returns the paths of `main` and the opened files, without symbolic links.
    pub(super) fn into_paths(self, main: &Path) -> Vec<PathBuf> {
        let main = fs::canonicalize(main).ok().into_iter();
        main.chain(self.paths).collect()
    }

    /// Converts a path in a trailer from text. Fails if the text shows that the path leads outside
    /// of the main file's folder, unless such paths are allowed.
    fn relative(&self, path: &str) -> Result<PathBuf> {
        let strange = |part: &str| part.is_empty() || part == "." || part.contains('\0');
        let inside = path.strip_prefix('/').unwrap_or(path);
        if inside.split('/').any(strange) {
            let message = "it is not a path of folders and a file";
            return Err(Error::new(ErrorKind::InvalidTrailer, message));
        }
        let foreign = |part: &str| part == ".." || (cfg!(windows) && part.contains(['\\', ':']));
        if !self.allow_outside && (inside.len() < path.len() || inside.split('/').any(foreign)) {
            return Err(outside("the path leads to"));
        }
        Ok(PathBuf::from(path))
    }
}

#[cold]
fn outside(how: &str) -> Error {
    let message = format!(
        "{how} a file outside of the folder of the file that names it, which `allow-outside` would permit"
    );
    Error::new(ErrorKind::InvalidTrailer, message)
}
