//! Finding a compiled schema in the same folder as an input.

use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::DescriptorPool;

use super::read;

/// File extensions of compiled schemas.
const EXTENSIONS: [&str; 2] = ["desc", "binpb"];

/// Maximum size of a schema to read, in bytes: 16 MiB. A larger `.binpb` file is more likely to
/// contain another message.
const LARGEST: u64 = 16 << 20;

/// Maximum number of files to inspect in a folder.
const MOST_FILES: usize = 10_000;
/// Maximum number of schemas to read.
const MOST_SCHEMAS: usize = 32;

/// Finds a compiled schema in the input's folder for which `fits` returns true. Returns the
/// schema's path and contents; `None` if no schema or more than one fits.
pub(crate) fn find(
    input: &Path,
    fits: impl Fn(&DescriptorPool) -> bool,
) -> Option<(PathBuf, DescriptorPool)> {
    if !input.is_file() {
        return None;
    }
    let mut fitting = candidates(input)?.into_iter().filter_map(|path| {
        let pool = read(&path).ok()?;
        fits(&pool).then_some((path, pool))
    });
    let found = fitting.next()?;
    if let Some((other, _)) = fitting.next() {
        let first = found.0.display();
        let other = other.display();
        tracing::debug!("{first} and {other} both fit, so neither is used as the schema");
        return None;
    }
    tracing::debug!("took the schema from {}", found.0.display());
    Some(found)
}

/// Returns the files in the input's folder that may be schemas; `None` if there are too many to
/// read.
fn candidates(input: &Path) -> Option<Vec<PathBuf>> {
    let folder = super::folder_of(input);
    let is_input = |path: &Path| path.file_name() == input.file_name();
    let is_named = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    };
    let is_small = |path: &Path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST)
    };
    let mut found = Vec::new();
    for (at, entry) in fs::read_dir(folder).ok()?.enumerate() {
        let path = entry.ok()?.path();
        if is_named(&path) && !is_input(&path) && is_small(&path) {
            found.push(path);
        }
        if at >= MOST_FILES || found.len() > MOST_SCHEMAS {
            return None;
        }
    }
    found.sort();
    Some(found)
}
