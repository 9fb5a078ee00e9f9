//! The folder of an output, where it isn't there yet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Folders that were made for an output. Dropped, those that are empty are removed again.
#[derive(Debug)]
pub(super) struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Makes the folders that lead to an output.
    pub(super) fn around(target: &Path) -> Result<MadeFolders, Failure> {
        let above = target.ancestors().skip(1);
        let missing = above.take_while(|folder| {
            *folder != Path::new("") && matches!(folder.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
        });
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        let mut made = MadeFolders(Vec::new());
        while let Some(folder) = missing.pop() {
            match fs::create_dir(&folder) {
                Ok(()) => made.0.push(folder),
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::io(&folder, &error)),
            }
        }
        Ok(made)
    }

    /// Leaves them where they are.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // One that isn't empty has something of somebody else.
            let _ = fs::remove_dir(folder);
        }
    }
}
