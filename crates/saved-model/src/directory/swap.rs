//! Paths for replacing a folder in two steps. First, the old folder is renamed; then, the new
//! folder gets the old folder's name.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::folder;

/// Returns the path to which the folder `to` is temporarily moved when it is replaced in two steps.
pub(super) fn aside(to: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".protosplit-");
    name.push(to.file_name().unwrap_or_default());
    name.push(".old");
    folder(to).join(name)
}

/// Returns the path to which an interrupted replacement moved `folder`; `None` if `folder` exists
/// or wasn't moved.
pub(super) fn put_aside(folder: &Path) -> Option<PathBuf> {
    let aside = aside(folder);
    (fs::symlink_metadata(folder).is_err() && aside.is_dir()).then_some(aside)
}
