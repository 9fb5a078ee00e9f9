//! Folders that are written atomically.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{
    MadeFrom, TemporaryFolder, check_folder, create_new, folder as folder_of, sync_folder,
};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::model::{rivals, separate_path};

/// Name of the file in a target next to which a temporary folder in the target is created.
const PLACE: &str = "model";

/// A temporary folder for the files of a target. If the target doesn't exist, the folder is next to
/// it, and becomes the target once it is complete. An existing target may be a link to another file
/// system or a mount point, so the folder is in it, and its files are moved one by one. If the folder
/// is dropped earlier, it is removed.
#[derive(Debug)]
pub(super) struct Staging {
    folder: TemporaryFolder,
    target: PathBuf,
    /// Paths of the created files, relative to the folder.
    files: Vec<PathBuf>,
    /// True if the target exists.
    is_merged: bool,
    made_from: MadeFrom,
    /// Real paths of the input files; empty if the target doesn't exist.
    inputs: HashSet<PathBuf>,
}

impl Staging {
    /// Creates a temporary folder for `target`. Fails if the target already has files, unless
    /// `force` is set. With `force`, the output's files will replace files of the same names in the
    /// target, unless the target has other files that [readers would take for a part of the
    /// output](Self::check_unrivalled).
    pub(super) fn create(target: &Path, made_from: MadeFrom, force: bool) -> Result<Staging> {
        let at_target = |error: io::Error| Error::from(error).in_file(target);
        check_folder(target)?;
        let is_merged = match fs::read_dir(target) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(at_target(error)),
        };
        // Uses the default mode of folders, which the umask restricts.
        #[cfg(unix)]
        let mode = Some(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        #[cfg(not(unix))]
        let mode = None;
        let inside = target.join(PLACE);
        let place = if is_merged { &*inside } else { target };
        let folder = TemporaryFolder::beside(place, mode).map_err(at_target)?;
        // Counts the entries only now, since what killed processes left in the target is gone.
        if is_merged && !force && fs::read_dir(target).map_err(at_target)?.nth(1).is_some() {
            let message = "the folder already exists and isn't empty";
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(target));
        }
        let inputs = match &made_from {
            MadeFrom::Files(files) if is_merged => {
                let real = files.iter().filter_map(|file| fs::canonicalize(file).ok());
                real.collect()
            }
            _ => HashSet::new(),
        };
        Ok(Staging {
            folder,
            target: target.to_owned(),
            files: Vec::new(),
            is_merged,
            made_from,
            inputs,
        })
    }

    /// Creates a file in the temporary folder. `/` in the name separates subfolders, which are also
    /// created. Fails if the file would replace an input file in the target.
    pub(super) fn file(&mut self, name: &str) -> Result<File> {
        let path = separate_path(self.folder.path(), name)?;
        if !self.inputs.is_empty() {
            let to = self.target.join(name);
            // There may be as many inputs as output files, so the inputs are compared one by one
            // only to make the error.
            if fs::canonicalize(&to).is_ok_and(|real| self.inputs.contains(&real)) {
                self.made_from.check_apart(&to)?;
            }
        }
        let create = || -> io::Result<File> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            create_new(&path, &self.made_from)
        };
        let file = create().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                let message =
                    format!("the name {name:?} is used for two files, or for a file and a folder");
                Error::new(ErrorKind::InvalidPath, message)
            }
            _ => Error::from(error).in_file(self.target.join(name)),
        })?;
        self.files.push(PathBuf::from(name));
        Ok(file)
    }

    /// Fails if a file in the target has one of these names, and the output doesn't replace this
    /// file. Readers would take the file for a part of the output.
    pub(super) fn check_unrivalled(&self, names: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        if !self.is_merged {
            return Ok(());
        }
        let stays = |name: &PathBuf| !self.files.contains(name) && self.target.join(name).is_file();
        match names.into_iter().find(stays) {
            None => Ok(()),
            Some(name) => {
                let message = "the existing file would be read as part of the new model: remove it, or write to another folder";
                let path = self.target.join(name);
                Err(Error::new(ErrorKind::InvalidConfig, message).in_file(&path))
            }
        }
    }

    /// Moves the files to the target, and returns their paths. If the target already exists, the
    /// file `last` is moved last. If the target has another file that readers would take for a part
    /// of the output, no file is moved.
    pub(super) fn commit(self, last: Option<&str>) -> Result<Vec<PathBuf>> {
        if let Some(program) = last
            && self.is_merged
        {
            self.check_unrivalled(rivals(&self.target, program))?;
        }
        let Staging {
            folder,
            target,
            mut files,
            is_merged,
            ..
        } = self;
        files.sort_by_key(|file| last.is_some_and(|last| file == Path::new(last)));
        let commit = || -> io::Result<()> {
            let inner: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
            for inner in inner {
                sync_folder(&folder.path().join(inner))?;
            }
            sync_folder(folder.path())?;
            if is_merged {
                for file in &files {
                    let to = target.join(file);
                    if let Some(folder) = to.parent() {
                        fs::create_dir_all(folder)?;
                    }
                    fs::rename(folder.path().join(file), to)?;
                }
                sync_folder(&target)?;
            } else {
                fs::rename(folder.path(), &target)?;
            }
            sync_folder(folder_of(&target))
        };
        commit().map_err(|error| Error::from(error).in_file(&target))?;
        if !is_merged {
            // The temporary folder was renamed, so there is nothing to remove.
            folder.keep();
        }
        files.rotate_right(usize::from(last.is_some()));
        Ok(files.iter().map(|file| target.join(file)).collect())
    }
}
