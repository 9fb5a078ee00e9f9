//! A model with its external data inside: the one-piece file that nobody wrote.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::rope::{Rope, RopeBuilder, RopeFileId};
use proto_splitter_core::split::Source;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::folder::Folder;
use crate::model_descriptor;
use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::rewrite::{Change, Inserted, Rewriter};
use crate::tensor::{Tensor, field};
use crate::walk::{DEFAULT_MAX_DEPTH, walk};

/// The most different files that a model may refer to, unless options say otherwise.
pub const DEFAULT_MAX_FILES: usize = 1 << 20;

/// The most warnings that are kept; more tell nothing new.
const MAX_WARNINGS: usize = 100;

/// How a model is opened.
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
    rope: Arc<Rope>,
    external_tensors: usize,
    warnings: Vec<String>,
    checksums: Vec<Checksum>,
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
        OnnxSource::open_model(path, options).map_err(|error| named(error, path))
    }

    fn open_model(path: &Path, options: &OnnxOptions) -> Result<OnnxSource> {
        let mut builder = RopeBuilder::new();
        let model = builder.open(path)?;
        let size = builder.file_size(model)?;
        let reader = builder.handle(model)?;
        let mut found = Found::default();
        if options.keep_external {
            builder.span(model, 0..size)?;
        } else {
            let folder = match &options.external_folder {
                Some(folder) => Folder::named(folder.clone()),
                None => Folder::of_model(path)?,
            };
            let folder = Arc::new(folder);
            let mut decide = |tensor: &Tensor,
                              place: &crate::walk::Place<'_>,
                              _: &mut crate::walk::Cursor<'_>,
                              builder: &mut RopeBuilder| {
                if !tensor.is_external {
                    return Ok(Change::None);
                }
                found
                    .inside(tensor, &folder, options, builder)
                    .map_err(|error| error.at_path(place.path()))
            };
            let mut rewriter = Rewriter::new(&mut builder, model, &mut decide);
            walk(&*reader, size, options.max_depth, &mut rewriter)?;
            rewriter.finish(size)?;
        }
        let rope = Arc::new(builder.finish()?);
        let source = match found.tensors {
            0 => Source::open(path, model_descriptor())?,
            _ => Source::from_rope(Arc::clone(&rope), model_descriptor()),
        };
        Ok(OnnxSource {
            // Of one span, too: it sees when the file changes.
            reader: Arc::clone(&rope) as Arc<dyn ReadAt>,
            source,
            rope,
            external_tensors: found.tensors,
            warnings: std::mem::take(&mut found.warnings),
            checksums: found.checksums(),
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
        let mut builder = RopeBuilder::new();
        let model = builder.reader(called, reader)?;
        let size = builder.file_size(model)?;
        let reader = builder.handle(model)?;
        let mut external = 0;
        let mut decide = |tensor: &Tensor,
                          _: &crate::walk::Place<'_>,
                          _: &mut crate::walk::Cursor<'_>,
                          _: &mut RopeBuilder| {
            external += usize::from(tensor.is_external);
            Ok(Change::None)
        };
        let mut rewriter = Rewriter::new(&mut builder, model, &mut decide);
        walk(&*reader, size, options.max_depth, &mut rewriter)?;
        rewriter.finish(size)?;
        let is_whole = external == 0 || options.keep_external;
        if !is_whole {
            return Ok(None);
        }
        let rope = Arc::new(builder.finish()?);
        Ok(Some(OnnxSource {
            source: Source::from_rope(Arc::clone(&rope), model_descriptor()),
            reader,
            rope,
            external_tensors: 0,
            warnings: Vec::new(),
            checksums: Vec::new(),
        }))
    }

    /// Bytes of the message.
    pub fn size(&self) -> u64 {
        self.rope.total_size()
    }

    /// The message's bytes, by position.
    pub fn reader(&self) -> &Arc<dyn ReadAt> {
        &self.reader
    }

    /// The message, to be split.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The rope that the message is, of one span if the model has no external data.
    pub fn rope(&self) -> &Arc<Rope> {
        &self.rope
    }

    /// The files that the message is read from: the model, then those that it refers to.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.rope.files()
    }

    /// How many tensors have their data in another file.
    pub fn external_tensors(&self) -> usize {
        self.external_tensors
    }

    pub(crate) fn checksums(&self) -> &[Checksum] {
        &self.checksums
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

/// What was found of external data so far.
#[derive(Default)]
struct Found {
    files: HashMap<PathBuf, RopeFileId>,
    tensors: usize,
    warnings: Vec<String>,
    /// What is said of whole files, once each, and by which tensor.
    checksums: BTreeMap<(RopeFileId, String), String>,
}

/// What a tensor whose data comes inside loses: what says where it was, and what doesn't count
/// beside it.
const OUTSIDE: &[u32] = &[
    4,
    5,
    6,
    7,
    field::RAW_DATA,
    10,
    11,
    field::EXTERNAL_DATA,
    field::DATA_LOCATION,
];

impl Found {
    /// Puts the data of an external tensor inside.
    fn inside(
        &mut self,
        tensor: &Tensor,
        folder: &Arc<Folder>,
        options: &OnnxOptions,
        builder: &mut RopeBuilder,
    ) -> Result<Change> {
        let named = |error: Error| in_tensor(error, tensor);
        if tensor.data_type() == Some(DataType::String) {
            return Err(tensor.invalid("strings can't be external data"));
        }
        let reference = ExternalReference::of(&tensor.entries).map_err(named)?;
        let file = self
            .file(&reference.location, folder, options, builder)
            .map_err(named)?;
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
            let tensor = || tensor.name.clone();
            self.checksums.entry((file, sha1)).or_insert_with(tensor);
        }
        let mut front = Vec::new();
        put_varint(&mut front, tag(FieldNumber(field::RAW_DATA), WireType::Len));
        put_varint(&mut front, range.end - range.start);
        Ok(Change::Fields {
            dropped: OUTSIDE,
            before: field::RAW_DATA + 1,
            inserted: vec![Inserted::Literal(front), Inserted::Span(file, range)],
        })
    }

    fn checksums(self) -> Vec<Checksum> {
        let checksum = |((file, sha1), tensor)| Checksum { file, sha1, tensor };
        self.checksums.into_iter().map(checksum).collect()
    }

    fn file(
        &mut self,
        location: &Path,
        folder: &Arc<Folder>,
        options: &OnnxOptions,
        builder: &mut RopeBuilder,
    ) -> Result<RopeFileId> {
        if let Some(&file) = self.files.get(location) {
            return Ok(file);
        }
        if self.files.len() >= options.max_files {
            let message = format!("more than {} external files", options.max_files);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let (folder, relative) = (Arc::clone(folder), location.to_owned());
        let shown = folder.shown(location);
        let file = builder.open_with(shown, move || folder.open(&relative))?;
        self.files.insert(location.to_owned(), file);
        Ok(file)
    }

    fn warn(&mut self, tensor: &Tensor, what: &str) {
        tracing::warn!(tensor = tensor.name, "{what}");
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings
                .push(format!("tensor \"{}\": {what}", tensor.name));
        }
    }
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
fn named(error: Error, path: &Path) -> Error {
    let shown = path.display().to_string();
    if error.to_string().starts_with(&shown) {
        error
    } else {
        error.context(shown)
    }
}

/// A SHA-1 that a tensor's `external_data` says of a whole file.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    pub(crate) file: RopeFileId,
    /// In hexadecimal.
    pub(crate) sha1: String,
    pub(crate) tensor: String,
}
