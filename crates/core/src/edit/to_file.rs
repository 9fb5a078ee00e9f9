//! Writing a rewritten `.cpb` file, in one or several files. Either all files appear, and are
//! complete, or no file appears.

use super::options::{RewriteOptions, Rewritten};
use super::rewrite::Rewrite;
use crate::Result;
use crate::io::folder_lock::recover;
use crate::io::{AtomicFile, MadeFrom, at_target, check_absent, same_file};
use crate::message::ChunkedFile;
use crate::split::{Commit, DonePart, WrittenFile, parts_beside};
use record_file::ReadAt;
use std::path::Path;

/// Writes a file, and other files next to it if needed. Either all files appear, and are complete,
/// or no file appears. The main file appears last. Removes leftovers of an earlier split.
pub(super) fn write<S: ReadAt>(
    file: &ChunkedFile<S>,
    target: &Path,
    options: &RewriteOptions,
    run: impl FnOnce(Rewrite<'_, S>) -> Result<(Rewritten, Vec<DonePart>)>,
) -> Result<Rewritten> {
    let read = || file.store().paths().iter().chain(&options.read_from);
    let is_read = |path: &Path| read().any(|read| same_file(read, path));
    let made_from = MadeFrom::files(read());
    let main = AtomicFile::create(target, &made_from, options.force)?;
    recover(main.target(), &options.progress)?;
    for path in parts_beside(main.target())? {
        if !is_read(&path) {
            check_absent(&path, options.force)?;
        }
    }
    let (mut rewritten, parts) = run(Rewrite::new(file, main.as_file(), Some(&main), options))
        .map_err(|error| at_target(error, target))?;
    rewritten.files = parts.iter().map(WrittenFile::from).collect();
    let chunked = main.target().to_owned();
    let commit = Commit {
        main,
        parts,
        chunked: &chunked,
        sibling: None,
        force: options.force,
        progress: &options.progress,
    };
    rewritten.removed_files = commit.run(is_read)?.parts;
    Ok(rewritten)
}
