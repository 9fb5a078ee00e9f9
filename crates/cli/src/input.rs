//! An input that a command has opened.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ReadOptions;
use proto_splitter::record_file::ReadAt;
use proto_splitter::view::MessageView;
use proto_splitter::{Error, ErrorKind, Opened};

use crate::apart::check_apart;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::place::{CHUNKED, PLAIN, Place};
use crate::types::Types;

/// An opened input, and the location that its argument refers to.
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
    /// Creates an input from `opened`, which was opened at `place`.
    pub(crate) fn new(place: Place, opened: Opened) -> Input {
        Input { place, opened }
    }

    /// Converts the message to canonical form.
    pub(crate) fn canonical(self) -> Result<Input, Failure> {
        self.check_message()?;
        let opened = self.opened.canonical();
        let opened = opened.map_err(|error| Failure::of(self.path(), &error))?;
        Ok(Input { opened, ..self })
    }

    /// Adds files to the list of files from which the input is read.
    pub(crate) fn reading(self, files: impl IntoIterator<Item = PathBuf>) -> Input {
        let opened = self.opened.reading(files);
        Input { opened, ..self }
    }

    /// Returns the path of the file that contains the message or, if the message is assembled from
    /// several files, the argument.
    pub(crate) fn file(&self) -> &Path {
        &self.place.file
    }

    /// Returns the folder if the argument is a folder and one of its files contains the message.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.place.folder.as_deref()
    }

    /// Returns the path of the folder if the argument is a folder, and otherwise the path of the
    /// file that contains the input.
    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the chunked file, for a command on its chunks. Fails if the message isn't in chunks.
    pub(crate) fn require_chunks(&self) -> Result<&ChunkedFile<Arc<dyn ReadAt>>, Failure> {
        let chunks = self.opened.require_chunks();
        chunks.map_err(|error| Failure::usage(format!("{}: {error}", shown(self.file()))))
    }

    /// Returns the file extension of the input's form: `cpb` for a chunked file, otherwise `pb`.
    pub(crate) fn extension(&self) -> &'static str {
        self.opened.chunked().map_or(PLAIN, |_| CHUNKED)
    }

    /// Returns true if the input has tensors but no message.
    pub(crate) fn is_archive(&self) -> bool {
        !self.opened.has_message()
    }

    /// Returns true if the input is an archive or a message assembled from several files, rather
    /// than a message in one file.
    pub(crate) fn is_special(&self) -> bool {
        !self.opened.is_single()
    }

    /// Returns true if the input's format describes the input better than a general report about a
    /// message does.
    pub(crate) fn is_told(&self) -> bool {
        self.opened.is_described_by_format()
    }

    /// Returns the title of the input's format, as a noun without an article.
    pub(crate) fn title(&self) -> &'static str {
        let format = self.opened.format();
        format.map_or("archive", |format| format.title())
    }

    /// Returns a view of the message. Fails if the message's fields contradict the requested type.
    pub(crate) fn typed_view(&self) -> Result<MessageView<'_>, Error> {
        self.typed_view_with(self.opened.reading_options())
    }

    /// Returns a view of the message, as [`typed_view`](Self::typed_view) does, with the given
    /// options.
    pub(crate) fn typed_view_with(&self, options: ReadOptions) -> Result<MessageView<'_>, Error> {
        if self.is_archive() {
            let message = format!("{}: has tensors but no message", self.title());
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let view = self.opened.view_with(options)?;
        view.check_type()?;
        Ok(view)
    }

    /// Fails if the input contains no message.
    pub(crate) fn check_message(&self) -> Result<(), Failure> {
        if !self.is_archive() {
            return Ok(());
        }
        let (file, title) = (self.file().display(), self.title());
        Err(Failure::usage(format!(
            "{file}: {title}: has tensors but no message"
        )))
    }

    /// Fails if the output `target` is a file of the input.
    pub(crate) fn check_apart(&self, target: &Path) -> Result<(), Failure> {
        check_apart(self.opened.files(), target)
    }

    /// Fails if the type that a chunked file records differs from the requested type.
    pub(crate) fn check_asked(&self, types: &Types) -> Result<(), Failure> {
        match (types.asked(), self.recorded_type()) {
            (Some(asked), Some(said)) if asked.full_name() != said => {
                let (file, asked) = (shown(self.file()), asked.full_name());
                Err(Failure::usage(format!("{file}: holds {said}, not {asked}")))
            }
            _ => Ok(()),
        }
    }
}
