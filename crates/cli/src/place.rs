//! Locating the input that an argument names: a file, with or without its extension, a folder in a
//! known format, an object in a store, or standard input.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::Error;
use proto_splitter::atomic::names_folder;
use proto_splitter::container::is_chunked;
use proto_splitter::formats::{ALL, Candidate, Format};

use crate::args::CompanionArgs;
use crate::display_name::{OPENED_BY, name_copy};
use crate::failure::Failure;
use crate::open_objects::OpenObjects;
use crate::remote;

pub(crate) use proto_splitter::container::{
    CHUNKED_EXTENSION as CHUNKED, PLAIN_EXTENSION as PLAIN, prefix_of, with_extension,
};

/// Argument that means standard input or standard output.
pub(crate) const STANDARD: &str = "-";

/// The location of an input.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Path of the file that contains the message. If the message is assembled from several files,
    /// this is the argument itself.
    pub(crate) file: PathBuf,
    /// Folder that the argument names, if one of the folder's files contains the message; otherwise
    /// `None`.
    pub(crate) folder: Option<PathBuf>,
    /// Unnamed file with a copy of standard input or of a pipe; `None` for other inputs.
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

    /// Returns the path of the folder if the argument is a folder, and otherwise the path of the
    /// file that contains the input.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.file)
    }

    /// Returns the input as a candidate, which formats can examine and open.
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

/// Replaces the path of a folder in a known format with the path of the folder's main file.
pub(crate) fn name_file(named: &mut PathBuf) {
    if named.is_dir()
        && let Some(file) = recognize(named, None).and_then(|format| format.file_in(named))
    {
        *named = file;
    }
}

/// Returns the format that recognizes a file or folder; `None` if no format does.
fn recognize(path: &Path, companion: Option<&Path>) -> Option<&'static dyn Format> {
    ALL.recognize_with(&Candidate::new(path).ok()?, companion)
}

/// Fails if several arguments name standard input, since it can be read only once.
pub(crate) fn check_single_standard(named: &[&Path]) -> Result<(), Failure> {
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

/// Returns true if an input can be read only once and in sequence. This is the case for standard
/// input, and for a pipe, such as the shell's `<(COMMAND)`.
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

/// Returns the format that `--input-format` specifies; `None` if the option isn't given.
pub(crate) fn named_format(args: &CompanionArgs) -> Option<&'static dyn Format> {
    ALL.named(args.input_format.as_deref()?)
}

/// Locates the input that an argument names. If the argument lacks an extension, a `.cpb` file
/// takes precedence over a `.pb` file. Companion options can determine the format. Files aren't
/// opened, except for a pipe, which is copied to a temporary file.
pub(crate) fn locate(named: &Path, args: &CompanionArgs) -> Result<Place, Failure> {
    if is_standard(named) {
        return standard_input();
    }
    if remote::is_url(named) {
        // If the command needs a local copy of an object, its argument was already replaced by the
        // copy's path.
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
        format!("{name}: contains no {}", titles.join(", no "))
    } else {
        format!("{name}: no such file, nor {name}.{CHUNKED}, nor {name}.{PLAIN}")
    }))
}

/// Name of standard input in reports and errors.
const STANDARD_INPUT: &str = "standard input";

/// Returns the location of standard input. Unless standard input is a file, it is copied to one.
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

/// Copies a stream to a temporary file, since reading a message requires random access. The file
/// has no name, so the system removes it even if the process is killed.
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
        "{name}: only files can be read on this system"
    )))
}

/// Returns true if a file is in chunks. Returns false if it can't be read.
pub(crate) fn is_chunked_at(file: &Path) -> bool {
    is_chunked(file).unwrap_or(false)
}

/// Fails unless `metadata`, which belongs to the argument `named`, describes a file.
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

/// Returns the file that is named as the output; `None` for standard output.
pub(crate) fn target(named: Option<&Path>) -> Option<&Path> {
    named.filter(|named| *named != Path::new(STANDARD))
}

/// Fails if the output is standard output, for commands that need to write files.
pub(crate) fn check_named(output: &Path) -> Result<(), Failure> {
    if output == Path::new(STANDARD) {
        return Err(Failure::usage(
            "this command can't write to standard output: name a file or a folder",
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

    /// Returns the name of the file that [`locate`] finds, and a flag that is true if the file is
    /// in chunks.
    fn found(named: &Path) -> (String, bool) {
        let place = find(named).unwrap();
        let name = place.file.file_name().unwrap().to_str().unwrap().to_owned();
        let is_chunked = place
            .candidate(&OpenObjects::default())
            .unwrap()
            .is_chunked()
            .unwrap();
        (name, is_chunked)
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
        assert_eq!(found(&prefix), ("model.v1.pb".into(), false));
        fs::write(with_extension(&prefix, "cpb"), "").unwrap();
        assert_eq!(found(&prefix), ("model.v1.cpb".into(), true));
        assert_eq!(
            found(&with_extension(&prefix, "pb")),
            ("model.v1.pb".into(), false)
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
        assert_eq!(found(&model), ("model.onnx".into(), false));
        let records = RecordWriter::with_defaults(Vec::new()).finish().unwrap();
        fs::write(&model, records).unwrap();
        assert_eq!(found(&model), ("model.onnx".into(), true));
    }
}
