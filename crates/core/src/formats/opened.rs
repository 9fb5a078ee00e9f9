//! An input that is open, whatever its format is.

mod outside;
mod write;

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use record_file::ReadAt;

use super::archive::no_tensor;
use super::tensor_table::{Shared, TensorTable, Whole};
use super::{Archive, Candidate, Checks, Format, OpenOptions, Registry, TensorIter, Verified};
use crate::canonical::canonical;
use crate::container::ChunkedFile;
use crate::error::undecodable;
use crate::merge::ReadOptions;
use crate::merged_message::MergedMessage;
use crate::path::{FieldPath, PathQuery};
use crate::progress::Progress;
use crate::size_tree::{SizeTree, TreeOptions, measure};
use crate::split::Source;
use crate::tensor::{
    Location, TensorInfo, TensorReader, TensorRule, leading, placed_tensors_in, tensor_at,
    tensor_in_pieces,
};
use crate::view::MessageView;
use crate::{Error, ErrorKind, Result};

/// An input that is open: a message, wherever its bytes are; or an archive of named tensors; or
/// both. It is made by [`Registry::open`] and by the [formats](Format) themselves.
///
/// Opening reads headers. Everything else is read when it is asked for, and only what is asked for.
#[derive(Debug)]
pub struct Opened {
    message: Option<Message>,
    archive: Option<Box<dyn Archive>>,
    /// What has bytes of the message, and checksums of them.
    checked_by: Option<Box<dyn Archive>>,
    /// The path or URL that was opened; empty if the bytes were given.
    input: PathBuf,
    files: Vec<PathBuf>,
    /// The files that the message refers to and has no bytes of.
    outside: Vec<PathBuf>,
    format: Option<&'static dyn Format>,
    /// Whose rules count for what is in it.
    registry: Registry,
    options: OpenOptions,
    /// The tensors of the message, from when they are first listed.
    table: OnceLock<TensorTable>,
}

/// A message that stays where it is.
struct Message {
    stored: Stored,
    descriptor: Option<MessageDescriptor>,
}

enum Stored {
    Chunked(Arc<ChunkedFile<Shared>>),
    Plain {
        bytes: Shared,
        size: u64,
        /// Whether the bytes are all of one file or object.
        is_single: bool,
        /// That file, if it is one.
        file: Option<(PathBuf, Arc<File>)>,
    },
}

// By hand: the `Debug` of a descriptor doesn't end for a type that contains itself.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let descriptor = self.descriptor.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("Message")
            .field("descriptor", &descriptor)
            .field("chunked", &matches!(self.stored, Stored::Chunked(_)))
            .finish_non_exhaustive()
    }
}

/// Making one: for formats.
impl Opened {
    /// Opens a message that is a file by itself, as [`of_input`](Self::of_input).
    ///
    /// # Errors
    ///
    /// As [`of_input`](Self::of_input).
    pub fn of_file(
        path: impl AsRef<Path>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        Opened::of_input(&Candidate::new(path.as_ref())?, descriptor, options)
    }

    /// Opens a message that is all of an input, in chunks or in one piece. What the options say of its
    /// type comes before `descriptor`, and that before what a file in chunks says.
    ///
    /// # Errors
    ///
    /// If the input can't be opened, or is in chunks and damaged.
    pub fn of_input(
        input: &Candidate<'_>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let located = |error: Error| error.context(input.path().display());
        let descriptor = descriptor.into();
        if input.is_chunked()? {
            return Opened::of_chunks(input, |_| descriptor, options);
        }
        let opened = Opened::of_reader(input.source()?, descriptor, options);
        let mut opened = opened.map_err(located)?;
        let handle = input.file()?;
        if let Some(Message {
            stored: Stored::Plain {
                is_single, file, ..
            },
            ..
        }) = &mut opened.message
        {
            *is_single = true;
            *file = handle.map(|handle| (input.path().to_owned(), Arc::new(handle)));
        }
        let path = input.is_local().then_some(input.path());
        Ok(opened.reading(path))
    }

    /// A message that can be read by position, to its end: one that several files make together.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if its size can't be told.
    pub fn of_reader(
        bytes: Arc<dyn ReadAt>,
        descriptor: impl Into<Option<MessageDescriptor>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let size = bytes.size()?;
        let descriptor = options.descriptor.clone().or_else(|| descriptor.into());
        Ok(Opened {
            message: Some(Message {
                stored: Stored::Plain {
                    bytes,
                    size,
                    is_single: false,
                    file: None,
                },
                descriptor,
            }),
            archive: None,
            checked_by: None,
            input: PathBuf::new(),
            files: Vec::new(),
            outside: Vec::new(),
            format: None,
            registry: Registry::new(&[]),
            table: OnceLock::new(),
            options: options.clone(),
        })
    }

    /// Named tensors that are in no message.
    pub fn of_archive(archive: impl Archive + 'static) -> Opened {
        Opened {
            message: None,
            archive: Some(Box::new(archive)),
            checked_by: None,
            input: PathBuf::new(),
            files: Vec::new(),
            outside: Vec::new(),
            format: None,
            registry: Registry::new(&[]),
            table: OnceLock::new(),
            options: OpenOptions::new(),
        }
    }

    /// The same input, with its tensors by name, as this archive gives them.
    #[must_use]
    pub fn with_archive(mut self, archive: impl Archive + 'static) -> Self {
        self.archive = Some(Box::new(archive));
        self
    }

    /// The same input, a message whose bytes are partly this archive's: checking the message checks
    /// the archive.
    #[must_use]
    pub fn checked_by(mut self, archive: impl Archive + 'static) -> Self {
        self.checked_by = Some(Box::new(archive));
        self
    }

    /// The same input, which is read from these files, too.
    #[must_use]
    pub fn reading<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Self {
        self.files.extend(files.into_iter().map(Into::into));
        self
    }

    /// A file in chunks. `known` tells the type of a name that the file says.
    pub(super) fn of_chunks(
        input: &Candidate<'_>,
        known: impl FnOnce(&str) -> Option<MessageDescriptor>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let file = input.chunked(&options.limits);
        let opened = file.and_then(|file| Opened::of_chunked(file, known, options));
        let opened = opened.map_err(|error| error.context(input.path().display()))?;
        Ok(opened.reading_chunks(input))
    }

    /// A message in chunks. `known` tells the type of a name that the file says.
    pub(super) fn of_chunked(
        file: ChunkedFile<Shared>,
        known: impl FnOnce(&str) -> Option<MessageDescriptor>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let descriptor = type_of(&file, known, options)?;
        Ok(Opened {
            message: Some(Message {
                stored: Stored::Chunked(Arc::new(file)),
                descriptor,
            }),
            archive: None,
            checked_by: None,
            input: PathBuf::new(),
            files: Vec::new(),
            outside: Vec::new(),
            format: None,
            registry: Registry::new(&[]),
            table: OnceLock::new(),
            options: options.clone(),
        })
    }

    /// The same message in chunks, whose files are this one and those that it names.
    pub(super) fn reading_chunks(self, input: &Candidate<'_>) -> Self {
        if !input.is_local() {
            return self;
        }
        let others = self.chunked().map(|file| file.store().paths());
        let others = others.unwrap_or_default().iter().skip(1).cloned();
        let path = input.path().to_owned();
        let files: Vec<_> = [path].into_iter().chain(others).collect();
        self.reading(files)
    }

    /// The same message in chunks, whose type is this one if nothing else says it.
    pub(super) fn of_type(mut self, known: impl FnOnce() -> Option<MessageDescriptor>) -> Self {
        let said = self
            .chunked()
            .and_then(|file| file.trailer().message_type());
        if said.is_none()
            && let Some(message) = &mut self.message
            && message.descriptor.is_none()
        {
            message.descriptor = known();
        }
        self
    }

    /// The same input, which errors and reports call by this path or URL.
    #[must_use]
    pub fn named(mut self, input: impl Into<PathBuf>) -> Self {
        self.input = input.into();
        self
    }

    pub(super) fn found_by(
        mut self,
        registry: Registry,
        format: Option<&'static dyn Format>,
    ) -> Self {
        let of_type = || registry.of_type(self.descriptor()?.full_name());
        self.format = format.or_else(of_type);
        self.registry = registry;
        self
    }
}

#[cold]
fn untyped() -> Error {
    Error::new(ErrorKind::SchemaNeeded, "no type is known for the message")
}

/// The type of a message in chunks: what the options say comes before what `known` makes of the name
/// that the file says, and that before the schema in the file.
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

/// What an input has, and reading it. A path is a [`PathQuery`] that leads to one value, as
/// `node["relu"].attr["value"].tensor`; of a message whose type isn't known it is in numbers.
impl Opened {
    /// The format; none of a message that no format knows.
    pub fn format(&self) -> Option<&'static dyn Format> {
        self.format
    }

    /// Returns the path or URL that was opened; empty for bytes that were given.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Returns true if the caller said of which type the message is, by name or by a schema.
    pub fn is_type_given(&self) -> bool {
        let schemas = self.options.schemas.as_ref();
        self.options.descriptor.is_some() || schemas.is_some_and(|all| all.files().len() > 0)
    }

    /// What it says of itself, as names and values: of a model its inputs and outputs, its opsets or
    /// its signatures.
    ///
    /// # Errors
    ///
    /// As [`Format::properties`].
    pub fn properties(&self) -> Result<Vec<(String, String)>> {
        match (self.format, &self.archive) {
            (Some(format), _) => format.properties(self),
            (None, Some(archive)) => archive.properties(),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The files that it is read from, the main one first; none if it is read from other sources.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The type of the message; none if there is no message, or nothing is known of its type.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.message.as_ref()?.descriptor.as_ref()
    }

    /// The file in chunks that the message is in; none if it is in none.
    pub fn chunked(&self) -> Option<&ChunkedFile<Arc<dyn ReadAt>>> {
        match &self.message.as_ref()?.stored {
            Stored::Chunked(file) => Some(file),
            Stored::Plain { .. } => None,
        }
    }

    /// The message that a file in chunks is merged to, to be read by position; none if there is no
    /// message, or it isn't in chunks.
    ///
    /// # Errors
    ///
    /// As [`ChunkedFile::plan`].
    pub fn merged(&self) -> Result<Option<MergedMessage<Arc<dyn ReadAt>>>> {
        let Some(message) = &self.message else {
            return Ok(None);
        };
        match &message.stored {
            Stored::Chunked(file) => {
                let merged = MergedMessage::new(Arc::clone(file), message.descriptor.clone());
                merged.map(Some)
            }
            Stored::Plain { .. } => Ok(None),
        }
    }

    /// The bytes of the message and how many they are; none if there is no message, or it is in
    /// chunks.
    pub fn plain(&self) -> Option<(&Arc<dyn ReadAt>, u64)> {
        match &self.message.as_ref()?.stored {
            Stored::Chunked(_) => None,
            Stored::Plain { bytes, size, .. } => Some((bytes, *size)),
        }
    }

    /// The same input, its message in canonical form: as C++ serializes it deterministically, fields by
    /// number, map entries by key, and what the type doesn't know behind. Values stay where they are.
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
    /// [`ErrorKind::InvalidConfig`] if there is no message; [`ErrorKind::SchemaNeeded`] if nothing is
    /// known of its type; [`ErrorKind::InvalidMessage`] if it breaks the wire format.
    pub fn canonical(&self) -> Result<Opened> {
        self.check_complete()?;
        let Some(descriptor) = self.message()?.descriptor.as_ref() else {
            let message = "the canonical form of a message depends on its type, and none is known";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let bytes: Arc<dyn ReadAt> = match (self.merged()?, self.plain()) {
            (Some(merged), _) => Arc::new(merged),
            (None, plain) => Arc::clone(plain.ok_or_else(|| no_tensor("message"))?.0),
        };
        let canonical = Arc::new(canonical(&bytes, descriptor)?);
        let opened = Opened::of_reader(canonical, descriptor.clone(), &self.options)?;
        let opened = opened.reading(self.files.clone());
        Ok(opened.found_by(self.registry, self.format))
    }

    /// The file that is the message, byte for byte; none if the message is in chunks, or is put
    /// together from several files.
    pub fn message_file(&self) -> Option<&Path> {
        match &self.message.as_ref()?.stored {
            Stored::Chunked(_) => None,
            Stored::Plain { file, .. } => file.as_ref().map(|(path, _)| path.as_path()),
        }
    }

    /// Returns true if the message is one file or object: in chunks, or byte for byte. False if there
    /// is no message, or several files make it.
    pub fn is_single(&self) -> bool {
        self.message
            .as_ref()
            .is_some_and(|message| match message.stored {
                Stored::Chunked(_) => true,
                Stored::Plain { is_single, .. } => is_single,
            })
    }

    /// Returns true if there is a message; false for an archive of tensors alone.
    pub fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Returns true if its format has more to say of it than of any message: an archive, a message
    /// that several files make, or one with named tensors, unless the caller gave it a type.
    pub fn is_described_by_format(&self) -> bool {
        !self.is_single() || (self.archive.is_some() && !self.is_type_given())
    }

    /// Returns the options that the message is read by: the type that is known of it, and what the
    /// options of opening said.
    pub fn reading_options(&self) -> ReadOptions {
        self.options.reading(self.descriptor().cloned())
    }

    /// The archive of named tensors; none of an input that is a message alone.
    pub fn archive(&self) -> Option<&dyn Archive> {
        self.archive.as_deref()
    }

    /// The message, as a value of a type known to the program.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes); [`ErrorKind::InvalidMessage`] if it is not a message of that type.
    pub fn read<M: prost::Message + Default>(&self) -> Result<M> {
        M::decode(self.bytes()?).map_err(undecodable)
    }

    /// The message, as a value of the type that is known for it.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); [`ErrorKind::SchemaNeeded`] if nothing is known of its type.
    pub fn read_dynamic(&self) -> Result<DynamicMessage> {
        let Some(descriptor) = self.message()?.descriptor.clone() else {
            let message = "no type is known for the message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        DynamicMessage::decode(descriptor, self.bytes()?).map_err(undecodable)
    }

    /// The value at a path. Nothing else is read but what leads there.
    ///
    /// # Errors
    ///
    /// As [`MessageView::get`], and if the path can't be parsed.
    pub fn get(&self, path: &str) -> Result<Bytes> {
        self.view()?.get(&self.find(path)?)
    }

    /// Returns the path of the one value that a query means, as `node["relu"].op`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if it can't be parsed, or means no value or several.
    pub fn find(&self, query: &str) -> Result<FieldPath> {
        let query = PathQuery::parse(query, self.descriptor())?;
        self.view()?
            .select_one(&query, &self.registry.member_names())
    }

    /// The message, to be read in parts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no message.
    pub fn view(&self) -> Result<MessageView<'_>> {
        self.view_with(self.reading_options())
    }

    /// The message, to be read in parts in another way than it was opened.
    ///
    /// # Errors
    ///
    /// As [`view`](Self::view).
    pub fn view_with(&self, options: ReadOptions) -> Result<MessageView<'_>> {
        match &self.message()?.stored {
            Stored::Chunked(file) => Ok(file.view(options)),
            Stored::Plain { bytes, .. } => MessageView::of_plain(bytes, options),
        }
    }

    /// What takes up space in the message, or in the value at a path, by field; members are called
    /// as their formats say.
    ///
    /// # Errors
    ///
    /// As [`measure`], and if the path can't be parsed.
    pub fn tree(&self, path: &str) -> Result<SizeTree> {
        let options = TreeOptions::new().names(&self.registry.member_names());
        measure(&self.view()?, &self.find(path)?, &options)
    }

    /// All tensors that it has by name: those of its archive, or else those of its message that the
    /// formats know. No element is read.
    ///
    /// # Errors
    ///
    /// If what they say of themselves can't be read.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        match &self.archive {
            Some(archive) => archive.tensors(),
            None => Ok(self.table()?.tensors().cloned().collect()),
        }
    }

    /// Returns an iterator over the tensors, in the order of [`tensors`](Self::tensors), which makes no
    /// list of all of them where the format can do without.
    ///
    /// # Errors
    ///
    /// As [`tensors`](Self::tensors), here or by the iterator.
    pub fn tensor_iter(&self) -> Result<TensorIter<'_>> {
        match &self.archive {
            Some(archive) => archive.tensor_iter(),
            None => Ok(Box::new(self.table()?.tensors().cloned().map(Ok))),
        }
    }

    /// The tensors of the message, which are listed once.
    fn table(&self) -> Result<&TensorTable> {
        if let Some(table) = self.listed() {
            return Ok(table);
        }
        let table = self.list()?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The tensors of the message, once they have been listed.
    pub(super) fn listed(&self) -> Option<&TensorTable> {
        self.table.get()
    }

    fn list(&self) -> Result<TensorTable> {
        let view = self.view()?;
        let rules = self.registry.tensor_rules();
        // Tensors are found by the type alone.
        let leads =
            |root: &MessageDescriptor| self.format.is_some() || !leading(root, &rules).is_empty();
        if !view.descriptor().is_some_and(leads) {
            return Ok(TensorTable::default());
        }
        let portion = view.unwatched()?;
        let whole = match (&self.message()?.stored, portion.plan_of_chunks()) {
            (Stored::Plain { bytes, .. }, _) => Whole::Plain(Arc::clone(bytes)),
            (Stored::Chunked(file), plan) => {
                let plan = plan.cloned().unwrap_or_default();
                Whole::Merged(Arc::new(MergedMessage::planned(Arc::clone(file), plan)))
            }
        };
        let named = self
            .format
            .map(|format| format.tensors_in_message(whole.reader()));
        let tensors = match named.transpose()?.flatten() {
            Some(tensors) => tensors,
            None => placed_tensors_in(&view, &rules, || Ok(portion))?,
        };
        Ok(TensorTable::new(tensors, whole))
    }

    pub(super) fn threads(&self) -> Option<NonZeroUsize> {
        self.options.threads
    }

    /// The tensor with this name, or else the one at this path of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is none, and as [`tensors`](Self::tensors).
    pub fn tensor(&self, name: &str) -> Result<TensorReader<'_>> {
        let found = self.find_tensor(name)?;
        self.read_tensor(&found.ok_or_else(|| no_tensor(name))?)
    }

    /// The header of the tensor with this name, or else of the one at this path of the message;
    /// `None` if there is neither.
    ///
    /// ```
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// # let bytes: std::sync::Arc<dyn record_file::ReadAt> = std::sync::Arc::new(b"\x0a\x01a");
    /// let opened = Opened::of_reader(bytes, None, &OpenOptions::new())?;
    /// // Nothing is known of its type, and so of no tensor.
    /// assert_eq!(opened.find_tensor("weights")?, None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tensors`](Self::tensors).
    pub fn find_tensor(&self, name: &str) -> Result<Option<TensorInfo>> {
        match &self.archive {
            Some(archive) => archive.find(name),
            None => Ok(self.table()?.named(name).cloned()),
        }
    }

    /// The bytes of a tensor that [`tensors`](Self::tensors) gave.
    ///
    /// # Errors
    ///
    /// If it has no elements of a fixed width, or they are more or fewer than its shape says.
    pub fn read_tensor(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        match (&self.archive, &info.location) {
            (Some(archive), _) => archive.read(info),
            (None, Location::Message { path, .. }) => {
                let placed = self
                    .listed()
                    .and_then(|table| Some((table, table.placed(info)?)));
                let Some((table, placed)) = placed else {
                    return self.tensor_in(path, &info.name);
                };
                if let Some(elements) = placed.elements.clone() {
                    return Ok(table.elements(info, elements));
                }
                let (rule, message) = self.tensor_rule(path)?;
                let bytes = table.whole().reader();
                tensor_in_pieces(bytes, placed.pieces.clone(), message, info, rule)
            }
            (None, _) => Err(no_tensor(&info.name)),
        }
    }

    /// The tensor that is the value at a path of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the value there is none that a format knows as a tensor, and
    /// as [`read_tensor`](Self::read_tensor).
    pub fn tensor_at(&self, path: &str) -> Result<TensorReader<'_>> {
        self.tensor_in(&self.find(path)?, path)
    }

    /// Reads everything and checks what can be checked: all checksums of a file in chunks and of
    /// formats that have them; of others, that the structure is sound.
    ///
    /// # Errors
    ///
    /// The first damage.
    pub fn verify(&self) -> Result<Verified> {
        self.verify_with(&self.options.progress)
    }

    /// As [`verify`](Self::verify), reporting to `progress`.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify).
    pub fn verify_with(&self, progress: &Progress) -> Result<Verified> {
        self.check_complete()?;
        if let Some(archive) = &self.archive {
            return archive.verify(progress);
        }
        let options = self.reading_options().progress(progress.clone());
        match &self.message()?.stored {
            Stored::Chunked(file) => {
                let found = file.verify(&options);
                match found.problems().first() {
                    Some(problem) => Err(Error::new(problem.kind(), problem.to_string())),
                    None => Ok(Verified::new(0, found.bytes(), Checks::Checksums)),
                }
            }
            Stored::Plain { size, .. } => {
                let sizes = TreeOptions::new().top(0);
                measure(&self.view_with(options)?, &FieldPath::root(), &sizes)?;
                let Some(archive) = &self.checked_by else {
                    return Ok(Verified::new(0, *size, Checks::Structure));
                };
                let found = archive.verify(progress)?;
                Ok(Verified {
                    bytes: *size,
                    ..found
                })
            }
        }
    }

    /// The message, to be split.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no message, or it is in chunks already;
    /// [`ErrorKind::SchemaNeeded`] if nothing is known of its type.
    pub fn source(&self) -> Result<Source> {
        self.check_complete()?;
        let message = self.message()?;
        let Stored::Plain {
            bytes, size, file, ..
        } = &message.stored
        else {
            let message = "the message is in chunks already";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        let descriptor = message.descriptor.clone().ok_or_else(untyped)?;
        match file {
            Some((path, file)) => {
                let source = Source::of_opened(file.try_clone()?, path, descriptor);
                source.map_err(|error| Error::from(error).context(path.display()))
            }
            None => {
                let source = Source::from_reader(Arc::clone(bytes), *size, descriptor);
                Ok(source.read_from(&self.files))
            }
        }
    }

    /// Returns the message as a source, to be sent or to be split anew: one in chunks is merged as it is
    /// read.
    ///
    /// # Errors
    ///
    /// As [`merged`](Self::merged), and as [`source`](Self::source) for a message that isn't in chunks.
    pub fn merged_source(&self) -> Result<Source> {
        let Some(merged) = self.merged()? else {
            return self.source();
        };
        let descriptor = self.descriptor().cloned().ok_or_else(untyped)?;
        let size = merged.total_size();
        Ok(Source::from_reader(Arc::new(merged), size, descriptor).read_from(&self.files))
    }

    fn message(&self) -> Result<&Message> {
        self.message.as_ref().ok_or_else(|| {
            let title = self.format.map_or("archive", Format::title);
            let message = format!("a file of the kind {title} has tensors, and no message");
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }

    fn tensor_in(&self, path: &FieldPath, name: &str) -> Result<TensorReader<'_>> {
        let (rule, _) = self.tensor_rule(path)?;
        tensor_at(self.view()?, path, name, rule)
    }

    /// The rule for the tensor at a path, and the type of its message.
    pub(super) fn tensor_rule(
        &self,
        path: &FieldPath,
    ) -> Result<(&'static TensorRule, MessageDescriptor)> {
        let target = self
            .descriptor()
            .map(|root| path.resolve(root))
            .transpose()?;
        let message = target.as_ref().and_then(|target| target.kind.message());
        let ruled = message.and_then(|message| {
            let rule = self.registry.tensor_rule(message.full_name())?;
            Some((rule, message.clone()))
        });
        ruled.ok_or_else(|| {
            let rules = self.registry.tensor_rules();
            let known: Vec<&str> = rules.iter().map(|rule| rule.message).collect();
            let message = format!("only a {} is a tensor", known.join(" or "));
            let error = Error::new(ErrorKind::InvalidPath, message);
            error.at_path(path.display(self.descriptor()))
        })
    }
}
