//! A model with its external data inside, as if it had been written to one file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::formats::Candidate;
use proto_splitter_core::spans::{SourceId, Spans, SpansBuilder};
use proto_splitter_core::split::Source;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::change::Change;
use crate::checksum;
use crate::context::{Context, Part};
use crate::folder::Folder;
use crate::model_descriptor;
use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::rewrite::{Decide, Rewriter};
use crate::tensor::Tensor;
use crate::walk::{Cursor, DEFAULT_MAX_DEPTH, Place, walk};

/// Default number of different files that a model may refer to.
pub const DEFAULT_MAX_FILES: usize = 1 << 20;

/// Maximum number of warnings to keep.
const MAX_WARNINGS: usize = 100;

/// Options for opening a model.
///
/// ```
/// use proto_splitter_onnx::{OnnxOptions, OnnxSource};
///
/// // Look at the references themselves, not at what they refer to.
/// let options = OnnxOptions::new().keep_external(true);
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.onnx");
/// # std::fs::write(&path, [0x08, 0x0e])?;
/// let model = OnnxSource::open(&path, &options)?;
/// assert_eq!((model.size(), model.external_tensors()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OnnxOptions {
    external_folder: Option<PathBuf>,
    keep_external: bool,
    allow_missing_files: bool,
    max_depth: u32,
    max_files: usize,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        OnnxOptions::new()
    }
}

impl OnnxOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub const fn new() -> Self {
        OnnxOptions {
            external_folder: None,
            keep_external: false,
            allow_missing_files: false,
            max_depth: DEFAULT_MAX_DEPTH,
            max_files: DEFAULT_MAX_FILES,
        }
    }

    /// Sets the folder of the external files. Default: the model's folder.
    #[must_use]
    pub fn external_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.external_folder = Some(folder.into());
        self
    }

    /// Sets whether to keep references to external files, instead of moving the data inside.
    /// Default: false.
    #[must_use]
    pub const fn keep_external(mut self, keep: bool) -> Self {
        self.keep_external = keep;
        self
    }

    /// Sets whether to keep references to missing files, so that the other parts of the model can
    /// be inspected; see [`OnnxSource::outside_files`]. Default: false, which makes opening the
    /// model fail.
    #[must_use]
    pub const fn allow_missing_files(mut self, allow: bool) -> Self {
        self.allow_missing_files = allow;
        self
    }

    /// Limits the nesting depth of messages in the model. Default: [`DEFAULT_MAX_DEPTH`].
    #[must_use]
    pub const fn max_depth(mut self, depth: u32) -> Self {
        self.max_depth = depth;
        self
    }

    /// Limits the number of different files that the model may refer to. Default:
    /// [`DEFAULT_MAX_FILES`].
    #[must_use]
    pub const fn max_files(mut self, files: usize) -> Self {
        self.max_files = files;
        self
    }

    /// Returns the folder of the external files.
    pub fn get_external_folder(&self) -> Option<&Path> {
        self.external_folder.as_deref()
    }

    /// Returns whether references to external files are kept.
    pub const fn get_keep_external(&self) -> bool {
        self.keep_external
    }

    /// Returns whether references to missing files are kept.
    pub const fn get_allow_missing_files(&self) -> bool {
        self.allow_missing_files
    }

    /// Returns the maximum nesting depth of messages in the model.
    pub const fn get_max_depth(&self) -> u32 {
        self.max_depth
    }

    /// Returns the maximum number of different files that the model may refer to.
    pub const fn get_max_files(&self) -> usize {
        self.max_files
    }

    pub(crate) fn depth(&self) -> u32 {
        self.max_depth
    }
}

/// A model as one message.
///
/// Each tensor with data in another file has that data inside, as `raw_data`:
///
/// ```text
/// in the file        dims  data_type  name              external_data ...  data_location
/// in this message    dims  data_type  name  raw_data
/// ```
///
/// The bytes are exactly those of the model from which `onnx` moved the data to files. Only headers
/// are read to build the message, which takes about 100 bytes of memory for each tensor. The data
/// stays in its files.
///
/// ```
/// use prost::Message;
/// use proto_splitter_onnx::proto::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
/// use proto_splitter_onnx::{OnnxOptions, OnnxSource};
///
/// let entry = |key: &str, value: &str| StringStringEntryProto {
///     key: Some(key.into()),
///     value: Some(value.into()),
/// };
/// let tensor = TensorProto {
///     dims: vec![2],
///     data_type: Some(1),
///     name: Some("w".into()),
///     external_data: vec![entry("location", "model.data"), entry("offset", "4")],
///     data_location: Some(1),
///     ..Default::default()
/// };
/// let graph = GraphProto { initializer: vec![tensor], ..Default::default() };
/// let model = ModelProto { graph: Some(graph), ..Default::default() };
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.onnx");
/// std::fs::write(&path, model.encode_to_vec())?;
/// std::fs::write(folder.path().join("model.data"), b"....weights!")?;
///
/// let source = OnnxSource::open(&path, &OnnxOptions::new())?;
/// let mut bytes = vec![0; source.size() as usize];
/// source.reader().read_exact_at(0, &mut bytes)?;
/// let whole = ModelProto::decode(&bytes[..])?;
/// assert_eq!(whole.graph.unwrap().initializer[0].raw_data.as_deref(), Some(&b"weights!"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OnnxSource {
    reader: Arc<dyn ReadAt>,
    source: Source,
    spans: Arc<Spans>,
    external_tensors: usize,
    external_contexts: usize,
    /// True if the model declares checksums of files, which are compared when the files are read.
    has_checksums: bool,
    outside: Outside,
    warnings: Vec<String>,
}

impl std::fmt::Debug for OnnxSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnnxSource")
            .field("size", &self.size())
            .field("external_tensors", &self.external_tensors)
            .finish_non_exhaustive()
    }
}

impl OnnxSource {
    /// Opens the model in a file, with the external data it refers to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the model or a file it refers to can't be opened, isn't a regular file,
    /// or is outside the model's folder; [`ErrorKind::InvalidMessage`] with the tensor if a
    /// reference is malformed, goes past its file's end or has another length than the tensor's
    /// type and shape require; [`ErrorKind::LimitExceeded`].
    pub fn open(path: impl AsRef<Path>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = path.as_ref();
        let input = Candidate::new(path);
        let opened = input.and_then(|input| OnnxSource::open_model(&input, options));
        opened.map_err(|error| named(error, path))
    }

    /// Opens the model in an open input, or in an object of a store.
    pub(crate) fn of_input(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        if input.is_local() {
            let opened = OnnxSource::open_model(input, options);
            return opened.map_err(|error| named(error, input.path()));
        }
        let model = OnnxSource::of_reader(input.source()?, input.path(), options)?;
        // Local copies of remote inputs don't include external files.
        model.ok_or_else(|| input.needs_file())
    }

    fn open_model(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = input.path();
        let mut builder = SpansBuilder::new();
        let model = input.add_to(&mut builder)?;
        let size = builder.file_size(model)?;
        let reader = builder.handle(model)?;
        check_size(size)?;
        let folder = match &options.external_folder {
            Some(folder) => Folder::named(folder.clone()),
            None => Folder::of_model(path)?,
        };
        let mut found = Found::new(folder, options);
        let mut rewriter = Rewriter::new(&mut builder, model, &mut found);
        walk(&*reader, size, options.max_depth, &mut rewriter)?;
        rewriter.finish(size)?;
        found.warn_of_missing();
        let has_checksums = !found.checksums.is_empty();
        found.check_when_read(&mut builder);
        let spans = Arc::new(builder.finish()?);
        let source = match found.tensors + found.contexts {
            0 => input.message(model_descriptor())?,
            _ => Source::from_spans(Arc::clone(&spans), model_descriptor()),
        };
        Ok(OnnxSource {
            // The spans are used even if there is only one, since they detect changes to the file.
            reader: Arc::clone(&spans) as Arc<dyn ReadAt>,
            source,
            spans,
            external_tensors: found.tensors,
            external_contexts: found.contexts,
            has_checksums,
            outside: found.outside,
            warnings: found.warnings,
        })
    }

    /// Creates a source of spans, with this number of tensors whose data comes from elsewhere.
    pub(crate) fn of_spans(
        spans: Spans,
        external_tensors: usize,
        warnings: Vec<String>,
    ) -> Result<OnnxSource> {
        check_size(spans.total_size())?;
        let spans = Arc::new(spans);
        Ok(OnnxSource {
            reader: Arc::clone(&spans) as Arc<dyn ReadAt>,
            source: Source::from_spans(Arc::clone(&spans), model_descriptor()),
            spans,
            external_tensors,
            external_contexts: 0,
            has_checksums: false,
            outside: Outside::default(),
            warnings,
        })
    }

    /// Opens the model in a source, such as an object in a store. Returns `None` if the data of a
    /// tensor is in another file, since other files are only looked up in folders.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), except for errors about other files.
    pub fn of_reader(
        reader: Arc<dyn ReadAt>,
        called: impl AsRef<Path>,
        options: &OnnxOptions,
    ) -> Result<Option<OnnxSource>> {
        let called = called.as_ref();
        let mut builder = SpansBuilder::new();
        let model = builder.reader(called, reader)?;
        let size = builder.file_size(model)?;
        check_size(size)?;
        let reader = builder.handle(model)?;
        let mut elsewhere = Elsewhere(0);
        let mut rewriter = Rewriter::new(&mut builder, model, &mut elsewhere);
        walk(&*reader, size, options.max_depth, &mut rewriter)?;
        rewriter.finish(size)?;
        let is_whole = elsewhere.0 == 0 || options.keep_external;
        if !is_whole {
            return Ok(None);
        }
        let spans = Arc::new(builder.finish()?);
        Ok(Some(OnnxSource {
            source: Source::from_spans(Arc::clone(&spans), model_descriptor()),
            reader,
            spans,
            external_tensors: 0,
            external_contexts: 0,
            has_checksums: false,
            outside: Outside::default(),
            warnings: Vec::new(),
        }))
    }

    /// Returns the size of the message, in bytes.
    pub fn size(&self) -> u64 {
        self.spans.total_size()
    }

    /// Returns the message's bytes, by position.
    pub fn reader(&self) -> &Arc<dyn ReadAt> {
        &self.reader
    }

    /// Returns the message, to be split.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the message as spans; a single span if the model has no external data.
    pub fn spans(&self) -> &Arc<Spans> {
        &self.spans
    }

    /// Returns the files from which the message is read: the model, followed by the files that it
    /// refers to.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.spans.files()
    }

    /// Returns the number of tensors whose data was moved from another file to the message.
    pub fn external_tensors(&self) -> usize {
        self.external_tensors
    }

    /// Returns the number of compiled nodes (onnxruntime's `EPContext`) whose content was moved
    /// from a separate file to the message.
    pub fn external_contexts(&self) -> usize {
        self.external_contexts
    }

    /// Returns whether the model has checksums of files, which are compared when the files are
    /// read.
    pub(crate) fn has_checksums(&self) -> bool {
        self.has_checksums
    }

    /// Returns whether the message has bytes of files other than the model's.
    pub(crate) fn is_put_together(&self) -> bool {
        self.external_tensors + self.external_contexts > 0
    }

    /// Returns the files with data of tensors and compiled nodes that isn't part of the message:
    /// the missing files or, if references are kept, all files.
    pub fn outside_files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.outside.files.iter().map(PathBuf::as_path)
    }

    /// Returns the number of tensors with data in [`outside_files`](Self::outside_files).
    pub fn outside_tensors(&self) -> usize {
        self.outside.tensors
    }

    /// Returns the path of an external file, for errors.
    pub(crate) fn shown(&self, location: &Path) -> PathBuf {
        match &self.outside.folder {
            Some(folder) => folder.shown(location),
            None => location.to_owned(),
        }
    }

    /// Returns the reasons why other readers may refuse the model, one line each, such as undefined
    /// keys or tensors that also have data in the model.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl From<&OnnxSource> for Source {
    fn from(model: &OnnxSource) -> Source {
        model.source.clone()
    }
}

/// The data that stays outside of the message.
#[derive(Clone, Debug, Default)]
struct Outside {
    /// Folder of the external files.
    folder: Option<Arc<Folder>>,
    files: BTreeSet<PathBuf>,
    tensors: usize,
    contexts: usize,
}

/// The external data found so far.
struct Found<'a> {
    folder: Arc<Folder>,
    options: &'a OnnxOptions,
    files: HashMap<PathBuf, SourceId>,
    tensors: usize,
    contexts: usize,
    outside: Outside,
    warnings: Vec<String>,
    /// Checksums of whole files. Each distinct checksum is listed once, with a tensor that declares
    /// it.
    checksums: BTreeMap<SourceId, BTreeMap<String, String>>,
}

impl<'a> Found<'a> {
    fn new(folder: Folder, options: &'a OnnxOptions) -> Self {
        let folder = Arc::new(folder);
        Found {
            options,
            files: HashMap::new(),
            tensors: 0,
            contexts: 0,
            outside: Outside {
                folder: Some(Arc::clone(&folder)),
                ..Outside::default()
            },
            warnings: Vec::new(),
            checksums: BTreeMap::new(),
            folder,
        }
    }

    /// Moves the data of an external tensor into the message, unless the options keep it outside or
    /// its file is missing.
    fn inside(&mut self, tensor: &Tensor, builder: &mut SpansBuilder) -> Result<Change> {
        let named = |error: Error| in_tensor(error, tensor);
        let reference = ExternalReference::of(&tensor.entries);
        if self.options.keep_external {
            // Invalid references are kept, too.
            self.outside.tensors += 1;
            if let Ok(reference) = reference {
                self.stays_outside(&reference.location).map_err(named)?;
            }
            return Ok(Change::None);
        }
        if tensor.data_type() == Some(DataType::String) {
            return Err(tensor.invalid("strings can't be external data"));
        }
        let reference = reference.map_err(named)?;
        let Some(file) = self.file(&reference.location, builder).map_err(named)? else {
            self.outside.tensors += 1;
            return Ok(Change::None);
        };
        let range = reference
            .range(tensor.raw_len(), builder.file_size(file)?)
            .map_err(named)?;
        self.tensors += 1;
        for key in &reference.unknown_keys {
            self.warn(
                tensor,
                &format!("external_data has the unknown key \"{key}\""),
            );
        }
        if tensor.raw.is_some() || tensor.has_typed {
            self.warn(tensor, "it has data in the model, too, which doesn't count");
        }
        if let Some(sha1) = reference.checksum {
            let of_file = self.checksums.entry(file).or_default();
            of_file.entry(sha1).or_insert_with(|| tensor.name.clone());
        }
        Ok(Change::raw_data(file, range))
    }

    /// Moves the content of a compiled node into the message, unless the options keep it outside or
    /// its file is missing.
    fn content_inside(
        &mut self,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        // Two attributes of a node describe its content, so only one of them is counted.
        let one = usize::from(part == Part::Content);
        let location = context.location(cursor);
        if self.options.keep_external {
            self.outside.contexts += one;
            if let Ok(location) = location {
                self.stays_outside(&location)?;
            }
            return Ok(Change::None);
        }
        let file = self.file(&location?, builder);
        let Some(file) = file.map_err(|error| context.named(error))? else {
            self.outside.contexts += one;
            return Ok(Change::None);
        };
        self.contexts += one;
        Ok(context.inside(part, file, builder.file_size(file)?))
    }

    /// Returns the file at a location; `None` if the file is missing and missing files are allowed.
    fn file(&mut self, location: &Path, builder: &mut SpansBuilder) -> Result<Option<SourceId>> {
        if let Some(&file) = self.files.get(location) {
            return Ok(Some(file));
        }
        if self.outside.files.contains(&self.folder.shown(location)) {
            return Ok(None);
        }
        self.check_count()?;
        let (folder, relative) = (Arc::clone(&self.folder), location.to_owned());
        let shown = folder.shown(location);
        let file = match builder.open_with(shown, move || folder.open(&relative)) {
            Ok(file) => file,
            Err(error) if self.options.allow_missing_files && is_missing(&error) => {
                self.stays_outside(location)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.files.insert(location.to_owned(), file);
        Ok(Some(file))
    }

    fn stays_outside(&mut self, location: &Path) -> Result<()> {
        self.check_count()?;
        self.outside.files.insert(self.folder.shown(location));
        Ok(())
    }

    fn check_count(&self) -> Result<()> {
        let most = self.options.max_files;
        if self.files.len() + self.outside.files.len() < most {
            return Ok(());
        }
        let message = format!("more than {most} external files");
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// Registers the checksums of files. Each is compared once all data of its file has been read.
    fn check_when_read(&mut self, builder: &mut SpansBuilder) {
        for (file, expected) in std::mem::take(&mut self.checksums) {
            let name = builder.file_name(file).to_owned();
            builder.check_when_read(file, move |reader, progress| {
                checksum::compare(reader, &name, &expected, progress)
            });
        }
    }

    fn warn_of_missing(&mut self) {
        let files = &self.outside.files;
        let Some(first) = files.first().filter(|_| !self.options.keep_external) else {
            return;
        };
        let others = match files.len() {
            1 => String::new(),
            count => format!(", nor {} others", count - 1),
        };
        let counts = [
            (self.outside.tensors, "tensor"),
            (self.outside.contexts, "compiled node"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {what}{plural}")
        });
        let (first, counts) = (first.display(), counts.collect::<Vec<_>>().join(" and "));
        let missing = format!("{first}: no such file{others}: the data of {counts} is missing");
        tracing::warn!("{missing}");
        self.warnings.push(missing);
    }

    fn warn(&mut self, tensor: &Tensor, what: &str) {
        tracing::warn!(tensor = tensor.name, "{what}");
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings
                .push(format!("tensor \"{}\": {what}", tensor.name));
        }
    }
}

impl Decide for Found<'_> {
    fn tensor(
        &mut self,
        tensor: &Tensor,
        place: &Place<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        if !tensor.is_external {
            return Ok(Change::None);
        }
        self.inside(tensor, builder)
            .map_err(|error| error.at_path(place.path()))
    }

    fn context(
        &mut self,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        if context.is_embedded {
            return Ok(Change::None);
        }
        self.content_inside(context, part, cursor, builder)
    }
}

/// A visitor that counts the tensors and compiled nodes with data in other files, and changes
/// nothing.
struct Elsewhere(usize);

impl Decide for Elsewhere {
    fn tensor(&mut self, tensor: &Tensor, _: &Place<'_>, _: &mut SpansBuilder) -> Result<Change> {
        self.0 += usize::from(tensor.is_external);
        Ok(Change::None)
    }

    fn context(
        &mut self,
        context: &Context,
        _: Part,
        _: &mut Cursor<'_>,
        _: &mut SpansBuilder,
    ) -> Result<Change> {
        self.0 += usize::from(!context.is_embedded);
        Ok(Change::None)
    }
}

/// Returns true if a file couldn't be opened because it doesn't exist.
fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Fails for an empty file: protobuf accepts it as a message without fields, but it isn't a model.
fn check_size(size: u64) -> Result<()> {
    if size > 0 {
        return Ok(());
    }
    let message = "an empty file, where an ONNX model was expected";
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

impl ExternalReference {
    /// Returns the range of the data in a file of `size` bytes, for a tensor that needs `needed`
    /// bytes.
    fn range(&self, needed: Option<u64>, size: u64) -> Result<std::ops::Range<u64>> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidMessage, message);
        let Some(left) = size.checked_sub(self.offset) else {
            return Err(invalid(format!(
                "offset {} is past the end of {}, which has {size} bytes",
                self.offset,
                self.location.display()
            )));
        };
        let length = match (self.length, needed) {
            (Some(length), Some(needed)) if length != needed => {
                return Err(invalid(format!(
                    "length {length}, where its type and shape take {needed} bytes"
                )));
            }
            (Some(length), _) | (None, Some(length)) => length,
            (None, None) => left,
        };
        if length > left {
            return Err(invalid(format!(
                "{length} bytes from offset {} go past the end of {}, which has {size}",
                self.offset,
                self.location.display()
            )));
        }
        Ok(self.offset..self.offset + length)
    }
}

/// Adds the tensor's name to an error.
fn in_tensor(error: Error, tensor: &Tensor) -> Error {
    error.context(format!("tensor \"{}\"", tensor.name))
}

/// Prefixes an error with the model's name, unless the error already begins with this name.
pub(crate) fn named(error: Error, path: &Path) -> Error {
    let shown = path.display().to_string();
    if error.to_string().starts_with(&shown) {
        error
    } else {
        error.context(shown)
    }
}
