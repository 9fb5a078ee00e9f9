//! A message that is open, in whatever form it is stored.

use std::fs::File;

use proto_splitter::container::ChunkedFile;
use proto_splitter::lazy::MessageView;
use proto_splitter::merge::MergeOptions;

use crate::failure::Failure;
use crate::input::{Form, Input};

/// A file with a message.
pub(crate) enum Source {
    Chunked(Box<ChunkedFile>),
    Plain(File),
}

impl Source {
    pub(crate) fn open(input: &Input) -> Result<Self, Failure> {
        match input.form {
            Form::Chunked => ChunkedFile::open(&input.file)
                .map(|file| Source::Chunked(Box::new(file)))
                .map_err(|error| Failure::of(&input.file, &error)),
            Form::Plain => File::open(&input.file)
                .map(Source::Plain)
                .map_err(|error| Failure::io(&input.file, &error)),
        }
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
