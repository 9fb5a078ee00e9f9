//! Inputs and outputs in object stores, by their URLs.
//!
//! A `.cpb` file that is only read from is read where it is; so is a message that is split, and one
//! that a value or a tensor is read from. The file that a split or a merge writes goes to the store as
//! it is written. Work in parts reads and writes objects alone. What else is named by a URL is copied:
//! inputs to a temporary folder before the command runs, outputs from there once it is done.

mod arguments;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use proto_splitter::container::{CHUNKED_EXTENSION, ChunkedFile, PLAIN_EXTENSION, with_extension};
use proto_splitter::formats::ALL;
use proto_splitter::merge::Limits;
use proto_splitter::parts::{DEFAULT_MAX_PLAN_SIZE, Objects};
use proto_splitter::record_file::{ReadAt, is_record_file};
use proto_splitter::{OpenOptions, Opened};
use proto_splitter_object_store::{
    Folder, ObjectLocation, ObjectParts, ObjectReadOptions, ObjectReader, ObjectWriteOptions,
    ObjectWriter, open_chunked,
};
use tempfile::TempDir;

use crate::args::Command;
use crate::display_name::name_staged;
use crate::failure::Failure;
use crate::output::Output;
use arguments::{Arguments, InPlace, arguments};

/// What is open already, by its URL: opening takes a request, and commands look several times.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Arc<ObjectReader>>>> = LazyLock::new(Mutex::default);

/// The arguments of a command that name what it reads.
pub(crate) fn inputs(command: &mut Command) -> Vec<&mut PathBuf> {
    arguments(command).inputs
}

/// Whether an argument is the URL of an object.
pub(crate) fn is_url(named: &Path) -> bool {
    named.to_str().is_some_and(ObjectLocation::is_url)
}

fn location(named: &Path) -> Result<ObjectLocation, Failure> {
    let text = named.to_str().unwrap_or_default();
    ObjectLocation::parse(text).map_err(|error| Failure::usage(error.to_string()))
}

fn opened(named: &Path) -> io::Result<Arc<ObjectReader>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reader) = open.get(named) {
        return Ok(Arc::clone(reader));
    }
    let location = ObjectLocation::parse(named.to_str().unwrap_or_default())?;
    let reader = Arc::new(ObjectReader::open(&location, &ObjectReadOptions::new())?);
    open.insert(named.to_owned(), Arc::clone(&reader));
    Ok(reader)
}

/// A message in chunks in a store, which is read where it is.
pub(crate) fn chunked(
    named: &Path,
    limits: &Limits,
) -> Result<ChunkedFile<Arc<dyn ReadAt>>, Failure> {
    let reader = opened(named).map_err(|error| Failure::usage(error.to_string()))?;
    let file = open_chunked(reader, limits, &ObjectReadOptions::new());
    file.map_err(|error| Failure::of(named, &error))
}

/// Whether an object is a file in chunks.
pub(crate) fn is_chunked(named: &Path) -> Result<bool, Failure> {
    let reader = opened(named).map_err(|error| Failure::usage(error.to_string()))?;
    is_record_file(&*reader).map_err(|error| Failure::of(named, &error.into()))
}

/// An input of any format that is read where it is.
pub(crate) fn open(named: &Path, options: &OpenOptions) -> Result<Opened, Failure> {
    if is_chunked(named)? {
        let opened = ALL.open_chunks(chunked(named, &options.limits)?, options);
        return opened.map_err(|error| Failure::of(named, &error));
    }
    match ALL.open_source(source(named)?, named, options) {
        Ok(Some(opened)) => Ok(opened),
        // Those were copied before.
        Ok(None) => {
            let name = named.display();
            let message = "what is of this format is read from files alone";
            Err(Failure::usage(format!("{name}: {message}")))
        }
        Err(error) => Err(Failure::of(named, &error)),
    }
}

/// Whether an object that is not in chunks is read where it is by its format. What is wrong with it
/// is said when it is opened.
fn is_opened_there(named: &Path, reader: &Arc<ObjectReader>) -> bool {
    let reader = Arc::clone(reader) as Arc<dyn ReadAt>;
    let opened = ALL.open_source(reader, named, &OpenOptions::new());
    !matches!(opened, Ok(None))
}

/// An object, which is read where it is.
pub(crate) fn source(named: &Path) -> Result<Arc<dyn ReadAt>, Failure> {
    let reader = opened(named).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(reader)
}

/// The stores of all URLs, for work in parts.
pub(crate) fn stores() -> Option<Arc<dyn Objects>> {
    Some(Arc::new(ObjectParts::new()))
}

/// All of an object that isn't larger than a plan or a report; none if it isn't there.
pub(crate) fn read_small(named: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let location = location(named)?;
    let read = || -> io::Result<Vec<u8>> {
        let reader = ObjectReader::open(&location, &ObjectReadOptions::new())?;
        let size = reader.size()?;
        let size = usize::try_from(size).ok();
        let Some(size) = size.filter(|&size| size as u64 <= DEFAULT_MAX_PLAN_SIZE) else {
            let message =
                format!("{location}: an object of more than {DEFAULT_MAX_PLAN_SIZE} bytes");
            return Err(io::Error::other(message));
        };
        let mut bytes = vec![0; size];
        reader.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

/// Writes a small object, in place of one that is there.
pub(crate) fn write_small(named: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut target = Target::create(named, true, bytes.len() as u64)?;
    let written = target.write_all(bytes);
    written.map_err(|error| refused(&error))?;
    target.finish()
}

/// An object that is written from front to end.
#[derive(Debug)]
pub(crate) struct Target {
    writer: ObjectWriter,
}

impl Target {
    /// Begins to write an object, of about this many bytes.
    pub(crate) fn create(named: &Path, force: bool, expected: u64) -> Result<Target, Failure> {
        let options = ObjectWriteOptions::new()
            .force(force)
            .expected_size(expected);
        let writer = ObjectWriter::create(&location(named)?, &options);
        let writer = writer.map_err(|error| refused(&error))?;
        Ok(Target { writer })
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = self.writer.finish();
        finished.map(drop).map_err(|error| refused(&error))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn refused(error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::AlreadyExists => " (--force replaces it)",
        _ => "",
    };
    Failure::usage(format!("{error}{hint}"))
}

/// What was copied for a command, and what will be copied after it.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    folders: Vec<TempDir>,
    outputs: Vec<StagedOutput>,
    force: bool,
}

#[derive(Debug)]
struct StagedOutput {
    /// The folder of its own that it is in.
    folder: PathBuf,
    /// What the command writes there.
    path: PathBuf,
    location: ObjectLocation,
}

/// Copies what a command can't read where it is, and has it write to a folder what it can't write
/// to a store as it goes.
pub(crate) fn stage(command: &mut Command, output: &mut Output<'_>) -> Result<Staged, Failure> {
    let mut staged = Staged::default();
    let Arguments {
        inputs, in_place, ..
    } = arguments(command);
    for input in inputs {
        if is_url(input) {
            *input = staged.input(input, in_place, output)?;
        }
    }
    // What the inputs are decides what is written as it goes.
    let Arguments { outputs, force, .. } = arguments(command);
    staged.force = force;
    for named in outputs {
        *named = staged.output(named)?;
        output.hold();
    }
    Ok(staged)
}

impl Staged {
    /// The URL of an object that is read where it is, or else the path of a copy.
    fn input(
        &mut self,
        named: &Path,
        in_place: InPlace,
        output: &mut Output<'_>,
    ) -> Result<PathBuf, Failure> {
        let failed = |error: io::Error| Failure::usage(error.to_string());
        let mut tried = vec![named.to_owned()];
        tried.extend(
            [CHUNKED_EXTENSION, PLAIN_EXTENSION].map(|extension| with_extension(named, extension)),
        );
        for named in &tried {
            let reader = match opened(named) {
                Ok(reader) => reader,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            let is_chunked = is_record_file(&*reader);
            let is_chunked = is_chunked.map_err(|error| Failure::of(named, &error.into()))?;
            let is_read_there = match in_place {
                InPlace::Nothing => false,
                InPlace::Chunked => is_chunked,
                InPlace::Opened => is_chunked || is_opened_there(named, &reader),
                InPlace::Message => true,
            };
            if is_read_there {
                return Ok(named.clone());
            }
            let location = location(named)?;
            let folder = self.folder(&location.beside("").to_string())?;
            let path = folder.join(location.file_name());
            let progress = output.writing("copying");
            let copied = Folder::download_one(&location, &path, &progress);
            copied.map_err(|error| Failure::of(named, &error))?;
            if is_chunked {
                self.parts(named, &path, output)?;
            }
            return Ok(path);
        }
        let location = location(named)?;
        let folder = self.folder(&location.to_string())?;
        let progress = output.writing("copying");
        let items = Folder::new(&location).download(&folder, &progress);
        let items = items.map_err(|error| Failure::of(named, &error))?;
        if items.is_empty() {
            Err(Failure::usage(format!("{location}: no such object")))
        } else {
            Ok(folder)
        }
    }

    /// Copies the other files that have chunks of one.
    fn parts(&self, named: &Path, copy: &Path, output: &Output<'_>) -> Result<(), Failure> {
        let Ok(file) = chunked(named, &Limits::new()) else {
            // Whoever reads the copy says what is wrong with it.
            return Ok(());
        };
        let main = location(named)?;
        for part in &file.trailer().metadata().files {
            let failed = |error| Failure::of(named, &error);
            let location = proto_splitter_object_store::beside(&main, &part.path);
            let location = location.map_err(failed)?;
            let path = copy.with_file_name(&part.path);
            let progress = output.writing("copying");
            Folder::download_one(&location, &path, &progress).map_err(failed)?;
        }
        Ok(())
    }

    fn output(&mut self, named: &Path) -> Result<PathBuf, Failure> {
        let location = location(named)?;
        if location.is_read_only() {
            return Err(Failure::usage(format!(
                "{location}: a web server is only read from"
            )));
        }
        let folder = self.folder(&location.beside("").to_string())?;
        let path = folder.join(location.file_name());
        self.outputs.push(StagedOutput {
            folder,
            path: path.clone(),
            location,
        });
        Ok(path)
    }

    /// A temporary folder that is called by the URL of what it stands for.
    fn folder(&mut self, called: &str) -> Result<PathBuf, Failure> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| Failure::io(&std::env::temp_dir(), &error))?;
        let path = folder.path().to_owned();
        name_staged(&path.display().to_string(), called.trim_end_matches('/'));
        self.folders.push(folder);
        Ok(path)
    }

    /// Copies what the command has written to where it belongs, and says then what it reported.
    pub(crate) fn finish(self, output: &mut Output<'_>) -> Result<(), Failure> {
        let options = ObjectWriteOptions::new().force(self.force);
        for staged in &self.outputs {
            let progress = output.writing("copying");
            // Readers look at the file of this name, and what it needs is there by then.
            let is_last = |name: &str| {
                Path::new(name).file_stem() == staged.path.file_stem()
                    || name.ends_with("saved_model.pb")
                    || name.ends_with("saved_model.cpb")
            };
            let (from, to) = if staged.path.is_dir() {
                (&staged.path, staged.location.clone())
            } else {
                (&staged.folder, staged.location.folder())
            };
            let copied = Folder::new(&to).upload(from, is_last, &options, &progress);
            copied.map_err(|error| Failure::of(from, &error))?;
        }
        output.release()
    }
}
