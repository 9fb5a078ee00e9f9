//! Renaming a model and its data files to their final names.
//!
//! Two files can't be replaced at once, and the old model may refer to data with the final name of
//! the new data. So the new data first gets an interim name:
//!
//! ```text
//! 1  model.onnx.data.new1    the new data, which nothing refers to yet
//! 2  model.onnx              the new model, which refers to it: readers find the new one from now on
//! 3  model.onnx.data         another link to the new data
//! 4  model.onnx              the new model, which refers to that name
//! 5                          model.onnx.data.new1 and other data of the old model are removed
//! ```
//!
//! If the process is killed before step 2, the old model remains. If it is killed later, the new
//! model is in place. The next run replaces or removes the files that the killed process left, and
//! removes the data files of the old model that are listed in the lock file. An error after step 2
//! is only a warning, since the new model is complete.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{AtomicFile, FolderLock, MadeFrom, folder, warn_unless_synced};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, Result};

use super::leaving::stem_and_ending;
use super::{ExternalOptions, contexts, safetensors};
use crate::options::OnnxOptions;
use crate::source::OnnxSource;

/// Endings of interim names, which data files have until the model refers to the final names. There
/// are two endings, since a killed process may have left a model that refers to files with one of
/// them.
const INTERIM: [&str; 2] = [".new1", ".new2"];

/// Extension of data files that may have an index.
const INDEXED: &str = "safetensors";

/// The files of a model with external data, while they are being written.
pub(super) struct Placing<'a> {
    target: &'a Path,
    made_from: &'a MadeFrom,
    options: &'a ExternalOptions,
    model: AtomicFile,
    data: Vec<Data>,
    index: Option<Data>,
}

struct Data {
    file: AtomicFile,
    path: PathBuf,
}

/// The paths of the written data files and of the removed ones, after all files were renamed.
pub(super) struct Placed {
    pub(super) data_files: Vec<PathBuf>,
    pub(super) removed_files: Vec<PathBuf>,
}

impl<'a> Placing<'a> {
    /// Creates the model, the data files with these paths, and the index of the data, if there is
    /// one. Fails if a file exists and the options don't allow replacing it, unless a killed
    /// process left it.
    pub(super) fn begin(
        target: &'a Path,
        paths: Vec<PathBuf>,
        index: Option<PathBuf>,
        made_from: &'a MadeFrom,
        options: &'a ExternalOptions,
    ) -> Result<Placing<'a>> {
        let force = options.force || OldData::of(target).is_unfinished(target, &paths);
        let create = |path: &Path| AtomicFile::create(path, made_from, force);
        // The model is created first: if it must not be replaced, no other file is created.
        let model = create(target)?;
        let begin = |path: PathBuf| {
            let file = create(&path)?;
            Ok(Data { file, path })
        };
        let data = paths.into_iter().map(begin);
        Ok(Placing {
            target,
            made_from,
            options,
            model,
            data: data.collect::<Result<_>>()?,
            index: index.map(begin).transpose()?,
        })
    }

    /// Fails if the file system has less than `bytes` bytes of free space.
    pub(super) fn check_space(&self, bytes: u64) -> Result<()> {
        self.model.check_space(bytes)
    }

    /// Returns the data files and their final paths.
    pub(super) fn data(&self) -> impl Iterator<Item = (&AtomicFile, &Path)> {
        self.data.iter().map(|data| (&data.file, &*data.path))
    }

    /// Returns the file of the index, if there is one.
    pub(super) fn index(&self) -> Option<&AtomicFile> {
        self.index.as_ref().map(|index| &index.file)
    }

    /// Renames all files to their final names. `write_model` writes the model, given the names of
    /// its data files.
    pub(super) fn place(
        self,
        write_model: impl Fn(&[String], &AtomicFile) -> Result<()>,
    ) -> Result<Placed> {
        let Placing {
            target,
            made_from,
            options,
            model,
            data,
            index,
        } = self;
        let paths: Vec<PathBuf> = data.iter().map(|data| data.path.clone()).collect();
        let lock = FolderLock::take(target, &options.progress)?;
        let old = OldData::of(target).with_listed(&lock);
        if let Some(index) = &index {
            index.file.sync()?;
        }
        let mut keep: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        keep.extend(index.iter().map(|index| index.path.as_path()));
        old.list(&lock, &keep, target, made_from);
        let Some(ending) = old.free_ending(&paths, made_from) else {
            let message = "the existing model or the input refers to data under both interim names";
            return Err(io::Error::other(message).into());
        };
        let mut interim = Interim::default();
        for data in data {
            let path = with_ending(&data.path, ending);
            data.file.commit_as(path.clone())?;
            interim.0.push(path);
        }
        write_model(&names(&interim.0), &model)?;
        model.commit()?;
        let interim = std::mem::take(&mut interim.0);
        let mut data_files = match rename((target, made_from), &interim, &paths, &write_model) {
            Ok(()) => paths.clone(),
            Err(error) => {
                tracing::warn!(
                    "{}: {error}: its data keeps the interim name",
                    target.display()
                );
                interim
            }
        };
        if let Some(Data { file, path }) = index {
            match file.commit() {
                Ok(()) => data_files.push(path),
                Err(error) => tracing::warn!("{error}: the index of the data is missing"),
            }
        }
        let keep: Vec<&Path> = data_files.iter().map(PathBuf::as_path).collect();
        // Data with interim names is removed last: as long as it exists, a later run may replace
        // existing files in order to complete this run.
        let removed_files = old.remove(&keep, target, made_from);
        remove_interim(target, &keep, made_from);
        Ok(Placed {
            removed_files,
            data_files,
        })
    }
}

/// Replaces the model at `target` with one without data files, by calling `commit`. Returns the
/// removed data files of the old model.
pub(super) fn replace(
    target: &Path,
    made_from: &MadeFrom,
    progress: &Progress,
    commit: impl FnOnce() -> Result<()>,
) -> Result<Vec<PathBuf>> {
    let lock = FolderLock::take(target, progress)?;
    let old = OldData::of(target).with_listed(&lock);
    old.list(&lock, &[], target, made_from);
    commit()?;
    Ok(old.remove(&[], target, made_from))
}

/// Replaces the model at `target` with one without data files, by calling `write`, which may take
/// long and isn't called under the lock. Returns the removed data files of the old model.
pub(crate) fn replace_by<T>(
    target: &Path,
    made_from: &MadeFrom,
    progress: &Progress,
    write: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<PathBuf>)> {
    let old = OldData::of(target);
    let written = write()?;
    if old.referenced.is_empty() {
        return Ok((written, Vec::new()));
    }
    let removed = FolderLock::take(target, progress).map(|lock| {
        // Another process may have replaced the model meanwhile, by one with the same data files.
        let now = OldData::of(target).referenced;
        let keep: Vec<&Path> = now.iter().map(PathBuf::as_path).collect();
        old.with_listed(&lock).remove(&keep, target, made_from)
    });
    let removed = removed.unwrap_or_else(|error| {
        // The new model is complete.
        tracing::warn!("{error}: the data of the old model is not removed");
        Vec::new()
    });
    Ok((written, removed))
}

/// Renames the data files to their final names, and makes the model refer to these names.
fn rename(
    (target, made_from): (&Path, &MadeFrom),
    interim: &[PathBuf],
    paths: &[PathBuf],
    write_model: &impl Fn(&[String], &AtomicFile) -> Result<()>,
) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    for (from, to) in interim.iter().zip(paths) {
        link(from, to).map_err(|error| Error::from(error).in_file(to))?;
    }
    paths.first().map(|path| warn_unless_synced(path));
    let model = AtomicFile::create(target, made_from, true)?;
    write_model(&names(paths), &model)?;
    model.commit()
}

/// Makes `to` another name of the file `from`, replacing an existing file. Copies the file if the
/// file system has no hard links.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let beside = to.with_file_name(format!(".protosplit-{name}.tmp"));
    let linked = (|| {
        if fs::symlink_metadata(&beside).is_ok() {
            fs::remove_file(&beside)?;
        }
        if fs::hard_link(from, &beside).is_err() {
            fs::copy(from, &beside)?;
            fs::File::open(&beside)?.sync_all()?;
        }
        fs::rename(&beside, to)
    })();
    linked.inspect_err(|_| {
        // The link or copy may not exist. The error from creating it is more useful than an error
        // from removing it.
        let _ = fs::remove_file(&beside);
    })
}

/// Removes data files with interim names, from this run and from earlier ones that were killed.
/// Files in `keep`, and files from which the new model was made, are excluded.
fn remove_interim(target: &Path, keep: &[&Path], made_from: &MadeFrom) {
    let entries = fs::read_dir(folder(target));
    for entry in entries.into_iter().flatten().flatten() {
        let path = target.with_file_name(entry.file_name());
        let goes = ending_of(&path).is_some() && is_own(&path, target);
        if goes
            && !keep.contains(&path.as_path())
            && !made_from.contains(&path)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!("{} could not be removed: {error}", path.display());
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    paths
        .iter()
        .map(|path| name(path).unwrap_or_default())
        .collect()
}

/// Data files with interim names, to which no model refers. Dropping this removes the files.
#[derive(Default)]
struct Interim(Vec<PathBuf>);

impl Drop for Interim {
    fn drop(&mut self) {
        for path in &self.0 {
            // The error that led to this removal is more useful than an error of the removal
            // itself.
            let _ = fs::remove_file(path);
        }
    }
}

/// The data files of the existing model at a target.
pub(super) struct OldData {
    /// Files that the model refers to.
    referenced: BTreeSet<PathBuf>,
    /// Files to which the model no longer refers, and which a killed process was about to remove.
    listed: Vec<PathBuf>,
}

impl OldData {
    /// Reads the references of the model at `target`. A model that doesn't exist or can't be read
    /// has no references.
    fn of(target: &Path) -> OldData {
        let options = OnnxOptions::new().keep_external(true);
        let model = OnnxSource::open(target, &options);
        let referenced = model.map_or_else(
            |_| BTreeSet::new(),
            |model| model.outside_files().map(Path::to_owned).collect(),
        );
        OldData {
            referenced,
            listed: Vec::new(),
        }
    }

    /// Adds the files that are listed in the lock file. A process that was about to remove these
    /// files was killed.
    fn with_listed(mut self, lock: &FolderLock) -> OldData {
        self.listed.extend_from_slice(lock.replaced());
        self
    }

    /// Lists in the lock file the files that [`remove`](Self::remove) is going to remove.
    fn list(&self, lock: &FolderLock, keep: &[&Path], target: &Path, made_from: &MadeFrom) {
        let files = self.removable(keep, target, made_from);
        lock.list_replaced(files.iter().map(PathBuf::as_path));
    }

    /// Returns true if a process that was writing the model at `target` was killed before it had
    /// renamed all files.
    fn is_unfinished(&self, target: &Path, paths: &[PathBuf]) -> bool {
        let is_interim = |path: &PathBuf| is_own(path, target) && ending_of(path).is_some();
        let is_linked = |path: &PathBuf| {
            INTERIM
                .iter()
                .any(|ending| is_same_link(path, &with_ending(path, ending)))
        };
        self.referenced.iter().any(is_interim) || paths.iter().any(is_linked)
    }

    /// Returns the first free ending in [`INTERIM`]: no data file of the model has it, and none of
    /// `paths` with this ending is a file from which the new model was made. Returns `None` if no
    /// ending is free.
    fn free_ending(&self, paths: &[PathBuf], made_from: &MadeFrom) -> Option<&'static str> {
        let is_free = |ending: &&&str| {
            let mut files = self.referenced.iter();
            let mut interim = paths.iter().map(|path| with_ending(path, ending));
            files.all(|path| ending_of(path) != Some(**ending))
                && !interim.any(|path| made_from.contains(&path))
        };
        INTERIM.iter().find(is_free).copied()
    }

    /// Returns the files that were written for the old model at `target`, including the index.
    /// Files in `keep`, and files from which the new model was made, are excluded.
    fn removable(&self, keep: &[&Path], target: &Path, made_from: &MadeFrom) -> BTreeSet<PathBuf> {
        let files = self.referenced.iter().chain(&self.listed);
        let is_old = |path: &&PathBuf| is_own(path, target) || is_index(path, target);
        let mut files: BTreeSet<PathBuf> = files.filter(is_old).cloned().collect();
        let is_indexed = |path: &PathBuf| path.extension().is_some_and(|one| one == INDEXED);
        if files.iter().any(is_indexed) {
            files.extend(index_of(target));
        }
        files.retain(|path| !keep.contains(&path.as_path()) && !made_from.contains(path));
        files
    }

    /// Removes the [`removable`](Self::removable) files, and returns their paths.
    fn remove(&self, keep: &[&Path], target: &Path, made_from: &MadeFrom) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        for path in self.removable(keep, target, made_from) {
            match fs::remove_file(&path) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!("{} could not be removed: {error}", path.display());
                }
            }
        }
        removed
    }
}

/// Returns the path of the index for the data files of the model at `target`.
fn index_of(target: &Path) -> Option<PathBuf> {
    let name = target.file_name()?.to_string_lossy();
    Some(target.with_file_name(safetensors::index_name(&name)))
}

fn is_index(path: &Path, target: &Path) -> bool {
    index_of(target).is_some_and(|index| index == path)
}

/// Returns the ending in [`INTERIM`] with which a file name ends, if any.
fn ending_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    INTERIM
        .iter()
        .find(|ending| name.ends_with(**ending))
        .copied()
}

/// Returns true if a file has a name that this module gives to data of the model at `target`.
fn is_own(path: &Path, target: &Path) -> bool {
    let names = path.file_name().and_then(|name| name.to_str());
    let names = names.zip(target.file_name().and_then(|name| name.to_str()));
    let Some((name, model)) = names.filter(|_| path.parent() == target.parent()) else {
        return false;
    };
    let name = ending_of(path).map_or(name, |ending| &name[..name.len() - ending.len()]);
    let (stem, extension) = stem_and_ending(model);
    let Some(rest) = name.strip_prefix(stem) else {
        return false;
    };
    let contexts = rest.strip_prefix(contexts::ENDING.0);
    let rest = contexts.unwrap_or(rest);
    let extensions = match contexts {
        Some(_) => &[contexts::ENDING.1][..],
        None => &[extension, safetensors::ENDING],
    };
    if extensions.contains(&rest) {
        return true;
    }
    let numbers = extensions
        .iter()
        .find_map(|extension| rest.strip_suffix(extension)?.strip_prefix('-'));
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once("-of-"))
        .is_some_and(|(number, count)| is_number(number) && is_number(count))
}

/// Returns true if both paths are hard links to the same file. Where hard links can't be detected,
/// returns true if both paths exist.
fn is_same_link(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        match (fs::symlink_metadata(a), fs::symlink_metadata(b)) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        a.exists() && b.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_data_tell_whose_it_is() {
        for (name, target, expected) in [
            ("a/m.onnx.data", "a/m.onnx", true),
            ("a/m.onnx.data.new2", "a/m.onnx", true),
            ("a/m-00001-of-00005.onnx.data", "a/m.onnx", true),
            ("a/m-100001-of-100005.onnx.data.new1", "a/m.onnx", true),
            ("a/m-00001-of-00005.data", "a/m", true),
            ("a/m.safetensors", "a/m.onnx", true),
            ("a/m-00001-of-00005.safetensors.new1", "a/m.onnx", true),
            ("a/m_ctx.bin", "a/m.onnx", true),
            ("a/m_ctx-00002-of-00002.bin.new1", "a/m.onnx", true),
            ("a/m_ctx.onnx.data", "a/m.onnx", false),
            ("a/m.bin", "a/m.onnx", false),
            ("a/m.safetensors.index.json", "a/m.onnx", false),
            ("b/m.onnx.data", "a/m.onnx", false),
            ("a/m.data", "a/m.onnx", false),
            ("a/m.onnx_data", "a/m.onnx", false),
            ("a/m-1-of-5.onnx.data", "a/m.onnx", false),
            ("a/m-00001-of-0000x.onnx.data", "a/m.onnx", false),
            ("a/other.onnx.data", "a/m.onnx", false),
            ("a/m.onnx", "a/m.onnx", false),
        ] {
            assert_eq!(
                is_own(Path::new(name), Path::new(target)),
                expected,
                "{name}"
            );
        }
    }
}
