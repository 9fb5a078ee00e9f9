//! Moving a folder aside while another replaces it.

use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Returns the temporary path of a folder while it is replaced in two steps.
pub(super) fn aside(to: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".protosplit-");
    name.push(to.file_name().unwrap_or_default());
    name.push(".old");
    parent(to).join(name)
}

/// If a folder is missing because an interrupted replacement moved it aside, returns its current
/// path.
pub(super) fn put_aside(folder: &Path) -> Option<PathBuf> {
    let aside = aside(folder);
    (fs::symlink_metadata(folder).is_err() && aside.is_dir()).then_some(aside)
}
