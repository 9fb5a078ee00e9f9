//! Executing a plan to a file or several files.

use std::io;
use std::path::Path;

use super::beside::{DonePart, parts_beside, stem_beside};
use super::chunk_reader::ChunkReader;
use super::commit::{Commit, Sibling, remove_preferred};
use super::records::write_records;
use super::written::{Written, WrittenFile};
use crate::io::folder_lock::recover;
use crate::io::{
    AtomicFile, CHUNKED_EXTENSION, PLAIN_EXTENSION, at_target, check_absent, same_file,
    with_extension, written_through,
};
use crate::split::options::SplitOptions;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// Writes a plan to `PREFIX.cpb`, or to `PREFIX.pb` if nothing was cut and a chunked file isn't
/// requested.
pub(in crate::split) fn write(
    plan: &SplitPlan,
    source: &Source,
    prefix: &Path,
    options: &SplitOptions,
) -> Result<Written> {
    let [chunked, plain] =
        [CHUNKED_EXTENSION, PLAIN_EXTENSION].map(|extension| with_extension(prefix, extension));
    let (path, sibling) = if plan.is_split() {
        (&chunked, &plain)
    } else {
        (&plain, &chunked)
    };
    let is_source = |path: &Path| source.path().is_some_and(|source| same_file(source, path));
    let made_from = source.made_from();
    let is_read = |path: &Path| made_from.contains(path);
    let force = options.force;
    let mut written = Written {
        path: path.clone(),
        is_split: plan.is_split(),
        byte_exact: plan.byte_exact,
        chunks: Vec::new(),
        source_size: source.size(),
        output_size: source.size(),
        files: Vec::new(),
        removed: None,
        removed_files: Vec::new(),
        source_stays: is_read(sibling),
        merkle_root: None,
    };
    if is_source(path) {
        if plan.is_split() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("{} is the source itself", path.display()),
            ));
        }
        if !written.source_stays && sibling.symlink_metadata().is_ok() {
            check_sibling(sibling, force)?;
            let main = written_through(sibling)?;
            // If only a link is removed, its target still needs its other files.
            let stays = |path: &Path| main != *sibling || is_read(path);
            let removed = remove_preferred(sibling, &main, path, options, stays)?;
            written.removed = removed.sibling;
            written.removed_files = removed.parts;
        }
        return Ok(written);
    }
    made_from.check_apart(path)?;
    // Readers prefer the chunked file to the other form, which is therefore removed. But if chunked
    // files are always requested, the other form isn't necessarily an older version of this
    // message.
    let sibling_goes = !written.source_stays && !options.always_chunked;
    let main = written_through(&chunked)?;
    // If only a link is replaced, its target still needs its other files.
    let link_goes = !plan.is_split() && main != chunked;
    let stays = |path: &Path| link_goes || is_read(path);
    recover(&main, &options.progress)?;
    check_absent(path, force)?;
    if sibling_goes {
        check_sibling(sibling, force)?;
    }
    let mut file = AtomicFile::create(path, &made_from, force)?;
    if plan.is_split() && options.max_file_size.is_some() {
        stem_beside(&main)?;
    }
    for path in parts_beside(&main)? {
        if !stays(&path) {
            check_absent(&path, force)?;
        }
    }
    if !plan.is_split() {
        file.check_space(plan.chunks.iter().map(|chunk| chunk.size).sum())?;
    }
    let parts = write_content(plan, source, &mut file, options, &mut written)?;
    source.check_unchanged()?;
    options.progress.check()?;
    written.files = parts.iter().map(WrittenFile::from).collect();
    let sibling = Sibling {
        path: sibling,
        is_preferred: !written.is_split,
    };
    let commit = Commit {
        main: file,
        parts,
        chunked: &main,
        sibling: Some(sibling).filter(|_| sibling_goes),
        force,
        progress: &options.progress,
    };
    let removed = commit.run(stays)?;
    written.removed = removed.sibling;
    written.removed_files = removed.parts;
    Ok(written)
}

/// Fails if the file `sibling` exists and may not be removed. This is the `.pb` file if a `.cpb`
/// file will be written, and vice versa.
fn check_sibling(sibling: &Path, force: bool) -> Result<()> {
    check_absent(sibling, force)?;
    if sibling.is_dir() {
        let message = format!("{} is a folder", sibling.display());
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    Ok(())
}

/// Writes the chunks and the trailer, or the whole message if it was not cut. Returns the files
/// with chunks in addition to the main file.
fn write_content(
    plan: &SplitPlan,
    source: &Source,
    file: &mut AtomicFile,
    options: &SplitOptions,
    written: &mut Written,
) -> Result<Vec<DonePart>> {
    if !plan.is_split() {
        let meter = options.progress.meter(source.size());
        let mut chunk = ChunkReader::new(&plan.chunks[0], source).metered(&meter);
        let copied = io::copy(&mut chunk, file.as_file_mut());
        copied.map_err(|error| at_target(error.into(), &written.path))?;
        return Ok(Vec::new());
    }
    let records = write_records(plan, source, file, options);
    let (chunks, parts, root) = records.map_err(|error| at_target(error, &written.path))?;
    let others: u64 = parts.iter().map(|part| part.named.size).sum();
    written.output_size = file.as_file().metadata()?.len() + others;
    written.chunks = chunks;
    written.merkle_root = root;
    Ok(parts)
}
