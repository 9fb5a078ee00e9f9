//! Choosing the tensors that are moved out of a model, and their locations in data files.

use std::path::{Path, PathBuf};

use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::spans::{Spans, SpansBuilder};
use proto_splitter_core::tensor::NameBudget;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::wire::{Field, FieldNumber, WireType, put_varint, tag};
use proto_splitter_core::{Error, ErrorKind, MessageReader, Result};
use record_file::ReadAt;

use super::contexts::Contexts;
use super::leaving::{Bytes, DataFile, Leaving, numbered, stem_and_ending};
use super::{
    ALIGNED_ABOVE, DataFormat, ExternalOptions, LEAST_MIN_SIZE, MAX_MODEL_SIZE, MAX_SHAPE_CARRIER,
    safetensors, same,
};
use crate::change::{Change, Inserted};
use crate::context::{Context, Part, put_bytes};
use crate::model_descriptor;
use crate::proto::tensor_proto::DataType;
use crate::rewrite::{Decide, Rewriter};
use crate::tensor::{Data, Tensor, field};
use crate::tensors::other_length;
use crate::walk::{Cursor, Place, TensorRole, Visitor, walk};

/// Maximum alignment of tensors, in bytes: 1 GiB.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// Maximum ratio of a tensor's size as raw data to its size in the model: a one-byte varint becomes
/// an `int64`. Exact sizes are known only after the elements are converted. Until then, this ratio
/// limits the sizes that a model can claim.
const MAX_GROWTH: u64 = 8;

/// A plan to write a model with external data: the tensors that are moved out, and their locations
/// in data files.
///
/// ```
/// use std::sync::Arc;
///
/// use prost::Message;
/// use proto_splitter_core::MessageReader;
/// use proto_splitter_onnx::external::{ExternalOptions, ExternalPlan};
/// use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto};
///
/// let tensor = |name: &str| TensorProto {
///     dims: vec![1000],
///     data_type: Some(1),
///     name: Some(name.into()),
///     raw_data: Some(vec![7; 4000].into()),
///     ..Default::default()
/// };
/// let graph = GraphProto { initializer: vec![tensor("a"), tensor("b")], ..Default::default() };
/// let model = ModelProto { graph: Some(graph), ..Default::default() }.encode_to_vec();
/// let size = model.len() as u64;
/// let model = MessageReader::new(Arc::new(model), size);
///
/// let plan = ExternalPlan::new(model, "model.onnx", &ExternalOptions::new())?;
/// // Both have the same bytes, which are written once.
/// assert_eq!((plan.tensor_count(), plan.data_size()), (2, 4000));
/// assert!(plan.model_size() < 200);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub struct ExternalPlan {
    pub(super) model: MessageReader,
    pub(super) target: PathBuf,
    pub(super) options: ExternalOptions,
    pub(super) skeleton: Spans,
    pub(super) leaving: Vec<Leaving>,
    /// Data files that contain tensors.
    pub(super) files: Vec<DataFile>,
    pub(super) contexts: Contexts,
}

impl std::fmt::Debug for ExternalPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalPlan")
            .field("target", &self.target)
            .field("model_size", &self.model_size())
            .field("tensors", &self.leaving.len())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ExternalPlan {
    /// Plans how to write the model to `target`. Reads headers, and compares tensors that may be
    /// equal.
    ///
    /// In a chunked file, a tensor may consist of whole chunks. Such tensors are first compared by
    /// the checksums of their chunks, and are later copied from the chunks to the data files.
    ///
    /// # Errors
    ///
    /// Any error due to damage in the parts of the model that are read;
    /// [`ErrorKind::InvalidConfig`] if an option is out of range, or readers of external data would
    /// refuse the target's name; [`ErrorKind::InvalidMessage`] if the model breaks the wire format
    /// or the size of a tensor's data doesn't match its type and shape; [`ErrorKind::Uncuttable`],
    /// which names the largest remaining parts, if the model without the moved tensors is larger
    /// than [`MAX_MODEL_SIZE`]; [`ErrorKind::LimitExceeded`] if a tensor is larger than a data file
    /// may be, or the names of the moved tensors are too large in total.
    pub fn new(
        model: MessageReader,
        target: impl Into<PathBuf>,
        options: &ExternalOptions,
    ) -> Result<ExternalPlan> {
        check(options)?;
        let target = target.into();
        let name = file_name(&target)?;
        let (mut leaving, mut contexts) = choose(&model, options, leaves)?;
        contexts.lay_out(&model, &name, &options.progress)?;
        let files = match options.data_format {
            DataFormat::Raw => {
                let spans = leaving.iter().map(|one| match &one.bytes {
                    Bytes::Raw(range) => Some(range.clone()),
                    Bytes::Typed(..) => None,
                });
                let spans: Vec<_> = spans.collect();
                let same = same::find(&model, &spans, &options.progress)?;
                lay_out(&same, &mut leaving, options, &name)?
            }
            DataFormat::Safetensors => safetensors::lay_out(&mut leaving, options, &name)?,
        };
        let all = files.iter().chain(&contexts.files);
        let names: Vec<String> = all.map(|file| file.name.clone()).collect();
        let names = names.split_at(files.len());
        let skeleton = skeleton(&model, options, &leaving, &contexts, names)?;
        let plan = ExternalPlan {
            model,
            target,
            options: options.clone(),
            skeleton,
            leaving,
            files,
            contexts,
        };
        plan.check_size()?;
        Ok(plan)
    }

    /// Returns the content of the `.onnx` file if the data files have these names.
    pub(super) fn skeleton_with(&self, names: &[String]) -> Result<Spans> {
        let names = names.split_at(self.files.len().min(names.len()));
        let (leaving, contexts) = (&self.leaving, &self.contexts);
        skeleton(&self.model, &self.options, leaving, contexts, names)
    }

    /// Returns the size of the `.onnx` file, in bytes.
    pub fn model_size(&self) -> u64 {
        self.skeleton.total_size()
    }

    /// Returns the total size of the data files, in bytes.
    pub fn data_size(&self) -> u64 {
        self.all_files().map(|file| file.size).sum()
    }

    /// Returns the number of tensors that are moved out of the model.
    pub fn tensor_count(&self) -> usize {
        self.leaving.len()
    }

    /// Returns the number of compiled nodes (onnxruntime's `EPContext`) whose content is moved out
    /// of the model.
    pub fn context_count(&self) -> usize {
        self.contexts.leaving.len()
    }

    /// Returns the paths of the data files, which are in the folder of the model: first the files
    /// with tensors, then the files with the contents of compiled nodes.
    pub fn data_files(&self) -> impl Iterator<Item = PathBuf> {
        self.all_files()
            .map(|file| self.target.with_file_name(&file.name))
    }

    /// Returns all data files, starting with those that contain tensors.
    pub(super) fn all_files(&self) -> impl Iterator<Item = &DataFile> {
        self.files.iter().chain(&self.contexts.files)
    }

    /// Returns the path and the content of the index, which maps tensors to data files; `None`
    /// unless the model has several safetensors files.
    pub(super) fn index(&self) -> Result<Option<(PathBuf, String)>> {
        if self.options.data_format == DataFormat::Raw || self.files.len() < 2 {
            return Ok(None);
        }
        let name = safetensors::index_name(&file_name(&self.target)?);
        let text = safetensors::index(&self.leaving, &self.files)?;
        Ok(Some((self.target.with_file_name(name), text)))
    }

    /// Fails if the model without the moved tensors is larger than readers accept. The error names
    /// the model's largest parts.
    fn check_size(&self) -> Result<()> {
        let size = self.model_size();
        if size <= MAX_MODEL_SIZE {
            return Ok(());
        }
        let message = format!(
            "the model has {size} bytes without its tensors, over the {MAX_MODEL_SIZE} that readers accept"
        );
        Err(left_in(&self.skeleton, message))
    }
}

/// Returns the error for a model that is too large even without the moved tensors. The error names
/// the model's largest parts.
pub(super) fn left_in<S: ReadAt>(skeleton: &S, message: String) -> Error {
    let error = Error::new(ErrorKind::Uncuttable, message).refusing_size();
    let options = ReadOptions::new().descriptor(model_descriptor());
    match MessageView::of_plain(skeleton, options) {
        Ok(view) => with_largest(error, &view, &FieldPath::root()),
        Err(_) => error,
    }
}

pub(super) fn check(options: &ExternalOptions) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
    if options.min_size < LEAST_MIN_SIZE && !options.force {
        return invalid(format!(
            "onnxruntime refuses external tensors of fewer than {LEAST_MIN_SIZE} bytes; \
             use force to write them anyway"
        ));
    }
    if !options.alignment.is_power_of_two() || options.alignment > MAX_ALIGNMENT {
        return invalid(format!(
            "the alignment is {} bytes, but must be a power of two up to {MAX_ALIGNMENT}",
            options.alignment
        ));
    }
    if options.max_file_size == Some(0) || options.shard_size == Some(0) {
        return invalid("the maximum file size is 0 bytes, but must be at least 1".to_owned());
    }
    Ok(())
}

/// Returns the file name of the target. Fails if a reader of external data could refuse the name,
/// since the names of the data files begin with it, and are stored in the model.
pub(super) fn file_name(target: &Path) -> Result<String> {
    let name = target.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if !name.contains("..") && !name.contains('\\') => Ok(name.to_owned()),
        _ => {
            let message = format!(
                "{}: readers of external data accept no file name that has \"..\" or a backslash, \
                 or is not UTF-8",
                target.display()
            );
            Err(Error::new(ErrorKind::InvalidConfig, message))
        }
    }
}

/// Returns the tensors whose data is in the model and for which `leaves` returns true, and those
/// contents of compiled nodes that are large enough to be moved out.
pub(super) fn choose(
    model: &MessageReader,
    options: &ExternalOptions,
    leaves: fn(&ExternalOptions, &Tensor, &Place<'_>, u64) -> bool,
) -> Result<(Vec<Leaving>, Contexts)> {
    let mut choice = Choice {
        options,
        leaves,
        leaving: Vec::new(),
        contexts: Contexts::default(),
        budget: NameBudget::default(),
    };
    walk(model, model.total_size(), options.max_depth, &mut choice)?;
    Ok((choice.leaving, choice.contexts))
}

/// Returns true if a tensor with `len` bytes of raw data is moved to a file next to the model.
fn leaves(options: &ExternalOptions, tensor: &Tensor, place: &Place<'_>, len: u64) -> bool {
    (options.everywhere || is_filled_by_onnx(place))
        && len >= options.min_size
        && !is_shape_carrier(tensor, len)
}

/// A visitor that chooses the tensors and compiled-node contents to move out of a model.
struct Choice<'a> {
    options: &'a ExternalOptions,
    leaves: fn(&ExternalOptions, &Tensor, &Place<'_>, u64) -> bool,
    leaving: Vec<Leaving>,
    contexts: Contexts,
    budget: NameBudget,
}

impl Visitor for Choice<'_> {
    fn tensor(
        &mut self,
        _: &Field,
        tensor: &Tensor,
        place: &Place<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let data_type = tensor.data_type().filter(|_| !tensor.is_external);
        let (Some(len), Some(data_type)) = (tensor.raw_len(), data_type) else {
            return Ok(());
        };
        if !(self.leaves)(self.options, tensor, place, len) {
            return Ok(());
        }
        let bytes = match tensor.data() {
            // A tensor in the skeleton of a model has only a type and a shape, and no bytes to
            // move.
            Data::Raw(range) if range.is_empty() && len > 0 => return Ok(()),
            Data::Raw(range) if range.end - range.start != len => {
                let found = range.end - range.start;
                let error = tensor.invalid(&other_length(found, len));
                return Err(error.at_path(place.path()));
            }
            Data::Raw(range) => Bytes::Raw(range),
            Data::Typed(_) if len / MAX_GROWTH > tensor.range.end - tensor.range.start => {
                let message = format!("its shape makes {len} bytes, but it has fewer elements");
                return Err(tensor.invalid(&message).at_path(place.path()));
            }
            Data::Typed(form) => Bytes::Typed(tensor.range.clone(), form),
            Data::External | Data::None => return Ok(()),
        };
        // Libraries look up an initializer in a safetensors file by the initializer's own name.
        let has_own_name = self.options.data_format == DataFormat::Safetensors
            && place.role == TensorRole::Initializer
            && !tensor.name.is_empty();
        let name = if has_own_name {
            tensor.name.clone()
        } else {
            place.name(cursor, tensor, &mut self.budget)?
        };
        self.leaving.push(Leaving {
            start: tensor.range.start,
            name,
            bytes,
            len,
            data_type,
            dims: tensor.dims.clone(),
            file: 0,
            offset: 0,
            is_copy: false,
        });
        Ok(())
    }

    fn context(
        &mut self,
        _: &Field,
        context: &Context,
        part: Part,
        _: &mut Cursor<'_>,
    ) -> Result<()> {
        let content = &context.value;
        let leaves = context.is_embedded && content.end - content.start >= self.options.min_size;
        if leaves && part == Part::Content {
            self.contexts.add(content.clone());
        }
        Ok(())
    }
}

/// Returns true if `onnx.load` of onnx 1.23 loads the external data of a tensor at `place`. Data
/// that `onnx.load` doesn't load remains external, and later uses of the model fail.
fn is_filled_by_onnx(place: &Place<'_>) -> bool {
    match place.role {
        _ if place.in_training() => false,
        TensorRole::Initializer | TensorRole::Attribute => {
            !(place.in_function() && place.in_subgraph())
        }
        _ => false,
    }
}

/// Returns true if shape inference may have to read the tensor.
fn is_shape_carrier(tensor: &Tensor, len: u64) -> bool {
    matches!(tensor.data_type(), Some(DataType::Int64 | DataType::Int32))
        && tensor.dims.len() <= 1
        && len <= MAX_SHAPE_CARRIER
}

/// Assigns a data file and an offset in it to each tensor, in order.
fn lay_out(
    same: &[Option<usize>],
    leaving: &mut [Leaving],
    options: &ExternalOptions,
    name: &str,
) -> Result<Vec<DataFile>> {
    let limits = [options.max_file_size, options.shard_size];
    let most = limits.into_iter().flatten().min();
    let most = most.unwrap_or(i64::MAX.cast_unsigned());
    let mut sizes: Vec<u64> = Vec::new();
    for at in 0..leaving.len() {
        if let Some(first) = same[at] {
            let (file, offset) = (leaving[first].file, leaving[first].offset);
            let copy = &mut leaving[at];
            (copy.file, copy.offset, copy.is_copy) = (file, offset, true);
            continue;
        }
        let one = &mut leaving[at];
        one.check_len(options)?;
        let alignment = if one.len > ALIGNED_ABOVE {
            options.alignment
        } else {
            1
        };
        let end_in = |size: u64| {
            let offset = size.checked_next_multiple_of(alignment)?;
            let end = offset.checked_add(one.len)?;
            (end <= most).then_some((offset, end))
        };
        let place = sizes.last().and_then(|&size| end_in(size));
        let (offset, end) = match place {
            Some(place) => place,
            None => {
                sizes.push(0);
                end_in(0).unwrap_or((0, one.len))
            }
        };
        if let Some(size) = sizes.last_mut() {
            *size = end;
        }
        (one.file, one.offset) = (sizes.len() - 1, offset);
    }
    let (stem, ending) = stem_and_ending(name);
    let count = sizes.len();
    let named = sizes.into_iter().enumerate().map(|(at, size)| DataFile {
        name: numbered(stem, ending, at, count),
        head: Vec::new(),
        size,
    });
    Ok(named.collect())
}

/// The tensors and compiled-node contents that are moved out of a model, and their files.
struct Away<'a> {
    leaving: &'a [Leaving],
    names: &'a [String],
    contexts: &'a Contexts,
    context_names: &'a [String],
    /// Number of tensors in `leaving` that were already found in the model.
    seen: usize,
}

/// Returns the model without the tensors and compiled-node contents that are moved out, as spans.
/// `names` has the names of the files with tensors, and of those with contents.
pub(super) fn skeleton(
    model: &MessageReader,
    options: &ExternalOptions,
    leaving: &[Leaving],
    contexts: &Contexts,
    (names, context_names): (&[String], &[String]),
) -> Result<Spans> {
    let mut away = Away {
        leaving,
        names,
        contexts,
        context_names,
        seen: 0,
    };
    let mut builder = SpansBuilder::new();
    let source = builder.reader("the model", model.clone().into())?;
    let mut rewriter = Rewriter::new(&mut builder, source, &mut away);
    let size = model.total_size();
    walk(model, size, options.max_depth, &mut rewriter)?;
    rewriter.finish(size)?;
    if let Some(one) = leaving.get(away.seen) {
        let message = format!("tensor \"{}\" is no longer in the model", one.name);
        return Err(Error::new(ErrorKind::SourceChanged, message));
    }
    builder.finish()
}

impl Decide for Away<'_> {
    fn tensor(&mut self, tensor: &Tensor, _: &Place<'_>, _: &mut SpansBuilder) -> Result<Change> {
        let next = self.leaving.get(self.seen);
        let Some(one) = next.filter(|one| one.start == tensor.range.start) else {
            return Ok(Change::None);
        };
        self.seen += 1;
        let location = self.names.get(one.file).map_or("", String::as_str);
        Ok(Change::Fields {
            dropped: field::DATA,
            before: field::DATA_LOCATION,
            inserted: vec![Inserted::Literal(reference(location, one.offset, one.len))],
            after: Vec::new(),
        })
    }

    fn context(
        &mut self,
        context: &Context,
        part: Part,
        _: &mut Cursor<'_>,
        _: &mut SpansBuilder,
    ) -> Result<Change> {
        let file = self.contexts.file_of(context.value.start);
        let name = file.and_then(|file| self.context_names.get(file));
        Ok(name.map_or(Change::None, |name| context.outside(part, name)))
    }
}

/// Encodes `external_data` with the three keys that all readers accept, and `data_location`.
fn reference(location: &str, offset: u64, length: u64) -> Vec<u8> {
    let (offset, length) = (offset.to_string(), length.to_string());
    let mut out = Vec::new();
    for (key, value) in [
        ("location", location),
        ("offset", &offset),
        ("length", &length),
    ] {
        let mut entry = Vec::new();
        for (number, text) in [(1, key), (2, value)] {
            put_bytes(&mut entry, number, text.as_bytes());
        }
        put_bytes(&mut out, field::EXTERNAL_DATA, &entry);
    }
    let location = FieldNumber(field::DATA_LOCATION);
    put_varint(&mut out, tag(location, WireType::Varint));
    put_varint(&mut out, 1);
    out
}
