//! Copying a SavedModel's folder without the model file.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::at_target;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::options::Copying;

/// Number of bytes to copy between two progress reports. The operating system copies the bytes, or
/// only shares their blocks if the file system supports that.
const STEP: u64 = 64 << 20;

/// A folder, and the permissions that it gets once it is in its final place.
pub(super) type Pending = (PathBuf, fs::Permissions);

/// Copies the content of the folder `from` to the folder `to`, except for the files in `except`.
/// Follows symbolic links. Returns the new subfolders that are to be read-only, relative to `to`.
/// Until then, they can be removed again.
pub(super) fn copy_folder(
    from: &Path,
    to: &Path,
    except: &[PathBuf],
    copying: &Copying,
) -> Result<Vec<Pending>> {
    let except = except.iter().map(PathBuf::as_path).collect();
    let mut visited = Visited::default();
    copy_within(from, to, &except, copying, &mut visited)?;
    let relative = |(folder, permissions): Pending| {
        let folder = folder.strip_prefix(to).unwrap_or(&folder).to_owned();
        (folder, permissions)
    };
    Ok(visited.pending.into_iter().map(relative).collect())
}

// `copy_within` copies the permissions of subfolders. It doesn't copy those of the top folder,
// since the caller may add more files there.

fn copy_within(
    from: &Path,
    to: &Path,
    except: &BTreeSet<&Path>,
    copying: &Copying,
    visited: &mut Visited,
) -> Result<()> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::from(error).in_file(&path)
    };
    let real = fs::canonicalize(from).map_err(at(from))?;
    if visited.above.contains(&real) {
        let message = format!("{}: a link to a folder that contains it", from.display());
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    visited.enter(real, from)?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if except.contains(source.as_path()) || is_temporary(&source) {
            continue;
        }
        let metadata = fs::metadata(&source).map_err(at(&source))?;
        if metadata.is_dir() {
            if has_only(&source, except).map_err(at(&source))? {
                continue;
            }
            // The target folder may already exist, with some of its content.
            fs::create_dir_all(&target).map_err(at(&target))?;
            copy_within(&source, &target, except, copying, visited)?;
            let permissions = metadata.permissions();
            let removable = removable(&permissions);
            fs::set_permissions(&target, removable.clone()).map_err(at(&target))?;
            if removable != permissions {
                visited.pending.push((target, permissions));
            }
        } else if metadata.is_file() {
            copy_file(&source, &target, copying).map_err(at(&source))?;
        } else {
            let message = format!("{}: neither a file nor a folder", source.display());
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    }
    visited.above.pop();
    Ok(())
}

/// Returns the permissions with those that a folder's owner needs to remove its content.
pub(super) fn removable(permissions: &fs::Permissions) -> fs::Permissions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::Permissions::from_mode(permissions.mode() | 0o700)
    }
    // On other systems, a folder's permissions don't protect its content.
    #[cfg(not(unix))]
    permissions.clone()
}

/// Lets the owner of a folder remove it with all its subfolders.
pub(super) fn make_removable(folder: &Path) -> io::Result<()> {
    let permissions = fs::symlink_metadata(folder)?.permissions();
    let removable = removable(&permissions);
    if removable != permissions {
        fs::set_permissions(folder, removable)?;
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Maximum number of times that a folder is copied. Symbolic links can lead to it more than once.
const MOST_COPIES: u32 = 16;

/// The folders that a recursive copy or check has entered.
#[derive(Default)]
struct Visited {
    /// Canonical paths of the current folder and the folders that contain it.
    above: Vec<PathBuf>,
    /// Number of visits to each folder, by canonical path.
    count: HashMap<PathBuf, u32>,
    /// New folders that aren't read-only yet.
    pending: Vec<Pending>,
}

impl Visited {
    /// Enters the folder at `from`, whose canonical path is `real`. Fails if the folder has been
    /// visited too often. Without this limit, a few links to folders with more links could fill the
    /// disk.
    fn enter(&mut self, real: PathBuf, from: &Path) -> Result<()> {
        let count = self.count.entry(real.clone()).or_default();
        *count += 1;
        if *count > MOST_COPIES {
            let message = format!(
                "{}: links lead to this folder more than {MOST_COPIES} times",
                from.display()
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        self.above.push(real);
        Ok(())
    }
}

/// Returns true if `folder` isn't empty, and every file in it, at any depth, is in `except`.
fn has_only(folder: &Path, except: &BTreeSet<&Path>) -> io::Result<bool> {
    // Paths sort by their names, so those in a folder follow the folder's own path.
    let mut rest = except.range::<Path, _>((Bound::Included(folder), Bound::Unbounded));
    if !rest.next().is_some_and(|file| file.starts_with(folder)) {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_left = !except.contains(path.as_path());
        if is_left && (!path.is_dir() || !has_only(&path, except)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Fails if replacing `target`, a canonical path, would remove a part of the input. This is the
/// case if `target` contains the folder `from`, or a file or folder to which symbolic links in
/// `from` lead.
pub(super) fn check_outside(from: &Path, target: &Path) -> Result<()> {
    check_outside_within(from, target, &mut Visited::default())
}

fn check_outside_within(from: &Path, target: &Path, visited: &mut Visited) -> Result<()> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::from(error).in_file(&path)
    };
    let real = fs::canonicalize(from).map_err(at(from))?;
    if real.starts_with(target) {
        let message = format!(
            "{}: is in {}, which would be replaced",
            from.display(),
            target.display()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    // This check accepts a folder that contains itself, since the copy fails for it anyway.
    if !real.is_dir() || visited.above.contains(&real) {
        return Ok(());
    }
    visited.enter(real, from)?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?.path();
        if !is_temporary(&entry) {
            check_outside_within(&entry, target, visited)?;
        }
    }
    visited.above.pop();
    Ok(())
}

/// Copies a file and its permissions, and syncs the copy to disk.
pub(super) fn copy_file(from: &Path, to: &Path, copying: &Copying) -> io::Result<()> {
    let source = File::open(from)?;
    let mut target = File::create_new(to)?;
    let metadata = source.metadata()?;
    let meter = copying.meter(metadata.len());
    let mut copied = 0;
    loop {
        let step = io::copy(&mut (&source).take(STEP), &mut target)
            .map_err(|error| io::Error::from(at_target(error.into(), to)))?;
        copied += step;
        copying.report(from, copied, metadata.len().max(copied));
        meter.advance(step)?;
        if step < STEP {
            break;
        }
    }
    target.set_permissions(metadata.permissions())?;
    target.sync_all()
}

/// Returns true if a path has the name of a temporary file, which an unfinished write leaves
/// behind.
pub(super) fn is_temporary(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with(".protosplit-") && name.ends_with(".tmp")
}
