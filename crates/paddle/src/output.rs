//! Files of a model, from the one message that it is or from other files.

mod files;
mod folder;
mod parameter;
mod receive;

use std::io::Write;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::at_target;
use proto_splitter_core::container::{ChunkedFile, is_chunked};
use proto_splitter_core::merge::MergeOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use self::files::Files;
use self::folder::Staging;
use self::receive::Receiver;
use crate::model::{MODEL, PaddleModel};
use crate::part::FilePart;
use crate::stream::{Layout, copy_range};

/// Which files parameters go to, and how streams are laid out there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrangement {
    /// As they were: the same names and the same bytes.
    #[default]
    Original,
    /// All in one file: `NAME.pdiparams` beside `NAME.pdmodel` or `NAME.json`, and `__params__`
    /// beside any other program.
    Combined(Layout),
    /// A file for each, named by it, and the program as `__model__`.
    Separate(Layout),
}

/// How a model's files are written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    arrangement: Arrangement,
    force: bool,
    progress: Progress,
}

impl WriteOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        WriteOptions {
            arrangement: Arrangement::Original,
            force: false,
            progress: Progress::none(),
        }
    }

    /// Which files parameters go to ([as they were](Arrangement::Original)).
    #[must_use]
    pub const fn arrangement(mut self, arrangement: Arrangement) -> Self {
        self.arrangement = arrangement;
        self
    }

    /// Whether files in a folder that is there already are replaced (no). Others stay.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// A model that was written to files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenModel {
    /// The folder that they are in.
    pub folder: PathBuf,
    /// All of them, the program first.
    pub files: Vec<PathBuf>,
}

/// Writes the files of a model in another arrangement. The folder appears complete or not at all.
///
/// Data is streamed, and so are LoD and rows.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if the folder is there and isn't empty, unless
/// [`force`](WriteOptions::force) is set; [`ErrorKind::NoFolder`] if the folder that it is to be in
/// isn't there; [`ErrorKind::InvalidConfig`] if the arrangement has no place for what the model
/// has; [`ErrorKind::InvalidPath`] if a name would lead outside the folder;
/// [`ErrorKind::SourceChanged`] if a file is no longer what it was; [`ErrorKind::Io`];
/// [`ErrorKind::Cancelled`].
pub fn convert(
    model: &PaddleModel,
    folder: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WrittenModel> {
    let message = model.rope()?;
    write_with(folder.as_ref(), options, |sink| {
        copy_message(&message, message.total_size(), sink, &options.progress)?;
        message.check_unchanged()
    })
}

/// Writes the files of a model from the message that it is: a file in chunks (`.cpb`) or a plain
/// one. Without another [arrangement](WriteOptions::arrangement) they are what they were, byte for
/// byte.
///
/// # Errors
///
/// As [`convert`]; [`ErrorKind::InvalidMessage`] if the file isn't a message of type [`MODEL`], or
/// its fields aren't in the order of their numbers; what is wrong with a file in chunks.
pub fn write_model(
    message: impl AsRef<Path>,
    folder: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WrittenModel> {
    let (message, folder) = (message.as_ref(), folder.as_ref());
    let write = || {
        if is_chunked(message)? {
            return write_chunked(&ChunkedFile::open(message)?, folder, options);
        }
        let part = FilePart::open(message)?;
        write_plain(&part, part.len(), folder, options)
    };
    write().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NoFolder => error,
        _ => error.context(message.display()),
    })
}

/// As [`write_model`], from a file in chunks that is open.
pub(crate) fn write_chunked(
    file: &ChunkedFile,
    folder: &Path,
    options: &WriteOptions,
) -> Result<WrittenModel> {
    match file.trailer().message_type() {
        None | Some(MODEL) => {}
        Some(other) => {
            let message = format!("the message is a {other}, and not a {MODEL}");
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
    }
    let merging = MergeOptions::new().progress(options.progress.clone());
    write_with(folder, options, |mut sink| {
        file.merge_to(&mut sink, &merging)?;
        Ok(())
    })
}

/// As [`write_model`], from a message that is read by position.
pub(crate) fn write_plain(
    message: &dyn ReadAt,
    size: u64,
    folder: &Path,
    options: &WriteOptions,
) -> Result<WrittenModel> {
    write_with(folder, options, |sink| {
        copy_message(message, size, sink, &options.progress)
    })
}

fn copy_message(
    message: &dyn ReadAt,
    size: u64,
    sink: &mut dyn Write,
    progress: &Progress,
) -> Result<()> {
    let meter = progress.meter(size);
    copy_range(message, &(0..size), sink, &mut Vec::new(), &meter)
}

/// Writes the files of the message that `send` writes to a sink.
fn write_with(
    folder: &Path,
    options: &WriteOptions,
    send: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<WrittenModel> {
    let staging = Staging::create(folder, options.force)?;
    let mut files = Files::new(staging, options.arrangement);
    let mut receiver = Receiver::new(&mut files);
    send(&mut receiver).map_err(|error| at_target(error, folder))?;
    receiver
        .finish()
        .map_err(|error| at_target(error, folder))?;
    options.progress.check()?;
    Ok(WrittenModel {
        folder: folder.to_owned(),
        files: files.commit()?,
    })
}
