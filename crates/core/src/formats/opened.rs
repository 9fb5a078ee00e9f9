//! An open input of any format.

mod construct;
mod file_offsets;
mod outside;
mod tensors;
mod write;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use record_file::ReadAt;

pub use file_offsets::FileOffsets;

use super::lod_table::LodTable;
use super::tensor_table::{Shared, TensorTable};
use super::{Archive, Checks, Format, OpenOptions, Registry, Verified};
use crate::container::ChunkedFile;
use crate::error::undecodable;
use crate::features::decode_dynamic;
use crate::merge::ReadOptions;
use crate::message::canonical::canonical;
use crate::message::{MessageReader, StoredMessage};
use crate::path::{FieldPath, PathQuery};
use crate::progress::Progress;
use crate::spans::read_through;
use crate::split::Source;
use crate::view::MessageView;
use crate::view::size_tree::{SizeTree, TreeOptions, measure};
use crate::{Error, ErrorKind, Result};

/// An open input: a message, an archive of named tensors, or both. [`Registry::open`] and the
/// [formats](Format) create it.
///
/// Opening reads headers. Everything else is read on demand.
#[derive(Debug)]
pub struct Opened {
    message: Option<Message>,
    archive: Option<Box<dyn Archive>>,
    /// Archive that provides some of the message's bytes, and verifies their checksums.
    checked_by: Option<Box<dyn Archive>>,
    /// True if reading the bytes of the message verifies their checksums.
    is_checked_when_read: bool,
    /// Conversion from offsets in the message to offsets in the file, for a file with other bytes
    /// between the message's bytes.
    file_offsets: Option<Arc<dyn FileOffsets>>,
    /// Path or URL of the input; empty if it was opened from bytes.
    input: PathBuf,
    files: Vec<PathBuf>,
    /// Files that the message refers to without including their bytes.
    outside: Vec<PathBuf>,
    format: Option<&'static dyn Format>,
    /// Formats whose rules apply to the content.
    registry: Registry,
    options: OpenOptions,
    /// The tensors in the message; unset until they are listed.
    table: OnceLock<TensorTable>,
    /// The LoD of the tensors in the message; unset until the first request.
    lods: OnceLock<LodTable>,
}

/// A message that is read from its source on demand.
struct Message {
    stored: Box<dyn StoredMessage>,
    descriptor: Option<MessageDescriptor>,
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let descriptor = self.descriptor.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("Message")
            .field("descriptor", &descriptor)
            .field("chunked", &self.stored.chunked().is_some())
            .finish_non_exhaustive()
    }
}

#[cold]
fn untyped() -> Error {
    Error::new(ErrorKind::SchemaNeeded, "no type is known for the message")
}

/// Methods that describe an open input and read its content. A path is a [`PathQuery`] that leads
/// to one value, such as `node["relu"].attr["value"].tensor`. If the message's type is unknown, the
/// path consists of field numbers.
impl Opened {
    /// Returns the format; `None` for a message of an unknown format.
    pub fn format(&self) -> Option<&'static dyn Format> {
        self.format
    }

    /// Returns the registry whose formats apply to the content: the registry that opened the input,
    /// or an empty one for an input that wasn't opened by a [`Registry`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::formats::{OpenOptions, Opened};
    ///
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x01".to_vec()), None, &OpenOptions::new())?;
    /// assert!(opened.registry().formats().is_empty());
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn registry(&self) -> Registry {
        self.registry
    }

    /// Returns the path or URL of the input; empty if it was opened from bytes.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Returns true if the caller specified the message's type, or schemas to find the type in.
    pub fn is_type_given(&self) -> bool {
        let schemas = self.options.schemas.as_ref();
        self.options.descriptor.is_some() || schemas.is_some_and(|all| all.files().len() > 0)
    }

    /// Returns the input's properties, as names and values. For a model, these are its inputs and
    /// outputs, and its opsets or signatures.
    ///
    /// # Errors
    ///
    /// The errors of [`Format::properties`].
    pub fn properties(&self) -> Result<Vec<(String, String)>> {
        match (self.format, &self.archive) {
            (Some(format), _) => format.properties(self),
            (None, Some(archive)) => archive.properties(),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Returns the files that the input is read from, the main one first; empty if it is read from
    /// other sources.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the type of the message; `None` if there is no message, or its type is unknown.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.message.as_ref()?.descriptor.as_ref()
    }

    /// Returns the chunked file that contains the message; `None` if the message isn't in chunks.
    pub fn chunked(&self) -> Option<&ChunkedFile<Arc<dyn ReadAt>>> {
        self.stored()?.chunked().map(Arc::as_ref)
    }

    /// Returns the name of the type that is recorded in a chunked file; `None` if the file records
    /// no type, or the message isn't in chunks.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x07".to_vec()), None, &OpenOptions::new())?;
    /// assert_eq!(opened.recorded_type(), None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn recorded_type(&self) -> Option<&str> {
        self.chunked()?.trailer().message_type()
    }

    /// Returns the bytes of the message and its size in bytes; `None` if there is no message, or it
    /// is in chunks.
    pub fn plain(&self) -> Option<(&Arc<dyn ReadAt>, u64)> {
        self.stored()?.plain()
    }

    /// Returns the chunked file that contains the message, for operations on its chunks.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x07".to_vec()), None, &OpenOptions::new())?;
    /// let error = opened.require_chunks().err().unwrap();
    /// assert_eq!(error.to_string(), "one message, not in chunks");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the message isn't in chunks, or there is no message.
    pub fn require_chunks(&self) -> Result<&ChunkedFile<Arc<dyn ReadAt>>> {
        let message = "one message, not in chunks";
        self.chunked()
            .ok_or_else(|| Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Returns the bytes of the message and its size, for operations on a message in one piece.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x07".to_vec()), None, &OpenOptions::new())?;
    /// let (_, size) = opened.require_plain()?;
    /// assert_eq!(size, 2);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the message is in chunks, or there is no message.
    pub fn require_plain(&self) -> Result<(&Arc<dyn ReadAt>, u64)> {
        let message = "the message is in chunks already, but must be in one piece";
        let plain = self.message()?.stored.plain();
        plain.ok_or_else(|| Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Returns the size of the message in bytes, if it is known without a merge. The size is known
    /// if the message is in one piece, or if the trailer of a chunked file declares the size.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x07".to_vec()), None, &OpenOptions::new())?;
    /// assert_eq!(opened.known_size(), Some(2));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn known_size(&self) -> Option<u64> {
        self.stored()?.known_size()
    }

    /// Returns true if reading the bytes of the message verifies their checksums, as declared by
    /// [`checked_when_read`](Self::checked_when_read).
    pub fn is_checked_when_read(&self) -> bool {
        self.is_checked_when_read
    }

    /// Returns the message for random access, however it is stored. A message in chunks is merged
    /// while it is read.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// use record_file::ReadAt;
    ///
    /// let opened = Opened::of_reader(Arc::new(b"\x08\x07".to_vec()), None, &OpenOptions::new())?;
    /// let mut value = [0];
    /// opened.reader()?.read_exact_at(1, &mut value)?;
    /// assert_eq!(value, [7]);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`ChunkedFile::plan`]; [`ErrorKind::InvalidConfig`] if there is no message.
    pub fn reader(&self) -> Result<MessageReader> {
        self.message()?.stored.reader(&self.reading_options())
    }

    /// Returns the same input with its message in canonical form, which is C++'s deterministic
    /// serialization: fields sorted by number, map entries by key, and unknown fields last. Values
    /// are read from their sources on demand.
    ///
    /// ```
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// # use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    /// // A package, a name, and another name: the last of them counts.
    /// let bytes: std::sync::Arc<dyn record_file::ReadAt> =
    ///     std::sync::Arc::new(b"\x12\x01p\x0a\x01a\x0a\x01b");
    /// let file = FileDescriptorProto::default().descriptor();
    /// let opened = Opened::of_reader(bytes, file, &OpenOptions::new())?;
    /// assert_eq!(opened.canonical()?.bytes()?, b"\x0a\x01b\x12\x01p"[..]);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no message; [`ErrorKind::SchemaNeeded`] if its type
    /// is unknown; [`ErrorKind::InvalidMessage`] if it breaks the wire format, or a string that
    /// parsers require to be UTF-8 isn't.
    pub fn canonical(&self) -> Result<Opened> {
        self.check_complete()?;
        let Some(descriptor) = self.message()?.descriptor.as_ref() else {
            let message = "the canonical form of a message depends on its type, and none is known";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let message: Shared = self.reader()?.into();
        let canonical = Arc::new(canonical(&message, descriptor)?);
        let opened = Opened::of_reader(canonical, descriptor.clone(), &self.options)?;
        let opened = opened.reading(self.files.clone());
        Ok(opened.found_by(self.registry, self.format))
    }

    /// Returns the file whose bytes are exactly the message; `None` if the message is in chunks, or
    /// composed of several files.
    pub fn message_file(&self) -> Option<&Path> {
        self.stored()?.file().map(|(path, _)| path)
    }

    /// Returns true if the message is stored as one file or object, in chunks or byte for byte.
    /// False if there is no message, or it is composed of several files.
    pub fn is_single(&self) -> bool {
        self.stored().is_some_and(StoredMessage::is_single)
    }

    /// Returns true if there is a message; false for an archive that only has tensors.
    pub fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Returns true if the input's format describes the input better than a generic message report
    /// does: if there is no message, or the message is composed of several files, or the input has
    /// an archive and the caller didn't give the message's type.
    pub fn is_described_by_format(&self) -> bool {
        !self.is_single() || (self.archive.is_some() && !self.is_type_given())
    }

    /// Returns the options for reading the message: its type, if known, and the options with which
    /// the input was opened.
    pub fn reading_options(&self) -> ReadOptions {
        self.options.reading(self.descriptor().cloned())
    }

    /// Returns the archive of named tensors; `None` if the input is only a message.
    pub fn archive(&self) -> Option<&dyn Archive> {
        self.archive.as_deref()
    }

    /// Decodes the message as a generated type.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes); [`ErrorKind::InvalidMessage`] if the bytes are not a
    /// message of that type.
    pub fn read<M: prost::Message + Default>(&self) -> Result<M> {
        M::decode(self.bytes()?).map_err(undecodable)
    }

    /// Decodes the message as its known type.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read); [`ErrorKind::SchemaNeeded`] if the type is unknown.
    pub fn read_dynamic(&self) -> Result<DynamicMessage> {
        let Some(descriptor) = self.message()?.descriptor.clone() else {
            let message = "no type is known for the message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        decode_dynamic(descriptor, self.bytes()?).map_err(undecodable)
    }

    /// Returns the value at a path. Reads only the data along the path.
    ///
    /// # Errors
    ///
    /// The errors of [`MessageView::get`]; [`ErrorKind::InvalidPath`] if the path can't be parsed.
    pub fn get(&self, path: &str) -> Result<Bytes> {
        self.view()?.get(&self.find(path)?)
    }

    /// Returns the path of the only value that a query matches, such as `node["relu"].op`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the query can't be parsed, or doesn't match exactly one value.
    pub fn find(&self, query: &str) -> Result<FieldPath> {
        let query = PathQuery::parse(query, self.descriptor())?;
        self.view()?
            .select_one(&query, &self.registry.member_names())
    }

    /// Returns a view of the message for random access.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no message.
    pub fn view(&self) -> Result<MessageView<'_>> {
        self.view_with(self.reading_options())
    }

    /// Returns a view of the message that uses these options instead of the options with which the
    /// input was opened.
    ///
    /// # Errors
    ///
    /// The errors of [`view`](Self::view).
    pub fn view_with(&self, options: ReadOptions) -> Result<MessageView<'_>> {
        self.message()?.stored.view(options)
    }

    /// Measures the message, or the value at a path, by field. Elements and map entries have the
    /// names that the formats define.
    ///
    /// # Errors
    ///
    /// The errors of [`measure`]; [`ErrorKind::InvalidPath`] if the path can't be parsed.
    pub fn tree(&self, path: &str) -> Result<SizeTree> {
        let options = TreeOptions::new().names(&self.registry.member_names());
        measure(&self.view()?, &self.find(path)?, &options)
    }

    pub(super) fn threads(&self) -> Option<NonZeroUsize> {
        self.options.threads
    }

    /// Reads the whole input. Verifies all checksums if the input is in chunks or its format has
    /// checksums; otherwise checks only the structure.
    ///
    /// # Errors
    ///
    /// The first damage found.
    pub fn verify(&self) -> Result<Verified> {
        self.verify_with(&self.options.progress)
    }

    /// Verifies the input like [`verify`](Self::verify), and reports to `progress`.
    ///
    /// # Errors
    ///
    /// The errors of [`verify`](Self::verify).
    pub fn verify_with(&self, progress: &Progress) -> Result<Verified> {
        self.check_complete()?;
        if let Some(archive) = &self.archive {
            return archive.verify(progress);
        }
        let options = self.reading_options().progress(progress.clone());
        if let Some(file) = self.chunked() {
            let found = file.verify(&options);
            return match found.problems().first() {
                Some(problem) => Err(Error::new(problem.kind(), problem.to_string())),
                None => Ok(Verified::new(0, found.bytes(), Checks::Checksums)),
            };
        }
        let message = self.reader()?;
        let size = message.total_size();
        let sizes = TreeOptions::new().top(0);
        measure(&self.view_with(options)?, &FieldPath::root(), &sizes)?;
        if self.is_checked_when_read {
            read_through(&message, progress)?;
            return Ok(Verified::new(0, size, Checks::Checksums));
        }
        let Some(archive) = &self.checked_by else {
            return Ok(Verified::new(0, size, Checks::Structure));
        };
        let found = archive.verify(progress)?;
        Ok(Verified {
            bytes: size,
            ..found
        })
    }

    /// Returns the message as a source to split.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no message, or it is already in chunks;
    /// [`ErrorKind::SchemaNeeded`] if its type is unknown.
    pub fn source(&self) -> Result<Source> {
        self.check_complete()?;
        let message = self.message()?;
        let (bytes, size) = self.require_plain()?;
        let descriptor = message.descriptor.clone().ok_or_else(untyped)?;
        match message.stored.file() {
            Some((path, file)) => {
                let source = Source::of_opened(file.try_clone()?, path, descriptor);
                source.map_err(|error| Error::from(error).in_file(path))
            }
            None => {
                let source = Source::from_reader(Arc::clone(bytes), size, descriptor);
                Ok(source.read_from(&self.files))
            }
        }
    }

    /// Returns the message as a source to send or to split again. A message in chunks is merged
    /// while it is read.
    ///
    /// # Errors
    ///
    /// The errors of [`reader`](Self::reader), or of [`source`](Self::source) for a message that
    /// isn't in chunks.
    pub fn merged_source(&self) -> Result<Source> {
        if self.chunked().is_none() {
            return self.source();
        }
        let (message, descriptor) = (self.reader()?, self.descriptor().cloned());
        let (size, descriptor) = (message.total_size(), descriptor.ok_or_else(untyped)?);
        Ok(Source::from_reader(message.into(), size, descriptor).read_from(&self.files))
    }

    fn stored(&self) -> Option<&dyn StoredMessage> {
        Some(&*self.message.as_ref()?.stored)
    }

    fn message(&self) -> Result<&Message> {
        self.message.as_ref().ok_or_else(|| {
            let title = self.format.map_or("archive", Format::title);
            let message = format!("a file of the kind {title} has tensors but no message");
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }
}
