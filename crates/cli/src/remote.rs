//! Inputs and outputs in object stores, given by URL.
//!
//! Some inputs are read directly from the store: a `.cpb` file that is only read, a message to
//! split, and a message from which a value or tensor is extracted. A split or merge to a single
//! file writes that file directly to the store. Work in parts reads and writes all objects
//! directly. In all other cases, inputs are copied to a temporary folder before the command runs,
//! and outputs are copied to the store afterwards.

mod arguments;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::container::{
    CHUNKED_EXTENSION, ChunkedFile, PLAIN_EXTENSION, prefix_of, with_extension,
};
use proto_splitter::directory::MODEL_STEM;
use proto_splitter::formats::{ALL, Candidate};
use proto_splitter::merge::Limits;
use proto_splitter::parts::Objects;
use proto_splitter::record_file::{ReadAt, is_record_file};
use proto_splitter::{ErrorKind, OpenOptions};
use proto_splitter_object_store::{
    Folder, ObjectLocation, ObjectParts, ObjectReader, ObjectWriteOptions, ObjectWriter, SCHEMES,
    beside, redact,
};
use tempfile::TempDir;

use crate::args::Command;
use crate::display_name::{rename, shown};
use crate::failure::Failure;
use crate::open_objects::{OpenObjects, open};
use crate::output::Output;
use arguments::{Arguments, InPlace, arguments};

/// Returns the arguments that name the command's inputs.
pub(crate) fn inputs(command: &mut Command) -> Vec<&mut PathBuf> {
    arguments(command).inputs
}

/// Returns true if an argument is the URL of an object in a store.
pub(crate) fn is_url(named: &Path) -> bool {
    named.to_str().is_some_and(ObjectLocation::is_url)
}

/// Hides the passwords and tokens of URLs in all later output.
pub(crate) fn hide_secrets(args: &[OsString]) {
    for arg in args.iter().filter_map(|arg| arg.to_str()) {
        let authority = arg.find("://").map_or(0, |at| at + 3);
        let host = arg[authority..]
            .find('/')
            .map_or(arg.len(), |at| authority + at);
        if let Cow::Owned(shown) = redact(arg) {
            rename(arg, &shown);
        }
        // The password is also replaced in text without the URL's scheme, since logs may contain it
        // in this form. Other objects on the host have the same password, so the object's name
        // isn't required to match.
        if let Some(at) = arg[..host].rfind('@')
            && let Cow::Owned(shown) = redact(&arg[..=at])
        {
            rename(&arg[authority..=at], &shown[authority..]);
        }
    }
}

/// Returns a string in which the passwords and tokens of URLs are replaced.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    redact(text)
}

/// Returns the scheme of a URL if this build supports no store for it. Returns `None` if the
/// argument is the name of an existing file.
fn unknown_scheme(named: &Path) -> Option<&str> {
    let (scheme, _) = named.to_str()?.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (is_scheme && !is_url(named) && !named.exists()).then_some(scheme)
}

/// Fails if an argument is a URL with a scheme that no store supports.
pub(crate) fn check_scheme(named: &Path) -> Result<(), Failure> {
    let Some(scheme) = unknown_scheme(named) else {
        return Ok(());
    };
    let (named, known) = (shown(named), SCHEMES.join(", "));
    let message =
        format!("{named}: the scheme {scheme}:// is unknown; those of stores are {known}");
    Err(Failure::usage(message))
}

fn location(named: &Path) -> Result<ObjectLocation, Failure> {
    let text = named.to_str().unwrap_or_default();
    ObjectLocation::parse(text).map_err(|error| Failure::usage(error.to_string()))
}

/// Returns true if an object that isn't in chunks can be opened without a copy. Also returns true
/// if the object is damaged, since the error is reported when the object is opened again.
fn is_opened_there(named: &Path, reader: &Arc<ObjectReader>) -> bool {
    let reader = Arc::clone(reader) as Arc<dyn ReadAt>;
    let opened = Candidate::of_source(named, reader)
        .and_then(|input| ALL.open_input(&input, &OpenOptions::new()));
    !opened.is_err_and(|error| error.kind() == ErrorKind::NeedsFile)
}

/// Fails if the object `chunked`, whose name ends in `.cpb`, exists. Call this before writing an
/// object with the same prefix that ends in `.pb`, since readers of the prefix prefer the `.cpb`.
pub(crate) fn check_not_hidden(chunked: &Path) -> Result<(), Failure> {
    let location = location(chunked)?;
    // Creating an object on a web server fails anyway.
    if location.is_read_only() {
        return Ok(());
    }
    check_none_there(&location)
}

fn check_none_there(chunked: &ObjectLocation) -> Result<(), Failure> {
    match chunked.exists() {
        Ok(true) => {
            let message = "the object is there already, and readers would prefer it to the new";
            Err(Failure::usage(format!(
                "{chunked}: {message} .{PLAIN_EXTENSION}: remove it first"
            )))
        }
        Ok(false) => Ok(()),
        // A client with only write permission can't find out whether an object exists.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

/// Returns access to the object stores that this build supports, for work in parts.
pub(crate) fn stores() -> Option<Arc<dyn Objects>> {
    Some(Arc::new(ObjectParts::new()))
}

/// Returns the names to try for an input: the given name, and the name with the extension `.cpb` or
/// `.pb`.
fn names(named: &Path) -> [PathBuf; 3] {
    let [chunked, plain] =
        [CHUNKED_EXTENSION, PLAIN_EXTENSION].map(|extension| with_extension(named, extension));
    [named.to_owned(), chunked, plain]
}

/// Opens the object at a URL for a command that works in parts. Such a command reads objects
/// without copying them to local files. The URL may omit the extension `.cpb` or `.pb`. A name that
/// isn't a URL is returned unchanged, without an object.
pub(crate) fn find(named: &Path) -> Result<(PathBuf, OpenObjects), Failure> {
    check_scheme(named)?;
    if !is_url(named) {
        return Ok((named.to_owned(), OpenObjects::default()));
    }
    for named in names(named) {
        match open(&named) {
            Ok(reader) => {
                let objects = OpenObjects::new(HashMap::from([(named.clone(), reader)]));
                return Ok((named, objects));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::usage(error.to_string())),
        }
    }
    let location = location(named)?;
    Err(Failure::usage(format!("{location}: no such object")))
}

/// Writes an object to a store sequentially. `expected` is its approximate size, in bytes.
pub(crate) fn write_object<T>(
    named: &Path,
    force: bool,
    expected: u64,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let options = ObjectWriteOptions::new()
        .force(force)
        .expected_size(expected);
    let writer = ObjectWriter::create(&location(named)?, &options);
    let mut writer = writer.map_err(|error| refused(&error))?;
    let written = write(&mut writer)?;
    writer.finish().map_err(|error| refused(&error))?;
    Ok(written)
}

fn refused(error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::AlreadyExists => " (--force replaces it)",
        _ => "",
    };
    Failure::usage(format!("{error}{hint}"))
}

/// The temporary copies of a command's inputs and outputs, and the objects that the command reads
/// without a local copy.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    open: HashMap<PathBuf, Arc<ObjectReader>>,
    folders: Vec<TempDir>,
    outputs: Vec<StagedOutput>,
    force: bool,
}

#[derive(Debug)]
struct StagedOutput {
    /// Temporary folder that receives the output.
    folder: PathBuf,
    /// Path of the file in `folder` that the command writes in place of the object.
    path: PathBuf,
    location: ObjectLocation,
    /// True if the command writes to the prefix of `path`, even if the name ends in `.pb`.
    is_prefix: bool,
}

impl StagedOutput {
    /// Fails if the output is a prefix or a SavedModel's folder, its message ends in `.pb`, and the
    /// store has an object that readers prefer, since it ends in `.cpb`.
    fn check_not_hidden(&self) -> Result<(), Failure> {
        let (prefix, chunked) = if self.path.is_dir() {
            let chunked = format!("{MODEL_STEM}.{CHUNKED_EXTENSION}");
            (self.path.join(MODEL_STEM), self.location.inside(&chunked))
        } else {
            let prefix = if self.is_prefix {
                prefix_of(&self.path)
            } else {
                self.path.clone()
            };
            let chunked = with_extension(&prefix, CHUNKED_EXTENSION);
            let name = chunked.file_name().unwrap_or_default().to_string_lossy();
            (prefix, self.location.beside(&name))
        };
        let is_written = |extension| with_extension(&prefix, extension).is_file();
        if is_written(PLAIN_EXTENSION) && !is_written(CHUNKED_EXTENSION) {
            check_none_there(&chunked)?;
        }
        Ok(())
    }
}

/// Returns true if the command can read an open object directly, without a copy.
fn is_read_there(
    named: &Path,
    in_place: InPlace,
    reader: &Arc<ObjectReader>,
) -> Result<bool, Failure> {
    let is_chunked = || {
        let is_chunked = is_record_file(&**reader);
        is_chunked.map_err(|error| Failure::of(named, &error.into()))
    };
    Ok(match in_place {
        InPlace::Nothing => false,
        InPlace::Chunked => is_chunked()?,
        InPlace::Opened => is_chunked()? || is_opened_there(named, reader),
        InPlace::Message => true,
    })
}

/// Copies the objects with further chunks of a message. The main object must already have been
/// copied to the file `copy`.
fn copy_parts(named: &Path, copy: &Path, output: &Output<'_>) -> Result<(), Failure> {
    let main = location(named)?;
    let file = File::open(copy).map_err(|error| Failure::io(copy, &error))?;
    if !is_record_file(&file).map_err(|error| Failure::of(named, &error.into()))? {
        return Ok(());
    }
    let mut failed = None;
    let copied = ChunkedFile::from_sources(file, &Limits::new(), |part| {
        let path = copy.with_file_name(&part.path);
        let copied = beside(&main, &part.path)
            .and_then(|part| Folder::download_one(&part, &path, &output.writing("copying")));
        if let Err(error) = copied {
            failed = Some(Failure::of(named, &error));
            return Err(error);
        }
        Ok(File::open(path)?)
    });
    // If the copy can't be opened because it is damaged, the command that reads the copy reports
    // the error.
    drop(copied);
    failed.map_or(Ok(()), Err)
}

/// Returns true if a command only plans work, which several hosts will run.
fn is_planned(command: &Command) -> bool {
    let parts = match command {
        Command::Split(args) => &args.parts,
        Command::Merge(args) => &args.parts,
        Command::Verify(args) => &args.parts,
        _ => return false,
    };
    parts.plan_only.is_some()
}

/// Returns true if the file `name` of an output refers to the output's other files. `output` is the
/// path that the command was given, which may be the output's prefix or folder.
fn is_main(output: &Path, name: &str) -> bool {
    let prefix = prefix_of(Path::new(name));
    let named = output.file_name().map(|output| prefix_of(output.as_ref()));
    named.is_some_and(|named| prefix == named) || prefix.ends_with(MODEL_STEM)
}

/// Fails if the input is an object, and the command would write beside or over its local copy, which
/// is temporary.
fn check_output_named(command: &Command) -> Result<(), Failure> {
    let (input, problem) = match command {
        Command::Convert(args) if args.in_place => {
            (&args.input, "an object can't be converted in place")
        }
        Command::Externalize(args) if args.in_place && !args.dry_run => {
            (&args.input, "an object can't be externalized in place")
        }
        Command::Sign(args) if args.output.is_none() => {
            (&args.model, "no signature is written beside an object")
        }
        _ => return Ok(()),
    };
    if !is_url(input) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: {problem}: name the output with -o",
        shown(input)
    )))
}

/// Fails if a model with mapped constants would be written to a store. The model would refer to
/// files in the temporary folder that is copied to the store.
fn check_mapped(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Externalize(args) if args.mmap && !args.dry_run => match &args.output {
            Some(output) if is_url(output) => Err(Failure::usage(format!(
                "{}: --mmap: constants can't be mapped from objects",
                shown(output)
            ))),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns the output of a split for which no output was given: the prefix beside the object
/// `named` rather than beside its local copy, which is temporary. Returns `None` if the object
/// isn't copied, since the output is then beside it anyway, or if it is a folder, for which an
/// output must be given.
fn prefix_beside(named: &Path, copy: &Path) -> Result<Option<PathBuf>, Failure> {
    if is_url(copy) || copy.is_dir() {
        return Ok(None);
    }
    let location = location(named)?;
    // If the object was found without its extension, the name that was given is the prefix.
    let is_whole = copy.file_name() == Some(OsStr::new(location.file_name()));
    Ok(Some(if is_whole {
        named.with_extension("")
    } else {
        named.to_owned()
    }))
}

/// Prepares a command for inputs and outputs in a store. Inputs that the command can't read
/// directly are copied to temporary folders. Outputs that the command can't write directly are
/// redirected to temporary folders.
pub(crate) fn stage(command: &mut Command, output: &mut Output<'_>) -> Result<Staged, Failure> {
    check_output_named(command)?;
    check_mapped(command)?;
    let mut staged = Staged::default();
    // A plan must refer to the objects themselves, since other hosts couldn't read a copy.
    let may_copy = !is_planned(command);
    // A dry run writes nothing, so its input may also be in a place that can't be written to.
    let unnamed = match command {
        Command::Split(args) if args.output.is_none() && !args.dry_run => args.input.clone(),
        _ => None,
    };
    let Arguments {
        inputs, in_place, ..
    } = arguments(command);
    for input in inputs {
        check_scheme(input)?;
        if is_url(input) {
            *input = staged.input(input, (in_place, may_copy), output)?;
        }
    }
    if let (Command::Split(args), Some(named)) = (&mut *command, unnamed)
        && is_url(&named)
    {
        args.output = prefix_beside(&named, args.input())?;
    }
    output.read_there(OpenObjects::new(std::mem::take(&mut staged.open)));
    // If these commands write their outputs directly, `outputs` below doesn't contain them, so they
    // are checked here.
    match command {
        Command::Merge(args) => check_scheme(args.output())?,
        Command::Split(args) => args.output.as_deref().map_or(Ok(()), check_scheme)?,
        _ => {}
    }
    let is_prefix = matches!(command, Command::Split(_));
    // The arguments are read again, since the outputs to list depend on the inputs, which have
    // changed.
    let Arguments { outputs, force, .. } = arguments(command);
    staged.force = force;
    for named in outputs {
        check_scheme(named)?;
        *named = staged.output(named, is_prefix)?;
        output.hold();
    }
    Ok(staged)
}

impl Staged {
    /// Returns the argument to use for an input: the URL of the object if it is read without a
    /// local copy, and otherwise the path of the copy.
    fn input(
        &mut self,
        named: &Path,
        (in_place, may_copy): (InPlace, bool),
        output: &mut Output<'_>,
    ) -> Result<PathBuf, Failure> {
        let failed = |error: io::Error| Failure::usage(error.to_string());
        let not_planned = |location: &ObjectLocation| {
            let message = "a plan can't refer to a local copy of an object: name a .cpb file, or give the type of the message to split";
            Failure::usage(format!("{location}: {message}"))
        };
        for named in &names(named) {
            match self
                .open
                .get(named)
                .cloned()
                .map_or_else(|| open(named), Ok)
            {
                Ok(reader) if is_read_there(named, in_place, &reader)? => {
                    self.open.insert(named.clone(), reader);
                    return Ok(named.clone());
                }
                Ok(_) if may_copy => {}
                Ok(reader) => return Err(not_planned(reader.location())),
                // The server doesn't support requests for byte ranges, so the object is copied.
                Err(error) if may_copy && error.kind() == io::ErrorKind::Unsupported => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            }
            let location = location(named)?;
            let folder = self.folder(&location.beside("").to_string())?;
            let path = folder.join(location.file_name());
            let progress = output.writing("copying");
            let copied = Folder::download_one(&location, &path, &progress);
            copied.map_err(|error| Failure::of(named, &error))?;
            copy_parts(named, &path, output)?;
            return Ok(path);
        }
        let location = location(named)?;
        let listed = Folder::new(&location);
        if !may_copy {
            let items = listed.list();
            let items = items.map_err(|error| Failure::of(named, &error))?;
            if !items.is_empty() {
                return Err(not_planned(&location));
            }
        }
        // The copy has the name of the folder, which a signature records.
        let url = location.to_string();
        let url = url.trim_end_matches('/');
        let name = url.rsplit('/').next().unwrap_or_default();
        let folder = self.temporary()?.join(name);
        rename(&folder.display().to_string(), url);
        let progress = output.writing("copying");
        let items = listed.download(&folder, &progress);
        let items = items.map_err(|error| Failure::of(named, &error))?;
        if items.is_empty() {
            Err(Failure::usage(format!("{location}: no such object")))
        } else {
            Ok(folder)
        }
    }

    fn output(&mut self, named: &Path, is_prefix: bool) -> Result<PathBuf, Failure> {
        let location = location(named)?;
        if location.is_read_only() {
            return Err(Failure::usage(format!(
                "{location}: a web server can only be read from"
            )));
        }
        let folder = self.folder(&location.beside("").to_string())?;
        let path = folder.join(location.file_name());
        self.outputs.push(StagedOutput {
            folder,
            path: path.clone(),
            location,
            is_prefix,
        });
        Ok(path)
    }

    /// Creates a temporary folder, which is shown in errors as the URL `called`.
    fn folder(&mut self, called: &str) -> Result<PathBuf, Failure> {
        let path = self.temporary()?;
        rename(&path.display().to_string(), called.trim_end_matches('/'));
        Ok(path)
    }

    fn temporary(&mut self) -> Result<PathBuf, Failure> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| Failure::io(&std::env::temp_dir(), &error))?;
        let path = folder.path().to_owned();
        self.folders.push(folder);
        Ok(path)
    }

    /// Copies the outputs of a command to the store, and then prints the results that were held
    /// back.
    pub(crate) fn finish(self, output: &mut Output<'_>) -> Result<(), Failure> {
        let options = ObjectWriteOptions::new().force(self.force);
        for staged in &self.outputs {
            let progress = output.writing("copying");
            // The main object is written last. Once it exists, readers find all objects that it
            // refers to.
            let is_last = |name: &str| is_main(&staged.path, name);
            staged.check_not_hidden()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_file_of_an_output_is_known_by_its_name() {
        for (output, main, others) in [
            ("m", "m.cpb", &["m.00001-89abcdef.cpb"][..]),
            ("m.v1", "m.v1.cpb", &["m.v1.00001-89abcdef.cpb", "m.cpb"]),
            ("m.cpb", "m.cpb", &["m.00001-89abcdef.cpb"]),
            ("m.pb", "m.cpb", &["m.00001-89abcdef.cpb"]),
            ("m.onnx", "m.onnx", &["m.onnx.data", "m.data"]),
            ("m.v1", "saved_model.pb", &["variables/variables.index"]),
            ("m", "saved_model.cpb", &["assets/m.txt", "assets/m.cpb"]),
        ] {
            let output = Path::new("folder").join(output);
            assert!(is_main(&output, main), "{output:?}: {main}");
            for other in others {
                assert!(!is_main(&output, other), "{output:?}: {other}");
            }
        }
    }
}
