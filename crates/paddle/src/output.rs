//! Writing the files of a model, given the model's message or an open model.

mod files;
mod incoming;
mod receive;
mod staging;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::{MadeFrom, at_target};
use proto_splitter_core::container::{ChunkedFile, Limits, is_chunked};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, ErrorKind, MessageReader, Result};
use record_file::ReadAt;

use self::files::Files;
use self::receive::Receiver;
use self::staging::Staging;
use crate::model::{MODEL, PaddleModel};
use crate::part::FilePart;
use crate::stream::Layout;

/// The files to which parameters are written, and the layout of the streams in these files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrangement {
    /// The original files, with their names and bytes unchanged.
    #[default]
    Original,
    /// All parameters in one file. It is called `NAME.pdiparams` if the program is `NAME.pdmodel`
    /// or `NAME.json`, and `__params__` if the program has another name.
    Combined(Layout),
    /// One file per parameter, named after the parameter. The program is called `__model__`. The
    /// `.pdiparams.info` is [omitted](WrittenModel::left_out).
    Separate(Layout),
}

/// Options for writing a model's files to a folder.
#[derive(Clone, Debug, Default)]
pub struct PaddleWriteOptions {
    arrangement: Arrangement,
    force: bool,
    threads: Option<NonZeroUsize>,
    progress: Progress,
}

impl PaddleWriteOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        PaddleWriteOptions {
            arrangement: Arrangement::Original,
            force: false,
            threads: None,
            progress: Progress::none(),
        }
    }

    proto_splitter_core::options! {
        /// Sets the arrangement of the parameters in files. Default: [the original
        /// files](Arrangement::Original).
        const arrangement, get_arrangement: Arrangement;

        /// Sets whether the output may be written to a folder that already has files. Default:
        /// false.
        ///
        /// Existing files with the same names as written files are replaced once all files have
        /// been written completely, the program last. Other files are unchanged. Nothing is written
        /// if an input file would be replaced. If readers would take one of the other files for a
        /// part of the written model, nothing is replaced, and the error names that file. Next to a
        /// `__model__`, such a file is a `__params__`. Next to a `.pdmodel` or `.json`, it is a
        /// `.pdiparams`, a `.pdiparams.info` or the other kind of program, with the same prefix.
        const force, get_force: bool;

        /// Sets the number of threads that copy data; `None` means one per core. Default: `None`.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets the progress listener, which can also cancel the operation. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// A summary of a model that was written to files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenModel {
    /// Folder that contains the written files.
    pub folder: PathBuf,
    /// Paths of all written files, the program first.
    pub files: Vec<PathBuf>,
    /// Names of original files that were omitted, since they don't fit the
    /// [arrangement](Arrangement). A `.pdiparams.info` is omitted if each parameter is written to a
    /// separate file. Paddle can run a model without a `.pdiparams.info`.
    pub left_out: Vec<String>,
}

/// Writes the files of a model to a folder, in the arrangement that the options set. A folder that
/// doesn't exist appears with all of its files at once. In an existing folder, files appear once all
/// are complete, the program last.
///
/// Data, LoD and rows are streamed, so memory use doesn't depend on their size.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if the folder exists and isn't empty, unless
/// [`force`](PaddleWriteOptions::force) is set; [`ErrorKind::NoFolder`] if the folder's parent
/// doesn't exist; [`ErrorKind::InvalidConfig`] if the arrangement can't represent the model, a file
/// of the input would be replaced, or readers would take an existing file for [a part of the
/// written model](PaddleWriteOptions::force); [`ErrorKind::InvalidPath`] if a file's name would
/// lead outside of the folder; [`ErrorKind::SourceChanged`] if a source file has changed since it
/// was opened; [`ErrorKind::Io`]; [`ErrorKind::Cancelled`].
pub fn convert(
    model: &PaddleModel,
    folder: impl AsRef<Path>,
    options: &PaddleWriteOptions,
) -> Result<WrittenModel> {
    let spans = Arc::new(model.spans()?);
    let made_from = MadeFrom::files(spans.files());
    let message = MessageReader::new(Arc::clone(&spans) as Arc<dyn ReadAt>, spans.total_size());
    write_with(folder.as_ref(), made_from, options, &message, || {
        spans.check_unchanged()
    })
}

/// Writes the files of a model from its message, which is in a chunked file (`.cpb`) or a plain
/// file. The written files equal the original files byte for byte, unless another
/// [arrangement](PaddleWriteOptions::arrangement) is set.
///
/// # Errors
///
/// The errors of [`convert`]; [`ErrorKind::InvalidMessage`] if the file isn't a message of type
/// [`MODEL`], or the message's fields aren't in the order of their numbers; any error from reading
/// a chunked file.
pub fn write_model(
    message: impl AsRef<Path>,
    folder: impl AsRef<Path>,
    options: &PaddleWriteOptions,
) -> Result<WrittenModel> {
    let (message, folder) = (message.as_ref(), folder.as_ref());
    let write = || {
        let (message, made_from) = if is_chunked(message)? {
            let file = ChunkedFile::open_shared(message, &Limits::new())?;
            // The message may be in several files.
            let made_from = MadeFrom::files(file.paths());
            (MessageReader::of_chunks(file, None)?, made_from)
        } else {
            let part = FilePart::open(message)?;
            let size = part.len();
            let reader = MessageReader::new(Arc::new(part), size);
            (reader, MadeFrom::files([message]))
        };
        write_message(&message, made_from, folder, options)
    };
    write().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NoFolder => error,
        _ => error.in_file(message),
    })
}

/// Writes the files of a model from an open message, as [`write_model`] does from a file.
pub(crate) fn write_message(
    message: &MessageReader,
    made_from: MadeFrom,
    folder: &Path,
    options: &PaddleWriteOptions,
) -> Result<WrittenModel> {
    let file = message.chunked_file();
    match file.and_then(|file| file.trailer().message_type()) {
        None | Some(MODEL) => write_with(folder, made_from, options, message, || Ok(())),
        Some(other) => {
            let message = format!("the message is a {other}, not a {MODEL}");
            Err(Error::new(ErrorKind::InvalidMessage, message))
        }
    }
}

/// Writes the files of a model from its message. Once all bytes of the message have been read,
/// calls `check`, and fails if `check` fails.
fn write_with(
    folder: &Path,
    made_from: MadeFrom,
    options: &PaddleWriteOptions,
    message: &MessageReader,
    check: impl FnOnce() -> Result<()>,
) -> Result<WrittenModel> {
    let staging = Staging::create(folder, made_from, options.force)?;
    let size = message.total_size();
    let meter = options.progress.meter(size);
    let mut files = Files::new(staging, options, message, &meter);
    let write = || {
        let mut receiver = Receiver::new(&mut files, &meter, size);
        message.write_around(&mut receiver, &mut |receiver, range| {
            receiver.leave_out(range)
        })?;
        receiver.finish()?;
        check()
    };
    write().map_err(|error| at_target(error, folder))?;
    options.progress.check()?;
    files.commit(folder)
}
