//! Creating the missing parent folders of an output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, Result};

/// Folders created for an output. On drop, the folders that are still empty are removed, unless
/// [`keep`](Self::keep) was called.
#[derive(Debug)]
pub(super) struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Creates the missing parent folders of the output `target`.
    pub(super) fn around(target: &Path) -> Result<MadeFolders> {
        let above = target.ancestors().skip(1);
        let missing = above.take_while(|folder| {
            *folder != Path::new("") && matches!(folder.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
        });
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        let mut made = MadeFolders(Vec::new());
        while let Some(folder) = missing.pop() {
            match fs::create_dir(&folder) {
                Ok(()) => made.0.push(folder),
                // Another process created the folder first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::from(error).in_file(&folder)),
            }
        }
        Ok(made)
    }

    /// Prevents the removal of the created folders on drop.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // Removal fails if another process has put files into the folder, which is then kept.
            let _ = fs::remove_dir(folder);
        }
    }
}
