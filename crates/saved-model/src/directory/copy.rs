//! Copies of what is in a folder besides the model.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, ErrorKind, Result};

use super::save::Progress;

/// How much of a file is copied between two reports of progress. The operating system does it, and
/// where the file system can share blocks between files, nothing is copied at all.
const STEP: u64 = 64 << 20;

/// Copies what is in the folder `from` to the folder `to`, links followed, but for the files
/// `except`.
pub(super) fn copy_folder(
    from: &Path,
    to: &Path,
    except: &[PathBuf],
    progress: &Progress,
) -> Result<()> {
    copy_within(from, to, except, progress, &mut Vec::new())
}

// Not with the permissions of the folder itself, which the caller may have more to put in.

fn copy_within(
    from: &Path,
    to: &Path,
    except: &[PathBuf],
    progress: &Progress,
    above: &mut Vec<PathBuf>,
) -> Result<()> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::from(error).context(path.display())
    };
    let real = fs::canonicalize(from).map_err(at(from))?;
    if above.contains(&real) {
        let message = format!("{}: a link to a folder that it is in", from.display());
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    above.push(real);
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if except.contains(&source) || is_temporary(&source) {
            continue;
        }
        let metadata = fs::metadata(&source).map_err(at(&source))?;
        if metadata.is_dir() {
            fs::create_dir(&target).map_err(at(&target))?;
            copy_within(&source, &target, &[], progress, above)?;
            fs::set_permissions(&target, metadata.permissions()).map_err(at(&target))?;
        } else if metadata.is_file() {
            copy_file(&source, &target, progress).map_err(at(&source))?;
        } else {
            let message = format!("{}: neither a file nor a folder", source.display());
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    }
    above.pop();
    Ok(())
}

/// Fails if anything in the folder `from`, links followed, lies in the folder `target`, a canonical
/// path: replacing that would remove what is read.
pub(super) fn check_outside(from: &Path, target: &Path) -> Result<()> {
    check_outside_within(from, target, &mut Vec::new())
}

fn check_outside_within(from: &Path, target: &Path, above: &mut Vec<PathBuf>) -> Result<()> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::from(error).context(path.display())
    };
    let real = fs::canonicalize(from).map_err(at(from))?;
    if real.starts_with(target) {
        let message = format!(
            "{}: lies in {}, which would be replaced",
            from.display(),
            target.display()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    // A folder that is in itself is for the copy to refuse.
    if !real.is_dir() || above.contains(&real) {
        return Ok(());
    }
    above.push(real);
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?.path();
        if !is_temporary(&entry) {
            check_outside_within(&entry, target, above)?;
        }
    }
    above.pop();
    Ok(())
}

/// Copies a file with its permissions, and brings it to the disk.
pub(super) fn copy_file(from: &Path, to: &Path, progress: &Progress) -> io::Result<()> {
    let source = File::open(from)?;
    let mut target = File::create_new(to)?;
    let metadata = source.metadata()?;
    let mut copied = 0;
    loop {
        let step = io::copy(&mut (&source).take(STEP), &mut target)?;
        copied += step;
        progress.report(from, copied, metadata.len().max(copied))?;
        if step < STEP {
            break;
        }
    }
    target.set_permissions(metadata.permissions())?;
    target.sync_all()
}

/// Whether a file is one that was never finished.
pub(super) fn is_temporary(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with(".protosplit-") && name.ends_with(".tmp")
}
