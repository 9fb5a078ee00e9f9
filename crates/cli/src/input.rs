//! What an argument that names an input stands for: a file, a prefix, a folder that a format knows,
//! or standard input.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::atomic::names_folder;
use proto_splitter::container::is_chunked;
use proto_splitter::formats::{ALL, Candidate, Format};

use crate::args::CompanionArgs;
use crate::display_name::{OPENED_BY, name_copy};
use crate::failure::Failure;
use crate::remote;

pub(crate) use crate::display_name::shown;
pub(crate) use proto_splitter::container::{
    CHUNKED_EXTENSION as CHUNKED, PLAIN_EXTENSION as PLAIN, with_extension,
};

/// Names standard input, or standard output.
pub(crate) const STANDARD: &str = "-";

/// How a message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In chunks.
    Chunked,
    /// As it is: it was within the maximum chunk size, or was never split.
    Plain,
}

/// A message that was found.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The file with the message; or what was named, if several files make the message.
    pub(crate) file: PathBuf,
    pub(crate) form: Form,
    /// The folder, if that was named and one file in it is the message.
    pub(crate) folder: Option<PathBuf>,
    /// The file that goes with it, if that was named.
    pub(crate) companion: Option<PathBuf>,
    /// Its format, if that was named.
    pub(crate) named_format: Option<&'static dyn Format>,
    /// Whether files that the message refers to may be missing: it is only looked at.
    pub(crate) is_looked_at: bool,
    /// What came in on standard input or through a pipe: a file without a name, which is there as
    /// long as this is.
    _kept: Option<Arc<File>>,
}

impl Input {
    fn new(file: PathBuf, form: Form, folder: Option<PathBuf>) -> Self {
        Input {
            file,
            form,
            folder,
            companion: None,
            named_format: None,
            is_looked_at: false,
            _kept: None,
        }
    }

    /// The same message, only to be looked at: what there is of it is shown if files that it refers
    /// to are missing.
    pub(crate) fn looked_at(self) -> Input {
        Input {
            is_looked_at: true,
            ..self
        }
    }

    /// What was named, or else the file that it is kept in.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.file)
    }

    /// The format that knows the input by what it is; none of one in chunks.
    pub(crate) fn format(&self) -> Option<&'static dyn Format> {
        match self.form {
            Form::Chunked => None,
            Form::Plain if self.named_format.is_some() => self.named_format,
            Form::Plain if remote::is_url(&self.file) => recognize(&self.file),
            Form::Plain => {
                let candidate = Candidate::new(&self.file).ok()?;
                ALL.recognize_with(&candidate, self.companion.as_deref())
            }
        }
    }
}

/// The format that knows what is at a path, if one does.
pub(crate) fn recognize(path: &Path) -> Option<&'static dyn Format> {
    if remote::is_url(path) {
        let object = remote::source(path).ok()?;
        return ALL.recognize(&Candidate::of_source(path, &object).ok()?);
    }
    ALL.recognize(&Candidate::new(path).ok()?)
}

/// Where a folder is named that stands for a file in it, names the file.
pub(crate) fn name_file(named: &mut PathBuf) {
    if named.is_dir()
        && let Some(file) = recognize(named).and_then(|format| format.file_in(named))
    {
        *named = file;
    }
}

/// Fails if standard input, which comes once, is named twice.
pub(crate) fn check_single_standard<const N: usize>(named: [&Path; N]) -> Result<(), Failure> {
    let standard = named.iter().filter(|named| is_standard(named));
    if standard.count() > 1 {
        let message = "- can be given only once: it is standard input";
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// Whether an argument means standard input, by one of the names that it has.
pub(crate) fn is_standard(named: &Path) -> bool {
    [STANDARD, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
        .iter()
        .any(|name| named == Path::new(name))
}

/// Whether an input comes once and in sequence: standard input, or a pipe, as a shell makes one of
/// `<(COMMAND)`.
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

/// Finds the message, as [`find`], of the format and with the file that goes with it if they are
/// named.
pub(crate) fn find_with(named: &Path, args: &CompanionArgs) -> Result<Input, Failure> {
    locate(named, args)?.with(args)?.checked()
}

/// Finds two messages, as [`find_with`]. What is named goes with one of them or with both.
pub(crate) fn find_both(named: [&Path; 2], args: &CompanionArgs) -> Result<[Input; 2], Failure> {
    let [first, second] = [locate(named[0], args)?, locate(named[1], args)?];
    let [first, second] = match (first.clone().with(args), second.clone().with(args)) {
        (Ok(first), Ok(second)) => [first, second],
        (Ok(first), Err(_)) => [first, second],
        (Err(_), Ok(second)) => [first, second],
        (Err(failure), Err(_)) => return Err(failure),
    };
    Ok([first.checked()?, second.checked()?])
}

impl Input {
    fn with(self, args: &CompanionArgs) -> Result<Input, Failure> {
        let named_format = named_format(args);
        if named_format.is_some() && self.form == Form::Chunked {
            return Err(Failure::usage(format!(
                "--input-format: {}: a file in chunks says itself what it is",
                shown(self.path())
            )));
        }
        let input = Input {
            named_format,
            ..self
        };
        let Some(program) = &args.program else {
            return Ok(input);
        };
        fs::metadata(program).map_err(|error| Failure::io(program, &error))?;
        let input = Input {
            companion: Some(program.clone()),
            ..input
        };
        let format = input.format();
        if format.is_some_and(|format| format.companion().is_some()) {
            return Ok(input);
        }
        Err(input.goes_alone(format))
    }

    /// Fails if what was found is evidently no input, and says what it is instead.
    fn checked(self) -> Result<Input, Failure> {
        let (file, companion) = (self.file.as_path(), self.companion.as_deref());
        // A format that is named is taken at its word.
        if self.form == Form::Chunked || self.named_format.is_some() {
            return Ok(self);
        }
        let checked = if remote::is_url(file) {
            let object = remote::source(file)?;
            Candidate::of_source(file, &object).and_then(|object| ALL.check(&object, companion))
        } else {
            Candidate::new(file).and_then(|file| ALL.check(&file, companion))
        };
        match checked {
            Ok(()) => Ok(self),
            Err(error) => Err(Failure::of(file, &error)),
        }
    }

    fn goes_alone(&self, format: Option<&'static dyn Format>) -> Failure {
        let what = match (self.form, format) {
            (Form::Chunked, _) => "a file in chunks".to_owned(),
            (Form::Plain, None) => "a message of no known format".to_owned(),
            (Form::Plain, Some(format)) => format!("a file of the kind {}", format.title()),
        };
        Failure::usage(format!(
            "--program: {}: no program goes with {what}",
            shown(self.path())
        ))
    }
}

/// The format that is named for an input.
fn named_format(args: &CompanionArgs) -> Option<&'static dyn Format> {
    ALL.named(args.input_format.as_deref()?)
}

/// Finds the message: readers prefer a .cpb to a .pb of the same prefix. Fails if a file is evidently
/// none.
pub(crate) fn find(named: &Path) -> Result<Input, Failure> {
    locate(named, &CompanionArgs::default())?.checked()
}

/// Finds the message, as [`find`], whatever is in its file. What goes with the input may tell its
/// format, too.
pub(crate) fn locate(named: &Path, args: &CompanionArgs) -> Result<Input, Failure> {
    if is_standard(named) {
        return standard_input();
    }
    if remote::is_url(named) {
        // What isn't read where it is was copied before.
        let form = if remote::is_chunked(named)? {
            Form::Chunked
        } else {
            Form::Plain
        };
        return Ok(Input::new(named.to_owned(), form, None));
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
        return Ok(Input::new(named.to_owned(), form_of(named)?, None));
    }
    let known = named_format(args).or_else(|| {
        let candidate = Candidate::new(named).ok()?;
        ALL.recognize_with(&candidate, args.program.as_deref())
    });
    if is_folder && let Some(format) = known {
        let Some(file) = format.main_file(named) else {
            return Ok(Input::new(named.to_owned(), Form::Plain, None));
        };
        let form = form_of(&file)?;
        return Ok(Input::new(file, form, Some(named.to_owned())));
    }
    let name = named.display();
    if !is_folder && names_folder(named) {
        return Err(Failure::usage(format!("{name}: no such folder")));
    }
    if let Some(file) = with_prefix(named) {
        let form = form_of(&file)?;
        return Ok(Input::new(file, form, None));
    }
    if known.is_some() {
        return Ok(Input::new(named.to_owned(), Form::Plain, None));
    }
    Err(Failure::usage(if is_folder {
        let titles: Vec<&str> = ALL.formats().iter().map(|format| format.title()).collect();
        format!("{name}: no {} is in it", titles.join(", no "))
    } else {
        format!("{name}: no such file, nor {name}.{CHUNKED}, nor {name}.{PLAIN}")
    }))
}

/// What standard input is called.
const STANDARD_INPUT: &str = "standard input";

/// What comes in on standard input, from the file itself if it is one.
#[cfg(unix)]
fn standard_input() -> Result<Input, Failure> {
    use std::os::fd::AsRawFd;

    let stdin = io::stdin();
    let number = stdin.as_raw_fd();
    let path = PathBuf::from(format!("{OPENED_BY}{number}"));
    if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
        return copy_of(&mut stdin.lock(), STANDARD_INPUT);
    }
    name_copy(number, STANDARD_INPUT);
    let form = form_of(&path)?;
    Ok(Input::new(path, form, None))
}

/// What comes in as a stream. A message isn't read in sequence, so it is first copied to a temporary
/// file, which has no name in any folder and so is never left behind.
#[cfg(unix)]
fn copy_of(stream: &mut dyn io::Read, name: &str) -> Result<Input, Failure> {
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
    let form = form_of(&path)?;
    Ok(Input {
        _kept: Some(Arc::new(copy)),
        ..Input::new(path, form, None)
    })
}

#[cfg(not(unix))]
fn standard_input() -> Result<Input, Failure> {
    copy_of(&mut io::empty(), STANDARD_INPUT)
}

#[cfg(not(unix))]
fn copy_of(_: &mut dyn io::Read, name: &str) -> Result<Input, Failure> {
    Err(Failure::usage(format!(
        "{name}: on this system only files are read"
    )))
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

/// How the message in a file is stored.
pub(crate) fn form_of(file: &Path) -> Result<Form, Failure> {
    if is_chunked(file).map_err(|error| Failure::of(file, &error))? {
        Ok(Form::Chunked)
    } else {
        Ok(Form::Plain)
    }
}

/// Fails if what has to be a file is to go to standard output.
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

/// The prefix that an output was named by, with or without one of the extensions that a prefix
/// gets.
pub(crate) fn prefix_of(named: &Path) -> PathBuf {
    match named.extension() {
        Some(extension) if extension == CHUNKED || extension == PLAIN => named.with_extension(""),
        _ => named.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proto_splitter::record_file::RecordWriter;

    use super::*;

    fn found(named: &Path) -> (String, Form) {
        let input = find(named).unwrap();
        (
            input.file.file_name().unwrap().to_str().unwrap().to_owned(),
            input.form,
        )
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
        assert_eq!(input.form, Form::Plain);
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
    fn a_prefix_may_be_given_with_its_extension() {
        for (named, prefix) in [
            ("a/m.cpb", "a/m"),
            ("a/m.pb", "a/m"),
            ("a/m.v1", "a/m.v1"),
            ("m", "m"),
        ] {
            assert_eq!(prefix_of(Path::new(named)), Path::new(prefix));
        }
    }
}
