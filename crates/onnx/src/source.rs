//! A model with its external data inside: the one-piece file that nobody wrote.

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

/// The most different files that a model may refer to, unless options say otherwise.
pub const DEFAULT_MAX_FILES: usize = 1 << 20;

/// The most warnings that are kept; more tell nothing new.
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
    /// The defaults, which the setters name in parentheses.
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

    /// Where the external files are (the folder that the model is in).
    #[must_use]
    pub fn external_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.external_folder = Some(folder.into());
        self
    }

    /// Whether references to external files are left as they are (no).
    #[must_use]
    pub const fn keep_external(mut self, keep: bool) -> Self {
        self.keep_external = keep;
        self
    }

    /// Whether references to files that are missing are left as they are (no: opening the model
    /// fails). What else there is of the model can be looked at then; see
    /// [`OnnxSource::outside_files`].
    #[must_use]
    pub const fn allow_missing_files(mut self, allow: bool) -> Self {
        self.allow_missing_files = allow;
        self
    }

    /// How deep messages may nest in the model ([`DEFAULT_MAX_DEPTH`]).
    #[must_use]
    pub const fn max_depth(mut self, depth: u32) -> Self {
        self.max_depth = depth;
        self
    }

    /// How many different files the model may refer to ([`DEFAULT_MAX_FILES`]).
    #[must_use]
    pub const fn max_files(mut self, files: usize) -> Self {
        self.max_files = files;
        self
    }

    pub(crate) fn depth(&self) -> u32 {
        self.max_depth
    }
}

/// A model as one message, wherever its tensors are.
///
/// Each tensor whose data is in another file has it inside, as `raw_data`:
///
/// ```text
/// in the file        dims  data_type  name              external_data ...  data_location
/// in this message    dims  data_type  name  raw_data
/// ```
///
/// That is, byte for byte, the model that `onnx` put the data out of. Only headers are read to make
/// it, and it takes about 100 bytes of memory for each tensor; the data is read where it is.
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
    /// Whether the model says checksums of files that are compared when they are read.
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
    /// The model in a file, with the external data it refers to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the model or a file it refers to can't be opened, isn't a regular file,
    /// or lies outside the model's folder; [`ErrorKind::InvalidMessage`] with the tensor if a
    /// reference is malformed, goes past its file's end or has another length than the tensor's
    /// type and shape take; [`ErrorKind::LimitExceeded`].
    pub fn open(path: impl AsRef<Path>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = path.as_ref();
        let input = Candidate::new(path);
        let opened = input.and_then(|input| OnnxSource::open_model(&input, options));
        opened.map_err(|error| named(error, path))
    }

    /// The model in an input that is open already, or is an object in a store.
    pub(crate) fn of_input(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        if input.is_local() {
            let opened = OnnxSource::open_model(input, options);
            return opened.map_err(|error| named(error, input.path()));
        }
        let model = OnnxSource::of_reader(input.source()?, input.path(), options)?;
        // Files beside it are found beside a copy.
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
            // Of one span, too: it sees when the file changes.
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

    /// Creates a source of spans, in which the data of this many tensors comes from elsewhere.
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

    /// The model that all of a source is, such as an object in a store. `None` if the data of one of
    /// its tensors is in another file: those are found beside files alone.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), but for what concerns other files.
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

    /// Bytes of the message.
    pub fn size(&self) -> u64 {
        self.spans.total_size()
    }

    /// The message's bytes, by position.
    pub fn reader(&self) -> &Arc<dyn ReadAt> {
        &self.reader
    }

    /// The message, to be split.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The message that the message is, of one span if the model has no external data.
    pub fn spans(&self) -> &Arc<Spans> {
        &self.spans
    }

    /// The files that the message is read from: the model, then those that it refers to.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.spans.files()
    }

    /// How many tensors have their data in another file, and in the message now.
    pub fn external_tensors(&self) -> usize {
        self.external_tensors
    }

    /// How many compiled nodes (onnxruntime's `EPContext`) have their content in a file of its own, and
    /// in the message now.
    pub fn external_contexts(&self) -> usize {
        self.external_contexts
    }

    /// Whether the model says checksums of files that are compared when they are read.
    pub(crate) fn has_checksums(&self) -> bool {
        self.has_checksums
    }

    /// Whether the message has bytes of other files than the model's.
    pub(crate) fn is_put_together(&self) -> bool {
        self.external_tensors + self.external_contexts > 0
    }

    /// The files that tensors and compiled nodes have their data in and that the message has no bytes
    /// of: those that are missing, or all of them if references were to be kept.
    pub fn outside_files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.outside.files.iter().map(PathBuf::as_path)
    }

    /// How many tensors have their data in [`outside_files`](Self::outside_files).
    pub fn outside_tensors(&self) -> usize {
        self.outside.tensors
    }

    /// The folder that external files are looked for in.
    pub(crate) fn shown(&self, location: &Path) -> PathBuf {
        match &self.outside.folder {
            Some(folder) => folder.shown(location),
            None => location.to_owned(),
        }
    }

    /// What other readers may refuse, a line each: keys that nobody knows, data that stands in the
    /// model besides.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl From<&OnnxSource> for Source {
    fn from(model: &OnnxSource) -> Source {
        model.source.clone()
    }
}

/// What stays outside of the message.
#[derive(Clone, Debug, Default)]
struct Outside {
    /// The folder that external files are in.
    folder: Option<Arc<Folder>>,
    files: BTreeSet<PathBuf>,
    tensors: usize,
    contexts: usize,
}

/// What was found of external data so far.
struct Found<'a> {
    folder: Arc<Folder>,
    options: &'a OnnxOptions,
    files: HashMap<PathBuf, SourceId>,
    tensors: usize,
    contexts: usize,
    outside: Outside,
    warnings: Vec<String>,
    /// What is said of whole files, once each, and by which tensor.
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

    /// Puts the data of an external tensor inside, unless it is to stay outside or is missing.
    fn inside(&mut self, tensor: &Tensor, builder: &mut SpansBuilder) -> Result<Change> {
        let named = |error: Error| in_tensor(error, tensor);
        let reference = ExternalReference::of(&tensor.entries);
        if self.options.keep_external {
            // References that say nothing are kept as well.
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

    /// Puts the content of a compiled node inside, unless it is to stay outside or is missing.
    fn content_inside(
        &mut self,
        context: &Context,
        part: Part,
        cursor: &mut Cursor<'_>,
        builder: &mut SpansBuilder,
    ) -> Result<Change> {
        // Of each node there are two parts, of which one counts.
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

    /// The file at a location; none if it is missing and may be.
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

    /// Has the checksums of files compared once their data was read.
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

/// How many tensors and compiled nodes have their data in other files, with nothing changed.
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

/// Returns true if a file couldn't be opened because it isn't there.
fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Fails for an empty file: it is a message without fields to protobuf, and a model to nobody.
fn check_size(size: u64) -> Result<()> {
    if size > 0 {
        return Ok(());
    }
    let message = "an empty file, where an ONNX model was expected";
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

impl ExternalReference {
    /// Which bytes of a file of `size` bytes are meant, if the tensor takes `needed`.
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

/// The error with the tensor it is about.
fn in_tensor(error: Error, tensor: &Tensor) -> Error {
    error.context(format!("tensor \"{}\"", tensor.name))
}

/// The error with the model's name, unless it begins with it.
pub(crate) fn named(error: Error, path: &Path) -> Error {
    let shown = path.display().to_string();
    if error.to_string().starts_with(&shown) {
        error
    } else {
        error.context(shown)
    }
}
