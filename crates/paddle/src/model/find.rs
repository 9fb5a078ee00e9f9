//! Finding all files of a model from the name of any of them.
//!
//! | name | program | parameters |
//! | --- | --- | --- |
//! | `NAME.pdmodel`, `NAME.json`, `NAME.pdiparams`, `NAME.pdiparams.info`, `NAME` | `NAME.pdmodel` or `NAME.json` | `NAME.pdiparams` |
//! | `__model__`, `__params__` | `__model__` | `__params__`, or one file per parameter |
//! | a folder | the one program in it | as above |

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, ErrorKind, Result};

use crate::part::FilePart;
use crate::program::{ParameterSpec, pir_parameters};

/// Name of a model's program in older Paddle releases.
pub(crate) const OLD_PROGRAM: &str = "__model__";

/// Name of the file that contains all parameters, if the program is called [`OLD_PROGRAM`].
pub(crate) const OLD_PARAMETERS: &str = "__params__";

/// The paths of a model's files, as found by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Path of the program, which is a `ProgramDesc` or JSON; `None` if there are only parameters.
    pub(super) program: Option<PathBuf>,
    /// Path of the file that contains all parameters; `None` if each parameter has a separate file.
    pub(super) parameters: Option<PathBuf>,
}

/// Finds the files of a model, given the path of one file, the path of the folder, or the files'
/// common prefix.
pub(super) fn find(path: &Path) -> Result<Found> {
    if path.is_dir() {
        return in_folder(path);
    }
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| folder.join(name);
    let there = |path: PathBuf| path.is_file().then_some(path);
    let program_of = |stem: &str| {
        let names = [".pdmodel", ".json"].map(|end| beside(&format!("{stem}{end}")));
        names.into_iter().find(|path| path.is_file())
    };
    for end in [".pdmodel", ".json"] {
        if let Some(stem) = name.strip_suffix(end) {
            return Ok(Found {
                program: Some(path.to_owned()),
                parameters: there(beside(&format!("{stem}.pdiparams"))),
            });
        }
    }
    let parameters = name.strip_suffix(".info").unwrap_or(name);
    if let Some(stem) = parameters.strip_suffix(".pdiparams") {
        return Ok(Found {
            program: program_of(stem),
            parameters: Some(beside(parameters)),
        });
    }
    match name {
        OLD_PROGRAM => Ok(Found {
            program: Some(path.to_owned()),
            parameters: there(beside(OLD_PARAMETERS)),
        }),
        OLD_PARAMETERS => Ok(Found {
            program: there(beside(OLD_PROGRAM)),
            parameters: Some(path.to_owned()),
        }),
        // Any other file is a parameter file. If it is a pickle, opening it fails later.
        _ if path.is_file() => Ok(Found {
            program: None,
            parameters: Some(path.to_owned()),
        }),
        _ => match program_of(name) {
            Some(program) => find(&program),
            None => {
                let message = "no such file, and no .pdmodel or .json with this prefix";
                Err(Error::new(ErrorKind::Io, message).in_file(path))
            }
        },
    }
}

/// Finds the model in a folder. Fails unless the folder has exactly one program.
fn in_folder(folder: &Path) -> Result<Found> {
    let failed = |error: std::io::Error| Error::from(error).in_file(folder);
    let (mut descs, mut json) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.extension().and_then(|end| end.to_str()) {
            Some("pdmodel") => descs.push(path),
            Some("json") if is_json_program(&path) => json.push(path),
            _ => {}
        }
    }
    let old = folder.join(OLD_PROGRAM);
    if old.is_file() {
        descs.push(old);
    }
    let programs = [descs, json].concat();
    match programs.as_slice() {
        [program] => find(program),
        [] => {
            let message =
                "the folder has no .pdmodel, no __model__, and no .json with a .pdiparams";
            Err(Error::new(ErrorKind::InvalidConfig, message).in_file(folder))
        }
        many => {
            let mut names: Vec<_> = many
                .iter()
                .filter_map(|path| Some(path.file_name()?.to_string_lossy()))
                .collect();
            names.sort();
            let message = format!("several programs: name one of {}", names.join(", "));
            Err(Error::new(ErrorKind::InvalidConfig, message).in_file(folder))
        }
    }
}

/// Returns true if a JSON file counts as a program. This requires a `.pdiparams`, and no
/// `.pdmodel`, with the same prefix, since a model's folder may also contain unrelated JSON files.
fn is_json_program(path: &Path) -> bool {
    let there = |end: &str| path.with_extension(end).is_file();
    there("pdiparams") && !there("pdmodel")
}

/// Returns the paths of files in `folder` that readers would take for files of the model whose
/// program has this name, if the files exist.
pub(crate) fn rivals(folder: &Path, program: &str) -> Vec<PathBuf> {
    let of = |stem: &str, end: &str| PathBuf::from(format!("{stem}{end}"));
    if program == OLD_PROGRAM {
        return vec![of(OLD_PARAMETERS, ""), of(OLD_PARAMETERS, ".info")];
    }
    let (stem, other) = match program.rsplit_once('.') {
        Some((stem, "pdmodel")) => (stem, ".json"),
        Some((stem, "json")) => (stem, ".pdmodel"),
        _ => return Vec::new(),
    };
    let mut names = vec![of(stem, ".pdiparams"), of(stem, ".pdiparams.info")];
    let other = of(stem, other);
    // A `.json` file is only included if it is a program, since any program may have unrelated JSON
    // files next to it.
    if other.extension().is_some_and(|end| end == "pdmodel") || is_pir(&folder.join(&other)) {
        names.push(other);
    }
    names
}

/// Returns true if a file is a JSON program of Paddle 3.x.
fn is_pir(path: &Path) -> bool {
    FilePart::open(path).is_ok_and(|part| pir_parameters(&part).is_ok())
}

/// Returns the path below `folder` of the separate file for the parameter `name`. Fails if the name
/// leads outside of the folder.
pub(crate) fn separate_path(folder: &Path, name: &str) -> Result<PathBuf> {
    let outside = || {
        let message =
            format!("the name {name:?} can't be a file name: it would lead outside its folder");
        Error::new(ErrorKind::InvalidPath, message)
    };
    // Backslashes and drives in a name could lead outside of the folder on Windows.
    if name.contains(['\\', '\0']) || cfg!(windows) && name.contains(':') {
        return Err(outside());
    }
    let mut steps = name.split('/');
    if steps.any(|step| matches!(step, "" | "." | "..")) {
        return Err(outside());
    }
    Ok(folder.join(name))
}

/// Returns true if there is a file with parameters of the program at `program`: the file of all
/// parameters, or a separate file for any parameter in `specs`.
pub(crate) fn has_parameters(program: &Path, specs: &[ParameterSpec]) -> bool {
    let combined = find(program).ok().and_then(|found| found.parameters);
    // For a program with an unusual name, `find` returns the program itself as the file of
    // parameters.
    if combined.is_some_and(|file| file != program) {
        return true;
    }
    let folder = program.parent().unwrap_or(Path::new(""));
    let mut paths = specs.iter().map(|spec| separate_path(folder, spec.name()));
    paths.any(|path| path.is_ok_and(|path| path.is_file()))
}

/// Fails if `path`, which is below `folder`, leads outside of it through a symbolic link.
pub(super) fn check_inside(folder: &Path, path: &Path) -> Result<()> {
    let real =
        |path: &Path| fs::canonicalize(path).map_err(|error| Error::from(error).in_file(path));
    let folder = if folder == Path::new("") {
        Path::new(".")
    } else {
        folder
    };
    if real(path)?.starts_with(real(folder)?) {
        Ok(())
    } else {
        let message = "the file of a variable is outside the model's folder";
        Err(Error::new(ErrorKind::InvalidPath, message).in_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_below_its_folder_or_refused() {
        let folder = Path::new("model");
        assert_eq!(
            separate_path(folder, "a/b").unwrap(),
            Path::new("model/a/b")
        );
        assert_eq!(
            separate_path(folder, "fc_0.w_0").unwrap(),
            Path::new("model/fc_0.w_0")
        );
        for name in [
            "",
            "..",
            "../x",
            "a/../../x",
            "/etc/x",
            "a//b",
            "./a",
            "a/",
            "a\\..\\b",
            "a\0",
        ] {
            let error = separate_path(folder, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidPath, "{name:?}");
        }
    }
}
