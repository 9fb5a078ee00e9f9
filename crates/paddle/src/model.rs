//! Models, each of which consists of a program and its parameter files.

mod append;
mod find;
mod index;
mod message;
mod read;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::spans::first_bytes;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

pub use append::{Appended, append_to_model};
pub(crate) use find::{OLD_PARAMETERS, OLD_PROGRAM, has_parameters, rivals, separate_path};
pub use message::MODEL;
pub(crate) use message::{field, is_of_model};

use self::find::{Found, check_inside, find};
use self::index::Index;
use crate::parameters::{Parameter, ParameterFile};
use crate::part::FilePart;
use crate::program::{
    PaddleVariable, ParameterSpec, Stored, looks_like_json, parameters, pir_parameters, variables,
};
use crate::stream::Layout;

/// Options for opening a model.
#[derive(Clone, Debug, Default)]
pub struct PaddleOpenOptions {
    program: Option<PathBuf>,
    parameters: Option<PathBuf>,
    layout: Option<Layout>,
}

impl PaddleOpenOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        PaddleOpenOptions {
            program: None,
            parameters: None,
            layout: None,
        }
    }

    /// Sets the path of the program. Default: the file with a matching name next to the parameters.
    /// With this option, the path passed to [`PaddleModel::open_with`] may be a folder that
    /// contains only parameters: one file per parameter, `__params__`, or a `.pdiparams` named like
    /// the program.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Sets the path of the file that contains all parameters. Default: the file with a matching
    /// name next to the program.
    #[must_use]
    pub fn parameters(mut self, path: impl Into<PathBuf>) -> Self {
        self.parameters = Some(path.into());
        self
    }

    /// Sets the layout of the parameters' streams. Default: the layout in which the whole parameter
    /// file is valid.
    #[must_use]
    pub const fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Returns the path of the program, if it was set.
    pub fn get_program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Returns the path of the file that contains all parameters, if it was set.
    pub fn get_parameters(&self) -> Option<&Path> {
        self.parameters.as_deref()
    }

    /// Returns the layout of the parameters' streams, if it was set.
    pub const fn get_layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Finds the files of the model to which `path` belongs. Paths that were set in these options
    /// take precedence.
    fn find(&self, path: &Path) -> Result<Found> {
        match (&self.program, &self.parameters) {
            (Some(program), Some(parameters)) => Ok(Found {
                program: Some(program.clone()),
                parameters: Some(parameters.clone()),
            }),
            (Some(program), None) if path.is_dir() => {
                let usual = program.with_extension("pdiparams");
                let names = [usual.file_name(), Some(OLD_PARAMETERS.as_ref())];
                let files = names.into_iter().flatten().map(|name| path.join(name));
                Ok(Found {
                    program: Some(program.clone()),
                    parameters: files.into_iter().find(|file| file.is_file()),
                })
            }
            (program, parameters) => {
                let found = find(path)?;
                Ok(Found {
                    program: program.clone().or(found.program),
                    parameters: parameters.clone().or(found.parameters),
                })
            }
        }
    }
}

/// The kind of a model's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramKind {
    /// A serialized `ProgramDesc`.
    Desc,
    /// A JSON program, written by Paddle 3.x. It has no `ProgramDesc`, so only its parameters are
    /// listed.
    Pir,
}

/// An open model. Only the headers of its parameters have been read.
#[derive(Debug)]
pub struct PaddleModel {
    program: Option<(ProgramKind, FilePart)>,
    variables: Vec<PaddleVariable>,
    files: Vec<ParameterFile>,
    index: Index,
    companions: Vec<FilePart>,
}

impl PaddleModel {
    /// Opens a model by the path of its folder, its program or its parameter file, or by the prefix
    /// that these files share.
    ///
    /// # Errors
    ///
    /// The errors of [`variables`] and [`ParameterFile::open`]; [`ErrorKind::InvalidConfig`] if a
    /// folder has no program, or several; [`ErrorKind::InvalidPath`] if each parameter has a
    /// separate file, and the name of a parameter leads outside of the folder; [`ErrorKind::Io`] if
    /// a file doesn't exist or can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<PaddleModel> {
        PaddleModel::open_with(path, &PaddleOpenOptions::new())
    }

    /// Does the same as [`open`](Self::open), with the given options.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &PaddleOpenOptions) -> Result<PaddleModel> {
        let path = path.as_ref();
        let found = options.find(path)?;
        let named_program = options.program.is_some();
        let folder = Some(path).filter(|path| named_program && path.is_dir());
        let program = found.program.as_deref().map(open_program).transpose()?;
        let Some(OpenProgram {
            kind,
            part,
            mut variables,
            specs,
        }) = program
        else {
            let files = found
                .parameters
                .map(|path| ParameterFile::open(path, None, options.layout));
            let files: Vec<ParameterFile> = files.transpose()?.into_iter().collect();
            return Ok(PaddleModel {
                program: None,
                variables: Vec::new(),
                index: Index::of(&files),
                files,
                companions: Vec::new(),
            });
        };
        let files = match &found.parameters {
            Some(path) => vec![ParameterFile::open(path, Some(&specs), options.layout)?],
            None => {
                let beside = part.path().parent().unwrap_or(Path::new(""));
                open_separate(
                    part.path(),
                    folder.unwrap_or(beside),
                    &specs,
                    options.layout,
                )?
            }
        };
        let companions = found.parameters.as_deref().map(companions).transpose()?;
        locate(&mut variables, &files);
        Ok(PaddleModel {
            program: Some((kind, part)),
            variables,
            index: Index::of(&files),
            files,
            companions: companions.unwrap_or_default(),
        })
    }

    /// Returns the kind of the model's program; `None` if there are only parameters.
    #[must_use]
    pub fn program_kind(&self) -> Option<ProgramKind> {
        self.program.as_ref().map(|(kind, _)| *kind)
    }

    /// Returns the path of the model's program; `None` if there are only parameters.
    #[must_use]
    pub fn program_path(&self) -> Option<&Path> {
        self.program.as_ref().map(|(_, part)| part.path())
    }

    /// Returns the bytes of the model's program; `None` if there are only parameters.
    #[must_use]
    pub fn program_bytes(&self) -> Option<&(dyn ReadAt + 'static)> {
        let (_, part) = self.program.as_ref()?;
        Some(part)
    }

    /// Returns all variables of the program's `ProgramDesc`, block by block. Empty if there is no
    /// program, or the program is in JSON.
    #[must_use]
    pub fn variables(&self) -> &[PaddleVariable] {
        &self.variables
    }

    /// Returns the model's parameter files: a single file with all parameters, or one file for each
    /// parameter.
    #[must_use]
    pub fn files(&self) -> &[ParameterFile] {
        &self.files
    }

    /// Returns all parameters, each with the file that contains it.
    pub fn parameters(&self) -> impl Iterator<Item = (&ParameterFile, &Parameter)> {
        let files = self.files.iter();
        files.flat_map(|file| {
            file.parameters()
                .iter()
                .inspect(|_| count_step())
                .map(move |parameter| (file, parameter))
        })
    }

    /// Returns the parameter with this name, and the file that contains it.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<(&ParameterFile, &Parameter)> {
        let file = self.files.get(self.index.file_of(name)?)?;
        Some((file, file.parameter(name)?))
    }

    /// Returns the parameter with this counter, and the file that contains it. The counter is the
    /// parameter's index, starting at 0, in the order of [`parameters`](Self::parameters).
    #[must_use]
    pub fn parameter_at(&self, counter: usize) -> Option<(&ParameterFile, &Parameter)> {
        let (file, within) = self.index.place(counter)?;
        let file = self.files.get(file)?;
        Some((file, file.parameters().get(within)?))
    }

    /// Checks each parameter file with [`ParameterFile::verify`]. Also fails if any file of the
    /// model has changed since it was opened.
    ///
    /// # Errors
    ///
    /// The errors of [`ParameterFile::verify`]; [`ErrorKind::SourceChanged`] if a file has changed.
    pub fn verify(&self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(ParameterFile::check_content)?;
        self.check_unchanged()
    }

    /// Fails if a file has changed since it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.all_parts().try_for_each(FilePart::check_unchanged)
    }

    /// Returns the open files to check for changes. If each parameter has a separate file, returns
    /// only the first of these files, whose check also covers the others.
    fn all_parts(&self) -> impl Iterator<Item = &FilePart> {
        let program = self.program.iter().map(|(_, part)| part);
        let one_of_separate =
            usize::from(self.files.first().is_some_and(ParameterFile::is_separate));
        let files = match one_of_separate {
            0 => self.files.as_slice(),
            _ => &self.files[..1],
        };
        let files = files.iter().map(ParameterFile::part);
        program.chain(files).chain(&self.companions)
    }
}

/// Counts a step of [`PaddleModel::parameters`] in tests. A lookup must not walk all parameters.
fn count_step() {
    #[cfg(test)]
    tests::STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// Adds the location of each parameter's value to the variable that declares the parameter.
fn locate(variables: &mut [PaddleVariable], files: &[ParameterFile]) {
    let mut places = HashMap::new();
    for file in files {
        let path: Arc<Path> = file.path().into();
        for parameter in file.parameters() {
            let stored = || Stored::new(&path, parameter.stream().data());
            places.extend(parameter.name().map(|name| (name, stored())));
        }
    }
    for variable in variables.iter_mut().filter(|of| of.is_parameter()) {
        variable.stored = places.remove(variable.name.as_str());
    }
}

struct OpenProgram {
    kind: ProgramKind,
    part: FilePart,
    variables: Vec<PaddleVariable>,
    specs: Vec<ParameterSpec>,
}

fn open_program(path: &Path) -> Result<OpenProgram> {
    let part = FilePart::open(path)?;
    let read = || -> Result<_> {
        let is_json = path.extension().is_some_and(|end| end == "json");
        if is_json && looks_like_json(&first_bytes(&part, 16)?) {
            return Ok((ProgramKind::Pir, Vec::new(), pir_parameters(&part)?));
        }
        let variables = variables(&part)?;
        let specs = parameters(&variables)?;
        Ok((ProgramKind::Desc, variables, specs))
    };
    let (kind, variables, specs) = read().map_err(|error| error.in_file(path))?;
    Ok(OpenProgram {
        kind,
        part,
        variables,
        specs,
    })
}

/// Opens the parameter files of a program, one per parameter, in the folder `folder`.
fn open_separate(
    program: &Path,
    folder: &Path,
    specs: &[ParameterSpec],
    layout: Option<Layout>,
) -> Result<Vec<ParameterFile>> {
    let path = |spec: &ParameterSpec| {
        let path = separate_path(folder, spec.name())?;
        if !path.is_file() {
            let message = format!(
                "parameter {:?} is in no file: neither in a file of all parameters, nor in {}",
                spec.name(),
                path.display()
            );
            return Err(Error::new(ErrorKind::Io, message));
        }
        check_inside(folder, &path)?;
        Ok(path)
    };
    let path = |spec: &ParameterSpec| path(spec).map_err(|error| spec.located(error));
    let paths = specs.iter().map(path).collect::<Result<Vec<_>>>();
    let paths = paths.map_err(|error| error.in_file(program))?;
    let parts = FilePart::open_all(paths)?.into_iter().zip(specs);
    parts
        .map(|(part, spec)| ParameterFile::separate(part, spec, layout))
        .collect()
}

/// Opens the `.info` file next to a parameter file, if it exists. It belongs to the model, but
/// isn't parsed.
fn companions(parameters: &Path) -> Result<Vec<FilePart>> {
    let mut info = parameters.as_os_str().to_owned();
    info.push(".info");
    let info = PathBuf::from(info);
    if info.is_file() {
        Ok(vec![FilePart::open(&info)?])
    } else {
        Ok(Vec::new())
    }
}
