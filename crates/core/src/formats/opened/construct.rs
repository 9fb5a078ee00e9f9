//! Making an [`Opened`] from files, bytes and archives.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use prost_reflect::MessageDescriptor;
use record_file::ReadAt;

use super::super::tensor_table::Shared;
use super::super::{Archive, Candidate, Format, OpenOptions, Registry};
use super::{Message, Opened};
use crate::message::{ChunkedFile, Piece, StoredMessage};
use crate::{Error, ErrorKind, Result};

/// Constructors that implementations of [`Format`](super::super::Format) call.
impl Opened {
    /// Opens a file that is a message, as [`of_input`](Self::of_input) opens an input.
    ///
    /// # Errors
    ///
    /// The errors of [`of_input`](Self::of_input).
    pub fn of_file(
        path: impl AsRef<Path>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        Opened::of_input(&Candidate::new(path.as_ref())?, descriptor, options)
    }

    /// Opens an input that is a message, in chunks or in one piece. A type in the options takes
    /// precedence over `descriptor`, which takes precedence over the type that a file in chunks
    /// names.
    ///
    /// # Errors
    ///
    /// If the input can't be opened, or is in chunks and damaged.
    pub fn of_input(
        input: &Candidate<'_>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let descriptor = descriptor.into();
        if input.is_chunked()? {
            return Opened::of_chunks(input, |_| descriptor, options);
        }
        let bytes = input.source()?;
        let file = input.file()?;
        let file = file.map(|file| (input.path().to_owned(), Arc::new(file)));
        let stored = Piece::of_object(bytes, file);
        let stored = Box::new(stored.map_err(|error| error.in_file(input.path()))?);
        let descriptor = options.descriptor.clone().or(descriptor);
        let path = input.is_local().then_some(input.path());
        Ok(Opened::of_message(stored, descriptor, options).reading(path))
    }

    /// Wraps a whole message that is read by position, such as one composed of several files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the size is unavailable.
    pub fn of_reader(
        bytes: Arc<dyn ReadAt>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let stored = Box::new(Piece::composed(bytes)?);
        let descriptor = options.descriptor.clone().or_else(|| descriptor.into());
        Ok(Opened::of_message(stored, descriptor, options))
    }

    /// Wraps named tensors that aren't in a message.
    pub fn of_archive(archive: impl Archive + 'static) -> Opened {
        Opened::of_parts(None, Some(Box::new(archive)), OpenOptions::new())
    }

    /// Sets the archive that provides the message's tensors by name.
    #[must_use]
    pub fn with_archive(mut self, archive: impl Archive + 'static) -> Self {
        self.archive = Some(Box::new(archive));
        self
    }

    /// Sets the archive that some of the message's bytes come from, so that verifying the message
    /// verifies the archive.
    #[must_use]
    pub fn checked_by(mut self, archive: impl Archive + 'static) -> Self {
        self.checked_by = Some(Box::new(archive));
        self
    }

    /// Declares that reading the bytes of the message verifies their checksums. Verifying the
    /// message then reads all of its bytes.
    #[must_use]
    pub fn checked_when_read(mut self) -> Self {
        self.is_checked_when_read = true;
        self
    }

    /// Adds files to the list of files from which the input is read.
    #[must_use]
    pub fn reading<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.files.extend(files.into_iter().map(Into::into));
        self
    }

    /// Opens a file in chunks. `known` looks up the message's type by the type's name, which the
    /// file contains.
    pub(in crate::formats) fn of_chunks(
        input: &Candidate<'_>,
        known: impl FnOnce(&str) -> Option<MessageDescriptor>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let file = input.chunked(&options.limits);
        let opened = file.and_then(|file| Opened::of_chunked(file, known, options));
        let opened = opened.map_err(|error| error.in_file(input.path()))?;
        Ok(opened.reading_chunks(input))
    }

    /// Wraps a message in chunks. `known` looks up the message's type by the type's name, which the
    /// file contains.
    pub(in crate::formats) fn of_chunked(
        file: ChunkedFile<Shared>,
        known: impl FnOnce(&str) -> Option<MessageDescriptor>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        // The required root is set before any chunk is read from the file.
        if let Some(root) = &options.root {
            file.require_root(root)?;
        }
        let descriptor = type_of(&file, known, options)?;
        let stored = Box::new(Arc::new(file));
        Ok(Opened::of_message(stored, descriptor, options))
    }

    /// Adds the files of a message in chunks to the list of files: the input itself, and the files
    /// that its trailer names.
    pub(in crate::formats) fn reading_chunks(self, input: &Candidate<'_>) -> Self {
        if !input.is_local() {
            return self;
        }
        let others = self.chunked().map(|file| file.store().paths());
        let others = others.unwrap_or_default().iter().skip(1).cloned();
        let path = input.path().to_owned();
        let files: Vec<_> = [path].into_iter().chain(others).collect();
        self.reading(files)
    }

    /// Sets the type of a message in chunks, unless the type is already known or the trailer names
    /// it.
    pub(in crate::formats) fn of_type(
        mut self,
        known: impl FnOnce() -> Option<MessageDescriptor>,
    ) -> Self {
        if self.recorded_type().is_none()
            && let Some(message) = &mut self.message
            && message.descriptor.is_none()
        {
            message.descriptor = known();
        }
        self
    }

    /// Fails if the options require a Merkle root, and the input isn't checked against it.
    pub(in crate::formats) fn with_required_root(self, options: &OpenOptions) -> Result<Opened> {
        let Some(root) = &options.root else {
            return Ok(self);
        };
        let what = match self.chunked() {
            Some(file) if file.requires_root() && self.archive.is_none() => return Ok(self),
            Some(_) => "it is read from other files, too, which no Merkle root covers",
            None => "it isn't a message in chunks, so it has no Merkle root",
        };
        let message = format!("{what}, where {root} is expected");
        Err(Error::new(ErrorKind::ChecksumMismatch, message).in_file(&self.input))
    }

    /// Sets the path or URL that errors and reports use for the input.
    #[must_use]
    pub fn named(mut self, input: impl Into<PathBuf>) -> Self {
        self.input = input.into();
        self
    }

    pub(in crate::formats) fn found_by(
        mut self,
        registry: Registry,
        format: Option<&'static dyn Format>,
    ) -> Self {
        let of_type = || registry.of_type(self.descriptor()?.full_name());
        self.format = format.or_else(of_type);
        self.registry = registry;
        self
    }

    fn of_message(
        stored: Box<dyn StoredMessage>,
        descriptor: Option<MessageDescriptor>,
        options: &OpenOptions,
    ) -> Opened {
        let message = Message { stored, descriptor };
        Opened::of_parts(Some(message), None, options.clone())
    }

    fn of_parts(
        message: Option<Message>,
        archive: Option<Box<dyn Archive>>,
        options: OpenOptions,
    ) -> Opened {
        Opened {
            message,
            archive,
            checked_by: None,
            is_checked_when_read: false,
            file_offsets: None,
            input: PathBuf::new(),
            files: Vec::new(),
            outside: Vec::new(),
            format: None,
            registry: Registry::new(&[]),
            options,
            table: OnceLock::new(),
            lods: OnceLock::new(),
        }
    }
}

/// Returns the type of a message in chunks: the type in the options, or else the type that `known`
/// returns for the type name in the file, or else the type in the file's schema.
fn type_of(
    file: &ChunkedFile<Shared>,
    known: impl FnOnce(&str) -> Option<MessageDescriptor>,
    options: &OpenOptions,
) -> Result<Option<MessageDescriptor>> {
    let name = file.trailer().message_type();
    let given = || options.schemas.as_ref()?.get_message_by_name(name?);
    let asked = options.descriptor.clone().or_else(given);
    match asked.or_else(|| known(name.unwrap_or_default())) {
        Some(known) => Ok(Some(known)),
        None => file.descriptor(),
    }
}
