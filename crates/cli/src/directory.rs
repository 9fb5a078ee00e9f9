//! A SavedModel's folder, made anew with its message in another form. It appears complete or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;
use crate::input::{CHUNKED, PLAIN, with_extension};
use crate::types::SAVED_MODEL_STEM;

/// Makes the folder `to` of all that is in the folder `from`, but for its message: `fill` writes that to the prefix it is given.
pub(crate) fn rebuild<T>(
    from: &Path,
    to: &Path,
    force: bool,
    fill: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let to = check(from, to, force)?;
    let parent = parent(&to);
    let temporary = tempfile::Builder::new()
        .prefix(".protosplit-")
        .suffix(".tmp")
        .tempdir_in(parent);
    let temporary = temporary.map_err(|error| Failure::usage(error.to_string()))?;
    // What can fail for the data's sake goes first: copying may take long.
    let filled = fill(&temporary.path().join(SAVED_MODEL_STEM))?;
    let message_files =
        [CHUNKED, PLAIN].map(|extension| with_extension(&from.join(SAVED_MODEL_STEM), extension));
    copy_folder(from, temporary.path(), &message_files, &mut Vec::new())?;
    move_in(temporary, &to)?;
    Ok(filled)
}

/// Where the result may go: nowhere that would lose something.
fn check(from: &Path, to: &Path, force: bool) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| Err(Failure::usage(format!("{}: {why}", to.display())));
    let canonical = |path: &Path| fs::canonicalize(path).map_err(|error| Failure::io(path, &error));
    let source = canonical(from)?;
    let target = if fs::symlink_metadata(to).is_ok() {
        canonical(to)?
    } else {
        match to.file_name() {
            Some(name) => canonical(parent(to))?.join(name),
            None => return refuse("no name for a new folder"),
        }
    };
    if target.starts_with(&source) || source.starts_with(&target) {
        return refuse("the output must be a folder apart from the input");
    }
    let metadata = match fs::metadata(&target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
        Err(error) => return Err(Failure::io(to, &error)),
    };
    if !metadata.is_dir() {
        return refuse("there already, and no folder");
    }
    let is_empty = fs::read_dir(&target)
        .map_err(|error| Failure::io(to, &error))?
        .next()
        .is_none();
    let is_model = || {
        [CHUNKED, PLAIN]
            .iter()
            .any(|extension| with_extension(&target.join(SAVED_MODEL_STEM), extension).is_file())
    };
    match (is_empty, force) {
        (true, _) => Ok(target),
        (false, false) => refuse("there already, and not empty (--force replaces it)"),
        (false, true) if is_model() => Ok(target),
        (false, true) => refuse("not empty, and no SavedModel: even --force doesn't replace it"),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Copies what is in a folder, following links. `above` are the folders that this one is in.
fn copy_folder(
    from: &Path,
    to: &Path,
    except: &[PathBuf],
    above: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let io = |error| Failure::io(from, &error);
    let real = fs::canonicalize(from).map_err(io)?;
    if above.contains(&real) {
        return Err(Failure::usage(format!(
            "{}: a link to a folder that it is in",
            from.display()
        )));
    }
    above.push(real);
    for entry in fs::read_dir(from).map_err(io)? {
        let entry = entry.map_err(io)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if except.contains(&source) {
            continue;
        }
        let metadata = fs::metadata(&source).map_err(|error| Failure::io(&source, &error))?;
        if metadata.is_dir() {
            fs::create_dir(&target).map_err(|error| Failure::io(&target, &error))?;
            copy_folder(&source, &target, &[], above)?;
        } else if metadata.is_file() {
            copy_file(&source, &target).map_err(|error| Failure::io(&source, &error))?;
        } else {
            return Err(Failure::usage(format!(
                "{}: neither a file nor a folder",
                source.display()
            )));
        }
    }
    above.pop();
    // Only now: the folder may be one that nothing can be added to.
    let permissions = fs::metadata(from).map_err(io)?.permissions();
    fs::set_permissions(to, permissions).map_err(|error| Failure::io(to, &error))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    // Opened for reading: the copy may be one that can't be written to.
    File::open(to)?.sync_all()
}

/// Puts a finished folder in its place. What was there is put aside first and removed last.
fn move_in(temporary: TempDir, to: &Path) -> Result<(), Failure> {
    let io = |error| Failure::io(to, &error);
    let aside = match fs::symlink_metadata(to) {
        Ok(_) => {
            let aside = tempfile::Builder::new()
                .prefix(".protosplit-")
                .suffix(".old")
                .tempdir_in(parent(to));
            let aside = aside.map_err(io)?;
            fs::rename(to, aside.path().join("old")).map_err(io)?;
            Some(aside)
        }
        Err(_) => None,
    };
    if let Err(error) = fs::rename(temporary.path(), to) {
        if let Some(aside) = aside
            && let Err(lost) = fs::rename(aside.path().join("old"), to)
        {
            let kept = aside.keep();
            return Err(Failure::usage(format!(
                "{}: {lost}; what was there is in {}",
                to.display(),
                kept.display()
            )));
        }
        return Err(io(error));
    }
    // It is no longer where it would be looked for to be removed.
    let _ = temporary.keep();
    if let Some(aside) = aside {
        aside.close().map_err(io)?;
    }
    #[cfg(unix)]
    File::open(parent(to))
        .and_then(|folder| folder.sync_all())
        .map_err(io)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(folder: &Path) -> PathBuf {
        let model = folder.join("model");
        fs::create_dir_all(model.join("assets/deep")).unwrap();
        for file in [
            "saved_model.pb",
            "saved_model.cpb",
            "fingerprint.pb",
            "assets/deep/vocabulary.txt",
        ] {
            fs::write(model.join(file), file).unwrap();
        }
        model
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn fill(prefix: &Path) -> Result<(), Failure> {
        fs::write(with_extension(prefix, "cpb"), "new").unwrap();
        Ok(())
    }

    #[test]
    fn all_but_the_message_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (model(folder.path()), folder.path().join("out"));
        rebuild(&from, &to, false, fill).unwrap();
        assert_eq!(names(&to), ["assets", "fingerprint.pb", "saved_model.cpb"]);
        assert_eq!(
            fs::read_to_string(to.join("saved_model.cpb")).unwrap(),
            "new"
        );
        assert!(to.join("assets/deep/vocabulary.txt").is_file());
        assert_eq!(names(folder.path()), ["model", "out"]);
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (model(folder.path()), folder.path().join("out"));
        let failed = rebuild(&from, &to, false, |prefix| {
            fill(prefix)?;
            Err::<(), _>(Failure::bad("no"))
        });
        assert_eq!(failed.unwrap_err().message(), "no");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn force_replaces_a_saved_model_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (model(folder.path()), folder.path().join("out"));
        fs::create_dir(&to).unwrap();
        rebuild(&from, &to, false, fill).unwrap();
        let refused = rebuild(&from, &to, false, fill).unwrap_err();
        assert!(
            refused.message().ends_with("(--force replaces it)"),
            "{refused:?}"
        );
        fs::write(to.join("stale"), "").unwrap();
        rebuild(&from, &to, true, fill).unwrap();
        assert!(!to.join("stale").exists());

        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("thesis.tex"), "").unwrap();
        assert!(rebuild(&from, &home, true, fill).is_err());
        assert_eq!(names(&home), ["thesis.tex"]);
        assert_eq!(names(folder.path()), ["home", "model", "out"]);
    }

    #[test]
    fn input_and_output_must_not_lie_in_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let from = model(folder.path());
        for to in [from.clone(), from.join("sub"), folder.path().to_owned()] {
            let refused = rebuild(&from, &to, true, fill).unwrap_err();
            assert!(
                refused.message().ends_with("apart from the input"),
                "{refused:?}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_not_in_circles() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (model(folder.path()), folder.path().join("out"));
        symlink("deep/vocabulary.txt", from.join("assets/link")).unwrap();
        rebuild(&from, &to, false, fill).unwrap();
        assert!(
            fs::symlink_metadata(to.join("assets/link"))
                .unwrap()
                .is_file()
        );
        symlink("..", from.join("assets/up")).unwrap();
        let refused = rebuild(&from, &folder.path().join("other"), false, fill).unwrap_err();
        assert!(
            refused
                .message()
                .ends_with("a link to a folder that it is in"),
            "{refused:?}"
        );
        assert_eq!(names(folder.path()), ["model", "out"]);
    }
}
