//! Dividing a message with a long list into several messages, so that other tools can open them.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{MadeFrom, TemporaryFolder, create_new};
use proto_splitter_core::formats::Opened;
use proto_splitter_core::path::{FieldPath, PathQuery, Step};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::view::{MessageView, Piece, PieceOptions};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::at;

/// Size of the buffer for writing a piece to its file, in bytes.
const GATHER: usize = 256 << 10;

/// Options for [`pieces`].
#[derive(Clone, Debug, Default)]
pub struct PiecesOptions {
    pieces: PieceOptions,
    progress: Option<Progress>,
}

impl PiecesOptions {
    /// Returns the defaults: one piece with all elements of the list, without the message's other
    /// fields.
    #[must_use]
    pub fn new() -> Self {
        PiecesOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the maximum size and the contents of each piece. Default: [`PieceOptions::new`].
        ref pieces, get_pieces: PieceOptions;

        /// Sets progress reporting and cancellation. Default: the progress set when the input was
        /// opened.
        optional progress, get_progress: Progress;
    }
}

/// The result of [`pieces`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PiecesReport {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub input: PathBuf,
    /// Path of the folder that was written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// Written pieces, in the order of their elements.
    pub pieces: Vec<WrittenPiece>,
}

/// A piece of the message, which is a file in the output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WrittenPiece {
    /// Path of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Index of the piece's first element in the list.
    pub first: u64,
    /// Number of elements in the piece.
    pub count: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
}

/// Divides a message by the elements of a repeated field, and writes each piece to a file in a new
/// folder. Each piece is a message of the input's type. The folder appears complete or not at all.
///
/// `field` is the path of the repeated field, such as `packet` or `graph.node`. If the message that
/// contains the field is encoded in several parts, as in an XLA split proto, the parts are joined
/// first, which requires the type of the whole message.
///
/// # Errors
///
/// - [`ErrorKind::InvalidPath`] if the path doesn't name a repeated field, or the field is empty.
/// - [`ErrorKind::InvalidConfig`] if the input has no message.
/// - [`ErrorKind::AlreadyExists`] if the folder exists and is not empty.
/// - Any error if the input is damaged, or something can't be read or written.
pub fn pieces(
    input: &Opened,
    field: &str,
    output: impl AsRef<Path>,
    options: &PiecesOptions,
) -> Result<PiecesReport> {
    let output = output.as_ref();
    if is_taken(output) {
        let message = format!(
            "{}: already exists; pieces are written to a new folder",
            output.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    Ok(PiecesReport {
        input: input.input().to_owned(),
        output: output.to_owned(),
        pieces: write(input, field, output, options)?,
    })
}

/// Returns true if the output path exists, unless it is an empty folder, which a new folder can
/// replace.
fn is_taken(output: &Path) -> bool {
    let has_files = || fs::read_dir(output).is_ok_and(|mut all| all.next().is_some());
    output.is_file() || (output.is_dir() && has_files())
}

fn write(
    input: &Opened,
    field: &str,
    output: &Path,
    options: &PiecesOptions,
) -> Result<Vec<WrittenPiece>> {
    let failed = |error: Error| at(input, error);
    let at_output = |error: std::io::Error| Error::from(error).in_file(output);
    let mut reading = input.reading_options();
    if let Some(progress) = &options.progress {
        reading = reading.progress(progress.clone());
    }
    let mut view = input.view_with(reading.clone()).map_err(failed)?;
    view.check_type().map_err(failed)?;
    let path = path_of(input, field).map_err(failed)?;
    let joined = joined(input, &view, &path).map_err(failed)?;
    if let Some(joined) = &joined {
        view = joined.view_with(reading).map_err(failed)?;
    }
    let temporary = TemporaryFolder::beside(output, None).map_err(at_output)?;
    let mut pieces = view.pieces(&path, &options.pieces).map_err(failed)?;
    let made_from = MadeFrom::files(input.files());
    let mut written = Vec::new();
    let too_large = |error: Error, at: u64| failed(with_largest_in(error, &view, &path, at));
    let mut first = 0;
    while let Some(piece) = pieces
        .next()
        .transpose()
        .map_err(|error| too_large(error, first))?
    {
        first = piece.first + piece.count;
        let name = format!("{:05}.pb", written.len() + 1);
        let path = temporary.path().join(&name);
        let mut write = || -> Result<()> {
            let file = create_new(&path, &made_from)?;
            let mut file = BufWriter::with_capacity(GATHER, file);
            pieces.write_to(&mut file)?;
            file.flush()?;
            Ok(file.get_ref().sync_all()?)
        };
        let file = output.join(&name);
        write().map_err(|error| match error.kind() {
            ErrorKind::Io => error.in_file(&file),
            _ => failed(error),
        })?;
        written.push(WrittenPiece::new(file, piece));
    }
    if written.is_empty() {
        let message = format!("it has no {field}");
        return Err(failed(Error::new(ErrorKind::InvalidPath, message)));
    }
    open_to_others(temporary.path()).map_err(at_output)?;
    fs::rename(temporary.path(), output).map_err(at_output)?;
    temporary.keep();
    Ok(written)
}

/// Adds the largest parts of the element at index `at` to an error about that element's size.
fn with_largest_in(error: Error, view: &MessageView<'_>, list: &FieldPath, at: u64) -> Error {
    let mut path = list.clone();
    match path.pop() {
        Some(field) => path.push(Step::index(field.field.0, at)),
        None => return error,
    }
    with_largest(error, view, &path)
}

/// Returns the input in canonical form, if the message that contains the field is encoded in
/// several parts and the input's type is known; otherwise `None`.
fn joined(input: &Opened, view: &MessageView<'_>, field: &FieldPath) -> Result<Option<Opened>> {
    let mut above = field.clone();
    above.pop();
    // If there is no message at this path, looking up the field's elements later reports the error.
    let is_in_pieces = view.is_in_pieces(&above).unwrap_or(false);
    (is_in_pieces && input.descriptor().is_some())
        .then(|| input.canonical())
        .transpose()
}

/// Returns the path of a field from its text. The text may select list elements by name.
fn path_of(input: &Opened, field: &str) -> Result<FieldPath> {
    let query = PathQuery::parse(field, input.descriptor())?;
    if let Some(path) = query.as_path() {
        return Ok(path);
    }
    // A query selects values rather than fields, so this query selects the field's first element.
    let mut path = input.find(&format!("{field}[0]"))?;
    if let Some(step) = path.pop() {
        path.push(Step::field(step.field.0));
    }
    Ok(path)
}

/// Changes a private temporary folder's permissions to those of an ordinary folder.
#[cfg(unix)]
fn open_to_others(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl WrittenPiece {
    fn new(file: PathBuf, piece: Piece) -> Self {
        WrittenPiece {
            file,
            first: piece.first,
            count: piece.count,
            bytes: piece.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prost_reflect::ReflectMessage as _;
    use prost_reflect::prost::Message as _;
    use prost_reflect::prost_types::{
        FileDescriptorProto, FileOptions, UninterpretedOption, uninterpreted_option::NamePart,
    };
    use proto_splitter_core::formats::OpenOptions;

    use super::*;

    /// Returns a `FileDescriptorProto` with one option, which has the given name.
    fn file(name: &str) -> FileDescriptorProto {
        let part = NamePart {
            name_part: name.into(),
            is_extension: false,
        };
        FileDescriptorProto {
            options: Some(FileOptions {
                uninterpreted_option: vec![UninterpretedOption {
                    name: vec![part],
                    ..UninterpretedOption::default()
                }],
                ..FileOptions::default()
            }),
            ..FileDescriptorProto::default()
        }
    }

    #[test]
    fn a_message_that_is_written_in_several_pieces_is_put_together_first() {
        let files = ["a", "b"].map(file);
        let bytes = files.each_ref().map(|file| file.encode_to_vec()).concat();
        let opened =
            Opened::of_reader(Arc::new(bytes), files[0].descriptor(), &OpenOptions::new()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("pieces");
        let options = PiecesOptions::new().pieces(PieceOptions::new().max_count(1));
        let report = pieces(&opened, "options.uninterpreted_option", &output, &options);
        let written: Vec<_> = (report.unwrap().pieces.iter())
            .map(|piece| FileDescriptorProto::decode(&*fs::read(&piece.file).unwrap()).unwrap())
            .collect();
        assert_eq!(written, files);
    }
}
