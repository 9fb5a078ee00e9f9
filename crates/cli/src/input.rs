//! Resolving an argument that names an input: a file, a prefix, a folder of a known format, an
//! object in a store, or standard input. Only this module opens inputs, and opens each only once.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter::atomic::{MadeFrom, names_folder};
use proto_splitter::container::{MerkleRoot, is_chunked};
use proto_splitter::formats::{ALL, Candidate, Format};
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::progress::Progress;
use proto_splitter::sequences::SequenceFormat;
use proto_splitter::view::{FieldEntry, MessageView};
use proto_splitter::{Error, ErrorKind, OpenOptions, Opened};

use crate::args::{CompanionArgs, ReadingArgs, SchemaArgs, ShardArgs, ThreadsArgs};
use crate::display_name::{OPENED_BY, name_copy};
use crate::failure::Failure;
use crate::open_objects::OpenObjects;
use crate::remote;
use crate::types::Types;

pub(crate) use crate::display_name::shown;
pub(crate) use proto_splitter::container::{
    CHUNKED_EXTENSION as CHUNKED, PLAIN_EXTENSION as PLAIN, prefix_of, with_extension,
};

/// Name of standard input and standard output.
pub(crate) const STANDARD: &str = "-";

/// The form in which a message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In chunks.
    Chunked,
    /// In one piece, since it is within the maximum chunk size or was never split.
    Plain,
}

/// The location of an input.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file that contains the message. If the message is assembled from several files, this is
    /// the argument.
    pub(crate) file: PathBuf,
    /// The folder, if the argument is a folder, and one of its files is the message.
    pub(crate) folder: Option<PathBuf>,
    /// An unnamed copy of standard input or of a pipe.
    copy: Option<Arc<File>>,
}

impl Place {
    fn new(file: PathBuf, folder: Option<PathBuf>) -> Place {
        Place {
            file,
            folder,
            copy: None,
        }
    }

    /// Returns the folder if the argument is one, and otherwise the file that contains the input.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.file)
    }

    /// Returns the input as a candidate, which formats examine and open.
    pub(crate) fn candidate(&self, objects: &OpenObjects) -> Result<Candidate<'_>, Failure> {
        let failed = |error: Error| Failure::of(&self.file, &error);
        if remote::is_url(&self.file) {
            return objects.candidate(&self.file);
        }
        match &self.copy {
            Some(copy) => copy
                .try_clone()
                .map_err(Error::from)
                .and_then(|copy| Candidate::of_file(&self.file, copy)),
            None => Candidate::new(&self.file),
        }
        .map_err(failed)
    }
}

/// Options for opening inputs.
#[derive(Clone)]
pub(crate) struct Opening<'a> {
    schema: Cow<'a, SchemaArgs>,
    options: OpenOptions,
    objects: OpenObjects,
}

impl<'a> Opening<'a> {
    /// Creates options with the type of the message and the limits.
    pub(crate) fn new(
        schema: &'a SchemaArgs,
        limits: Limits,
        objects: &OpenObjects,
    ) -> Opening<'a> {
        Opening {
            schema: Cow::Borrowed(schema),
            options: OpenOptions::new().limits(limits),
            objects: objects.clone(),
        }
    }

    /// Creates options with the type of the message, and the places where its chunks may be.
    pub(crate) fn of_shards(
        schema: &'a SchemaArgs,
        shards: ShardArgs,
        objects: &OpenObjects,
    ) -> Opening<'a> {
        Opening::new(schema, shards.limits(), objects)
    }

    /// Creates options with everything that the arguments for reading set.
    pub(crate) fn of(reading: &'a ReadingArgs, objects: &OpenObjects) -> Opening<'a> {
        let mut opening = Opening::new(&reading.schema, reading.limits(), objects);
        opening.options = opening.options.assume_plain(reading.assume_plain);
        opening
    }

    /// Returns the objects that the command has opened.
    pub(crate) fn objects(&self) -> &OpenObjects {
        &self.objects
    }

    pub(crate) fn progress(mut self, progress: Progress) -> Self {
        self.options = self.options.progress(progress);
        self
    }

    pub(crate) fn threads(mut self, threads: &ThreadsArgs) -> Self {
        self.options = self.options.threads(threads.threads);
        self
    }

    /// Sets whether the message is only inspected. Then, missing external files are not an error.
    pub(crate) fn looked_at(mut self, is_looked_at: bool) -> Self {
        self.options = self.options.allow_missing_files(is_looked_at);
        self
    }

    /// Sets the Merkle root that the input must have.
    pub(crate) fn root(mut self, root: Option<MerkleRoot>) -> Self {
        self.options = self.options.root(root);
        self
    }

    /// Sets format-specific settings.
    pub(crate) fn settings(mut self, settings: &[(String, String)]) -> Self {
        for (name, value) in settings {
            self.options = self.options.setting(name, value);
        }
        self
    }

    /// Opens the input that an argument names.
    pub(crate) fn open(self, named: &Path) -> Result<Input, Failure> {
        let place = locate(named, &self.schema.companion)?;
        self.open_at(place)
    }

    /// Opens the input at a location.
    pub(crate) fn open_at(self, place: Place) -> Result<Input, Failure> {
        let Opening {
            schema,
            options,
            objects,
        } = self;
        let companion = &schema.companion;
        if let Some(program) = &companion.program {
            fs::metadata(program).map_err(|error| Failure::io(program, &error))?;
        }
        let types = Types::load_for(&schema, place.path())?;
        let mut options = options
            .descriptor(types.asked().cloned())
            .schemas(types.given().clone())
            .companion(companion.program.clone());
        let mut format = named_format(companion);
        if let Some(root) = types.sequence() {
            format = Some(&SequenceFormat);
            options = root.opening(options);
        }
        let candidate = place.candidate(&objects)?;
        let failed = |error: Error| Failure::of(place.path(), &error);
        // A file of records may belong to another format.
        let is_another = |format: &dyn Format| {
            let known = ALL.recognize(&candidate);
            known.is_none_or(|known| known.name() != format.name())
        };
        let open = |options: &OpenOptions| match format {
            Some(format)
                if !format.reads_any_records()
                    && candidate.is_chunked().map_err(failed)?
                    && is_another(format) =>
            {
                Err(Failure::usage(format!(
                    "--input-format: {}: a file in chunks says itself what it is",
                    shown(place.path())
                )))
            }
            Some(format) => ALL
                .open_input_as(format, &candidate, options)
                .map_err(failed),
            None => ALL.open_input(&candidate, options).map_err(failed),
        };
        let mut opened = open(&options)?;
        if opened.has_message()
            && opened.descriptor().is_none()
            && said_type(&opened).is_none()
            && let Some(root) = types.only_root(place.path())?
        {
            opened = open(&options.descriptor(Some(root)))?;
        } else if opened.has_message()
            && opened.descriptor().is_none()
            && let Some((pool, root)) =
                Types::beside(&schema, place.path(), said_type(&opened), |root| {
                    looks_like(&opened, root)
                })
        {
            opened = open(&options.schemas(pool).descriptor(Some(root)))?;
        }
        drop(candidate);
        let input = Input { place, opened };
        input.check_asked(&types)?;
        Ok(input)
    }

    /// Removes the companion options, which apply to the other input.
    pub(crate) fn alone(mut self) -> Self {
        self.schema.to_mut().companion = CompanionArgs::default();
        self
    }

    /// Opens two inputs. The companion options apply to one or both of them.
    pub(crate) fn open_both(self, named: [&Path; 2]) -> Result<[Input; 2], Failure> {
        let [first, second] = named.map(|named| self.clone().open(named));
        let is_named = self.schema.companion.is_named();
        match (first, second) {
            (Ok(first), Ok(second)) => Ok([first, second]),
            (Ok(first), Err(_)) if is_named => Ok([first, self.alone().open(named[1])?]),
            (Err(_), Ok(second)) if is_named => Ok([self.alone().open(named[0])?, second]),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        }
    }
}

/// Opens the bytes at a location as a message of any type, without detecting the format.
pub(crate) fn open_bytes(place: Place, objects: &OpenObjects) -> Result<Input, Failure> {
    let source = place.candidate(objects)?.source();
    let opened = source.and_then(|bytes| Opened::of_reader(bytes, None, &OpenOptions::new()));
    let opened = opened.map_err(|error| Failure::of(&place.file, &error))?;
    let opened = opened.named(&place.file).reading([&place.file]);
    Ok(Input { place, opened })
}

/// Returns true if the first fields of a message match a type.
fn looks_like(opened: &Opened, root: &MessageDescriptor) -> bool {
    /// Number of fields to compare.
    const FIELDS: usize = 64;
    let typed = opened.reading_options().descriptor(root.clone());
    let Ok(view) = opened.view_with(typed) else {
        return false;
    };
    let is_known = |field: Result<FieldEntry, Error>| {
        field.is_ok_and(|field| root.get_field(field.step.field.0).is_some())
    };
    view.check_type().is_ok()
        && view
            .fields(&FieldPath::root())
            .is_ok_and(|fields| fields.take(FIELDS).all(is_known))
}

fn said_type(opened: &Opened) -> Option<&str> {
    opened.chunked()?.trailer().message_type()
}

/// An open input.
#[derive(Debug)]
pub(crate) struct Input {
    place: Place,
    opened: Opened,
}

impl Deref for Input {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.opened
    }
}

impl Input {
    /// Returns the input with its message in canonical form.
    pub(crate) fn canonical(self) -> Result<Input, Failure> {
        self.check_message()?;
        let opened = self.opened.canonical();
        let opened = opened.map_err(|error| Failure::of(self.path(), &error))?;
        Ok(Input { opened, ..self })
    }

    /// Returns the file that contains the message. If the message is assembled from several files,
    /// returns the argument.
    pub(crate) fn file(&self) -> &Path {
        &self.place.file
    }

    /// Returns the folder, if the argument is a folder, and one of its files is the message.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.place.folder.as_deref()
    }

    /// Returns the folder if the argument is one, and otherwise the file that contains the input.
    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn form(&self) -> Form {
        match self.opened.chunked() {
            Some(_) => Form::Chunked,
            None => Form::Plain,
        }
    }

    /// Returns true if the input has tensors that aren't part of a message.
    pub(crate) fn is_archive(&self) -> bool {
        !self.opened.has_message()
    }

    /// Returns true if the input isn't just a message in one file, but an archive, or a message
    /// assembled from several files.
    pub(crate) fn is_special(&self) -> bool {
        !self.opened.is_single()
    }

    /// Returns true if the input's format can describe more than a plain message, and the caller
    /// names no type.
    pub(crate) fn is_told(&self) -> bool {
        self.opened.is_described_by_format()
    }

    /// Returns the type recorded in a chunked file, even if it is unknown.
    pub(crate) fn said_type(&self) -> Option<&str> {
        said_type(&self.opened)
    }

    /// Returns the kind of input as a noun for a sentence, without an article.
    pub(crate) fn title(&self) -> &'static str {
        let format = self.opened.format();
        format.map_or("archive", |format| format.title())
    }

    /// Returns a view of the message. Fails if the message evidently isn't of the requested type.
    pub(crate) fn typed_view(&self) -> Result<MessageView<'_>, Error> {
        self.typed_view_with(self.opened.reading_options())
    }

    /// Returns a view of the message like [`typed_view`](Self::typed_view), with other options for
    /// reading.
    pub(crate) fn typed_view_with(&self, options: ReadOptions) -> Result<MessageView<'_>, Error> {
        if self.is_archive() {
            let message = format!("{}: tensors, and no message", self.title());
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let view = self.opened.view_with(options)?;
        view.check_type()?;
        Ok(view)
    }

    /// Fails if there is no message.
    pub(crate) fn check_message(&self) -> Result<(), Failure> {
        if !self.is_archive() {
            return Ok(());
        }
        let (file, title) = (self.file().display(), self.title());
        Err(Failure::usage(format!(
            "{file}: {title}: tensors, and no message"
        )))
    }

    /// Fails if the target is one of the files that are read, including the file of the new
    /// `value`.
    pub(crate) fn check_apart(&self, target: &Path, value: Option<&Path>) -> Result<(), Failure> {
        let read = self.opened.files().iter().map(PathBuf::as_path);
        check_apart(read.chain(value), target)
    }

    /// Fails if a chunked file records a type that differs from the requested one.
    fn check_asked(&self, types: &Types) -> Result<(), Failure> {
        match (types.asked(), self.said_type()) {
            (Some(asked), Some(said)) if asked.full_name() != said => {
                let (file, asked) = (shown(self.file()), asked.full_name());
                Err(Failure::usage(format!("{file}: holds {said}, not {asked}")))
            }
            _ => Ok(()),
        }
    }
}

/// Fails if the target is one of the files that are read.
pub(crate) fn check_apart<P: AsRef<Path>>(
    read: impl IntoIterator<Item = P>,
    target: &Path,
) -> Result<(), Failure> {
    let apart = MadeFrom::files(read).check_apart(target);
    apart.map_err(|error| Failure::usage(error.to_string()))
}

/// Replaces the path of a folder by the path of its main file.
pub(crate) fn name_file(named: &mut PathBuf) {
    if named.is_dir()
        && let Some(file) = recognize(named, None).and_then(|format| format.file_in(named))
    {
        *named = file;
    }
}

/// Returns the format that recognizes a path, if any.
fn recognize(path: &Path, companion: Option<&Path>) -> Option<&'static dyn Format> {
    ALL.recognize_with(&Candidate::new(path).ok()?, companion)
}

/// Fails if standard input is named twice, since it can only be read once.
pub(crate) fn check_single_standard<const N: usize>(named: [&Path; N]) -> Result<(), Failure> {
    let standard = named.iter().filter(|named| is_standard(named));
    if standard.count() > 1 {
        let message = "- can be given only once: it is standard input";
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// Returns true if an argument names standard input.
pub(crate) fn is_standard(named: &Path) -> bool {
    [STANDARD, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
        .iter()
        .any(|name| named == Path::new(name))
}

/// Returns true if an input can only be read once and in sequence: standard input, or a pipe such as the shell's `<(COMMAND)`.
pub(crate) fn is_stream(named: &Path) -> bool {
    is_standard(named) || fs::metadata(named).is_ok_and(|metadata| is_pipe(&metadata))
}

#[cfg(unix)]
fn is_pipe(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// Returns the format that the arguments name for an input.
fn named_format(args: &CompanionArgs) -> Option<&'static dyn Format> {
    ALL.named(args.input_format.as_deref()?)
}

/// Finds an input. For a prefix, a .cpb file is preferred to a .pb file. Companion options can
/// imply the format. Doesn't open any file except for a pipe, which is copied.
pub(crate) fn locate(named: &Path, args: &CompanionArgs) -> Result<Place, Failure> {
    if is_standard(named) {
        return standard_input();
    }
    if remote::is_url(named) {
        // All other objects were copied before.
        return Ok(Place::new(named.to_owned(), None));
    }
    let metadata = match fs::metadata(named) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::io(named, &error)),
    };
    let is_folder = metadata.as_ref().is_some_and(fs::Metadata::is_dir);
    if let Some(metadata) = &metadata
        && !is_folder
    {
        if is_pipe(metadata) {
            let mut pipe = File::open(named).map_err(|error| Failure::io(named, &error))?;
            return copy_of(&mut pipe, &named.display().to_string());
        }
        check_file(named, metadata)?;
        return Ok(Place::new(named.to_owned(), None));
    }
    let known = named_format(args).or_else(|| recognize(named, args.program.as_deref()));
    if is_folder && let Some(format) = known {
        return Ok(match format.main_file(named) {
            Some(file) => Place::new(file, Some(named.to_owned())),
            None => Place::new(named.to_owned(), None),
        });
    }
    let name = named.display();
    if !is_folder && names_folder(named) {
        return Err(Failure::usage(format!("{name}: no such folder")));
    }
    if let Some(file) = with_prefix(named) {
        return Ok(Place::new(file, None));
    }
    if known.is_some() {
        return Ok(Place::new(named.to_owned(), None));
    }
    Err(Failure::usage(if is_folder {
        let titles: Vec<&str> = ALL.formats().iter().map(|format| format.title()).collect();
        format!("{name}: no {} is in it", titles.join(", no "))
    } else {
        format!("{name}: no such file, nor {name}.{CHUNKED}, nor {name}.{PLAIN}")
    }))
}

/// Name of standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// Returns standard input. If it is a file, it isn't copied.
#[cfg(unix)]
fn standard_input() -> Result<Place, Failure> {
    use std::os::fd::AsRawFd;

    let stdin = io::stdin();
    let number = stdin.as_raw_fd();
    let path = PathBuf::from(format!("{OPENED_BY}{number}"));
    if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
        return copy_of(&mut stdin.lock(), STANDARD_INPUT);
    }
    name_copy(number, STANDARD_INPUT);
    Ok(Place::new(path, None))
}

/// Copies a stream to a temporary file, since messages need random access. The file has no name, so
/// it never remains.
#[cfg(unix)]
fn copy_of(stream: &mut dyn io::Read, name: &str) -> Result<Place, Failure> {
    use std::os::fd::AsRawFd;

    let failed = |error: &io::Error| {
        let folder = std::env::temp_dir();
        let folder = folder.display();
        Failure::usage(format!(
            "{name}, which is first copied to {folder}: {error}"
        ))
    };
    let mut copy = tempfile::tempfile().map_err(|error| failed(&error))?;
    io::copy(stream, &mut copy).map_err(|error| failed(&error))?;
    let number = copy.as_raw_fd();
    name_copy(number, name);
    let path = PathBuf::from(format!("{OPENED_BY}{number}"));
    Ok(Place {
        copy: Some(Arc::new(copy)),
        ..Place::new(path, None)
    })
}

#[cfg(not(unix))]
fn standard_input() -> Result<Place, Failure> {
    copy_of(&mut io::empty(), STANDARD_INPUT)
}

#[cfg(not(unix))]
fn copy_of(_: &mut dyn io::Read, name: &str) -> Result<Place, Failure> {
    Err(Failure::usage(format!(
        "{name}: on this system only files are read"
    )))
}

/// Returns true if a file that couldn't be opened is in chunks.
pub(crate) fn is_chunked_at(file: &Path) -> bool {
    is_chunked(file).unwrap_or(false)
}

/// Fails unless this is a file.
pub(crate) fn check_file(named: &Path, metadata: &fs::Metadata) -> Result<(), Failure> {
    if metadata.is_file() {
        return Ok(());
    }
    let name = named.display();
    Err(Failure::usage(if metadata.is_dir() {
        format!("{name}: a folder, not a file")
    } else {
        format!("{name}: neither a file nor a folder")
    }))
}

/// Fails if the output is standard output, where a file is required.
pub(crate) fn check_named(output: &Path) -> Result<(), Failure> {
    if output == Path::new(STANDARD) {
        return Err(Failure::usage(
            "standard output: only a file or a folder can be written, which has a name",
        ));
    }
    Ok(())
}

fn with_prefix(prefix: &Path) -> Option<PathBuf> {
    let files = [CHUNKED, PLAIN].map(|extension| with_extension(prefix, extension));
    files.into_iter().find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use proto_splitter::record_file::RecordWriter;

    use super::*;

    fn find(named: &Path) -> Result<Place, Failure> {
        locate(named, &CompanionArgs::default())
    }

    fn found(named: &Path) -> (String, Form) {
        let place = find(named).unwrap();
        let name = place.file.file_name().unwrap().to_str().unwrap().to_owned();
        let is_chunked = place
            .candidate(&OpenObjects::default())
            .unwrap()
            .is_chunked()
            .unwrap();
        let form = if is_chunked {
            Form::Chunked
        } else {
            Form::Plain
        };
        (name, form)
    }

    #[test]
    fn a_prefix_is_the_cpb_rather_than_the_pb() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("model.v1");
        assert!(
            find(&prefix)
                .unwrap_err()
                .message()
                .ends_with("model.v1.pb")
        );
        fs::write(with_extension(&prefix, "pb"), "").unwrap();
        assert_eq!(found(&prefix), ("model.v1.pb".into(), Form::Plain));
        fs::write(with_extension(&prefix, "cpb"), "").unwrap();
        assert_eq!(found(&prefix), ("model.v1.cpb".into(), Form::Chunked));
        assert_eq!(
            found(&with_extension(&prefix, "pb")),
            ("model.v1.pb".into(), Form::Plain)
        );
    }

    #[test]
    fn a_folder_is_its_saved_model() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            find(folder.path())
                .unwrap_err()
                .message()
                .contains("no SavedModel")
        );
        fs::write(folder.path().join("saved_model.pb"), b"\x08\x01").unwrap();
        let input = find(folder.path()).unwrap();
        assert_eq!(input.folder.as_deref(), Some(folder.path()));
        assert_eq!(input.file, folder.path().join("saved_model.pb"));
    }

    #[test]
    fn what_is_named_as_a_folder_is_no_prefix() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.cpb"), "").unwrap();
        let error = find(&folder.path().join("model/")).unwrap_err();
        assert!(error.message().ends_with("model/: no such folder"));
    }

    #[test]
    fn what_a_file_of_another_name_begins_with_tells_its_form() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.onnx");
        fs::write(&model, b"\x08\x07").unwrap();
        assert_eq!(found(&model), ("model.onnx".into(), Form::Plain));
        let records = RecordWriter::with_defaults(Vec::new()).finish().unwrap();
        fs::write(&model, records).unwrap();
        assert_eq!(found(&model), ("model.onnx".into(), Form::Chunked));
    }

    #[test]
    fn the_name_of_a_saved_model_tells_its_type() {
        let folder = tempfile::tempdir().unwrap();
        let schema = SchemaArgs::default();
        let known = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let opening = Opening::new(&schema, Limits::new(), &OpenObjects::default());
            let input = opening.open(&path).unwrap();
            input.descriptor().map(|known| known.full_name().to_owned())
        };
        for name in ["saved_model.pb", "saved_model"] {
            let known = known(name, b"\x08\x01");
            assert_eq!(known.as_deref(), Some(proto_splitter::SAVED_MODEL));
        }
        assert_eq!(known("graph.pb", b""), None);
    }
}
