//! Executing a plan to a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use record_file::{Compression, CompressionKind};

use super::options::SplitOptions;
use super::parts::{commit_all, parts_beside, remove, remove_stale, stem_beside};
use super::plan::SplitPlan;
use super::records::write_records;
use super::source::Source;
use super::write::ChunkReader;
use crate::atomic::{AtomicFile, at_target, check_absent, check_space, same_file, written_through};
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::{Error, ErrorKind, Result};

/// A message that was written to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The file: `PREFIX.cpb`, or `PREFIX.pb` if nothing was cut.
    pub path: PathBuf,
    /// Whether anything was cut.
    pub is_split: bool,
    /// Whether a merge gives the very bytes of the source, and not just an equal message.
    pub byte_exact: bool,
    /// The chunks in the order of their indices; none if nothing was cut.
    pub chunks: Vec<WrittenChunk>,
    /// Bytes of the message.
    pub source_size: u64,
    /// Bytes of the file, with those of the others that it names.
    pub output_size: u64,
    /// The other files that chunks are in, in the order of their numbers.
    pub files: Vec<WrittenFile>,
    /// A file of the other form that was in the way and was removed, as was asked for.
    pub removed: Option<PathBuf>,
    /// Files of an earlier split in several that were removed, as was asked for.
    pub removed_files: Vec<PathBuf>,
    /// Whether the source stays beside the file as `PREFIX.pb`. Readers prefer the `.cpb`.
    pub source_stays: bool,
}

/// A file beside the main one that has chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it.
    pub size: u64,
    /// How many chunks it has; those that share a record count once.
    pub chunks: usize,
}

/// A chunk in a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenChunk {
    /// The chunk's index.
    pub index: u64,
    /// Whether it holds a message or a bytes value.
    pub kind: ChunkKind,
    /// Where it belongs.
    pub path: FieldPath,
    /// Bytes, uncompressed.
    pub size: u64,
    /// Bytes in the file, without headers.
    pub stored_size: u64,
    /// How it is compressed.
    pub compression: CompressionKind,
    /// Which file its record is in: 0 is the main one, the others are counted as in
    /// [`Written::files`].
    pub file: usize,
    /// The position of its record in that file.
    pub position: u64,
    /// An earlier chunk with the same bytes, whose record it shares.
    pub same_as: Option<u64>,
}

/// Writes what was planned: `PREFIX.cpb`, or `PREFIX.pb` if nothing was cut.
pub(super) fn write(
    plan: &SplitPlan,
    source: &Source,
    prefix: &Path,
    options: &SplitOptions,
) -> Result<Written> {
    let [chunked, plain] = ["cpb", "pb"].map(|extension| with_extension(prefix, extension));
    let (path, sibling) = if plan.is_split() {
        (&chunked, &plain)
    } else {
        (&plain, &chunked)
    };
    let is_source = |path: &Path| source.path().is_some_and(|source| same_file(source, path));
    let force = options.get_force();
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
        source_stays: is_source(sibling),
    };
    if is_source(path) {
        if plan.is_split() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("{} is the source itself", path.display()),
            ));
        }
        return Ok(written);
    }
    check_absent(path, force)?;
    if !written.source_stays {
        check_absent(sibling, force)?;
        if sibling.is_dir() {
            let message = format!("{} is a folder", sibling.display());
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
    }
    let mut file = AtomicFile::create(path, force)?;
    let main = written_through(&chunked)?;
    if plan.is_split() && options.get_max_file_size().is_some() {
        stem_beside(&main)?;
    }
    let stale = parts_beside(&main)?;
    let stale: Vec<_> = stale.into_iter().filter(|path| !is_source(path)).collect();
    for path in &stale {
        check_absent(path, force)?;
    }
    if let (Some(source), false) = (source.path(), path.exists()) {
        file.restrict_to(&fs::metadata(source)?.permissions())?;
    }
    if options.get_compression() == Compression::None.into() {
        check_space(path, plan.chunks.iter().map(|chunk| chunk.size).sum())?;
    }
    let mut parts = Vec::new();
    if plan.is_split() {
        let records = write_records(plan, source, &mut file, options);
        (written.chunks, parts) = records.map_err(|error| at_target(error, path))?;
        let others: u64 = parts.iter().map(|part| part.named.size).sum();
        written.output_size = file.as_file().metadata()?.len() + others;
    } else {
        let meter = options.get_progress().meter(source.size());
        let mut chunk = ChunkReader::new(plan, &plan.chunks[0], source).metered(&meter);
        let copied = io::copy(&mut chunk, file.as_file_mut());
        copied.map_err(|error| at_target(error.into(), path))?;
    }
    source.check_unchanged()?;
    options.get_progress().check()?;
    written.files = parts.iter().map(WrittenFile::from).collect();
    commit_all(file, parts)?;
    written.removed_files = remove_stale(stale, &written.files)?;
    if !written.source_stays && sibling.exists() {
        remove(sibling)?;
        written.removed = Some(sibling.clone());
    }
    Ok(written)
}

fn with_extension(prefix: &Path, extension: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}
