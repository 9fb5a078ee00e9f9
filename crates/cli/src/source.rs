//! A message that is open, in whatever form it is stored.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use proto_splitter::container::ChunkedFile;
use proto_splitter::lazy::MessageView;
use proto_splitter::merge::{Limits, MergeOptions};

use crate::failure::Failure;
use crate::input::{Form, Input};

/// A file with a message.
pub(crate) enum Source {
    Chunked(Box<ChunkedFile>),
    Plain(File),
}

impl Source {
    pub(crate) fn open(input: &Input, limits: &Limits) -> Result<Self, Failure> {
        match input.form {
            Form::Chunked => Ok(Source::Chunked(Box::new(chunked(input, limits)?))),
            Form::Plain => File::open(&input.file)
                .map(Source::Plain)
                .map_err(|error| Failure::io(&input.file, &error)),
        }
    }

    /// Fails if the target is one of the files that are read, the one with the `value` that goes in
    /// included.
    pub(crate) fn check_apart(
        &self,
        target: &Path,
        input: &Input,
        value: Option<&Path>,
    ) -> Result<(), Failure> {
        let Ok(real) = fs::canonicalize(target) else {
            return Ok(());
        };
        let others = match self {
            Source::Chunked(file) => other_files(input, file),
            Source::Plain(_) => Vec::new(),
        };
        let read = std::iter::once(&input.file).chain(&others);
        let mut read = read.map(PathBuf::as_path).chain(value);
        if read.any(|file| fs::canonicalize(file).is_ok_and(|file| file == real)) {
            let name = target.display();
            return Err(Failure::usage(format!(
                "{name} is what is read, and is not overwritten"
            )));
        }
        Ok(())
    }

    /// The message, to be read in parts.
    pub(crate) fn view(
        &self,
        options: MergeOptions,
    ) -> Result<MessageView<'_, File>, proto_splitter::Error> {
        match self {
            Source::Chunked(file) => Ok(file.view(options)),
            Source::Plain(file) => MessageView::of_plain(file, options),
        }
    }
}

/// A message in chunks, which is opened nowhere else.
pub(crate) fn chunked(input: &Input, limits: &Limits) -> Result<ChunkedFile, Failure> {
    ChunkedFile::open_with(&input.file, limits).map_err(|error| Failure::of(&input.file, &error))
}

/// The other files that have chunks of one, in the order that its trailer counts them in.
pub(crate) fn other_files(input: &Input, file: &ChunkedFile) -> Vec<PathBuf> {
    // Beside the file itself, not beside a link to it.
    let is_link = fs::symlink_metadata(&input.file).is_ok_and(|file| file.is_symlink());
    let real = is_link
        .then(|| fs::canonicalize(&input.file).ok())
        .flatten();
    let folder = real.as_ref().unwrap_or(&input.file).parent();
    let named = file.trailer().metadata().files.iter();
    let of = |path: &String| folder.unwrap_or(Path::new("")).join(path);
    named.map(|file| of(&file.path)).collect()
}
