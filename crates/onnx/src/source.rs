//! A model with its external data inside, as if it had been written to one file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::formats::Candidate;
use proto_splitter_core::spans::{Spans, SpansBuilder};
use proto_splitter_core::split::Source;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::change::Change;
use crate::context::{Context, Part};
use crate::external_data::{ExternalData, Outside};
use crate::folder::Folder;
use crate::model_descriptor;
use crate::options::OnnxOptions;
use crate::rewrite::{Decide, Rewriter};
use crate::tensor::Tensor;
use crate::walk::{Cursor, Place, walk};

/// A model and its external data as one message.
///
/// A tensor whose data is in another file has this data as `raw_data` in the message:
///
/// ```text
/// in the file        dims  data_type  name              external_data ...  data_location
/// in this message    dims  data_type  name  raw_data
/// ```
///
/// The bytes are exactly those that the model had before the Python package `onnx` moved the
/// tensors' data to files. Building the message reads only headers, and takes about 100 bytes of
/// memory for each tensor. The data stays in its files.
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
    /// True if the model is in the header of a safetensors file, with its tensors.
    is_embedded: bool,
    /// True if the model declares checksums of files, which are verified when the files are read.
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
    /// or is outside the model's folder; [`ErrorKind::InvalidMessage`], which names the tensor, if
    /// a reference is malformed, extends past the end of its file, or has a length that doesn't
    /// match the tensor's type and shape; [`ErrorKind::LimitExceeded`].
    pub fn open(path: impl AsRef<Path>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = path.as_ref();
        let input = Candidate::new(path);
        let opened = input.and_then(|input| OnnxSource::open_model(&input, options));
        opened.map_err(|error| named(error, path))
    }

    /// Opens the model in an open input, which is a local file or an object in a store.
    pub(crate) fn of_input(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        if input.is_local() {
            let opened = OnnxSource::open_model(input, options);
            return opened.map_err(|error| named(error, input.path()));
        }
        let model = OnnxSource::of_reader(input.source()?, input.path(), options)?;
        // `None` means that the model has external files, which aren't copied along with a remote
        // input.
        model.ok_or_else(|| input.needs_file())
    }

    fn open_model(input: &Candidate<'_>, options: &OnnxOptions) -> Result<OnnxSource> {
        let path = input.path();
        let mut builder = SpansBuilder::new();
        let model = input.add_to(&mut builder)?;
        let size = builder.file_size(model)?;
        let reader = builder.handle(model)?;
        check_size(size)?;
        let folder = match options.get_external_folder() {
            Some(folder) => Folder::named(folder.to_owned()),
            None => Folder::of_model(path)?,
        };
        let mut found = ExternalData::new(folder, options);
        let mut rewriter = Rewriter::new(&mut builder, model, &mut found);
        walk(&*reader, size, options.get_max_depth(), &mut rewriter)?;
        rewriter.finish(size)?;
        found.warn_of_missing();
        let has_checksums = !found.checksums.is_empty();
        found.check_when_read(&mut builder);
        // The spans are read even if there is only one, since they detect changes to the file.
        let mut model = OnnxSource::of_spans(builder.finish()?, found.tensors, found.warnings)?;
        if found.tensors + found.contexts == 0 {
            model.source = input.message(model_descriptor())?;
        }
        model.external_contexts = found.contexts;
        model.has_checksums = has_checksums;
        model.outside = found.outside;
        Ok(model)
    }

    /// Creates a source from spans. `external_tensors` is the number of tensors whose data comes
    /// from other files.
    fn of_spans(
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
            is_embedded: false,
            has_checksums: false,
            outside: Outside::default(),
            warnings,
        })
    }

    /// Creates a source from spans of a safetensors file with the model in its header.
    pub(crate) fn of_header(spans: Spans, tensors: usize, warnings: Vec<String>) -> Result<Self> {
        let model = OnnxSource::of_spans(spans, tensors, warnings)?;
        Ok(OnnxSource {
            is_embedded: true,
            ..model
        })
    }

    /// Opens the model in `reader`, such as an object in a store. Returns `None` if the message
    /// must include data from another file, because a reader has no folder in which other files
    /// could be looked up.
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
        walk(&*reader, size, options.get_max_depth(), &mut rewriter)?;
        rewriter.finish(size)?;
        let is_whole = elsewhere.0 == 0 || options.get_keep_external();
        if !is_whole {
            return Ok(None);
        }
        let model = OnnxSource::of_spans(builder.finish()?, 0, Vec::new())?;
        Ok(Some(OnnxSource { reader, ..model }))
    }

    /// Returns the size of the message, in bytes.
    pub fn size(&self) -> u64 {
        self.spans.total_size()
    }

    /// Returns the message's bytes, for random access.
    pub fn reader(&self) -> &Arc<dyn ReadAt> {
        &self.reader
    }

    /// Returns the message as a source for splitting.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the message as spans of the model and its external files. A model without external
    /// data is a single span.
    pub fn spans(&self) -> &Arc<Spans> {
        &self.spans
    }

    /// Returns the files from which the message is read: the model, followed by the files that it
    /// refers to.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        let files = self.spans.files();
        // The header's model has a place of its own among the spans, but is in the same file.
        let count = if self.is_embedded { 1 } else { files.len() };
        files.take(count)
    }

    /// Returns true if the model is in the header of a safetensors file, with its tensors.
    pub(crate) fn is_embedded(&self) -> bool {
        self.is_embedded
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

    /// Returns true if the model declares checksums of files, which are verified when the files are
    /// read.
    pub(crate) fn has_checksums(&self) -> bool {
        self.has_checksums
    }

    /// Returns true if the message contains bytes of external files.
    pub(crate) fn is_put_together(&self) -> bool {
        self.external_tensors + self.external_contexts > 0
    }

    /// Returns the external files whose data isn't part of the message: the missing files or, if
    /// the options keep all references, all external files. A model that was opened from a reader
    /// has none, since its references lead to no folder.
    pub fn outside_files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.outside.files.iter().map(PathBuf::as_path)
    }

    /// Returns the number of tensors with data in [`outside_files`](Self::outside_files).
    pub fn outside_tensors(&self) -> usize {
        self.outside.tensors
    }

    /// Returns the path of an external file, as it appears in error messages.
    pub(crate) fn shown(&self, location: &Path) -> PathBuf {
        match &self.outside.folder {
            Some(folder) => folder.shown(location),
            None => location.to_owned(),
        }
    }

    /// Returns the reasons why other readers may refuse the model, such as undefined keys in
    /// `external_data`, or external tensors that also have data in the model. Each reason is one
    /// line.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl From<&OnnxSource> for Source {
    fn from(model: &OnnxSource) -> Source {
        model.source.clone()
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

/// Fails for an empty file: protobuf accepts it as a message without fields, but it isn't a model.
fn check_size(size: u64) -> Result<()> {
    if size > 0 {
        return Ok(());
    }
    let message = "the file is empty, but an ONNX model was expected";
    Err(Error::new(ErrorKind::InvalidMessage, message))
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
