//! The tensors of a model by name: their headers, and their elements.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::tensor::{ElementForm, NameBudget};
use proto_splitter_core::wire::{Field, SourceInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::data_type::{element_bits, element_count, raw_len, type_name};
use crate::elements;
use crate::options::OnnxOptions;
use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::source::OnnxSource;
use crate::tensor::{Data, Tensor};
use crate::walk::{Cursor, Place, TensorRole, Visitor, joined, walk};

/// Number of entries in a block of [`ModelTensors`].
const BLOCK: usize = 4096;

/// A tensor of a model.
#[derive(Clone, Copy)]
pub struct ModelTensor<'a> {
    all: &'a ModelTensors,
    entry: &'a Entry,
}

/// The data stored for one tensor. The names, shapes and paths of all tensors are in shared
/// buffers, since a model can have hundreds of thousands of tensors.
#[derive(Clone, Debug)]
struct Entry {
    /// Range in `ModelTensors::names` of the name that [`ModelTensor::name`] returns.
    name: Range<usize>,
    /// Range in `ModelTensors::names` of the name in the tensor's message.
    own_name: Range<usize>,
    /// Range of the shape in `ModelTensors::dims`.
    dims: Range<usize>,
    /// Index in `ModelTensors::parents` of the path of the message that contains the tensor.
    parent: usize,
    /// Name of the parent message's field that contains the tensor.
    label: &'static str,
    /// Index of the tensor in the field; `None` if the field isn't repeated.
    index: Option<u32>,
    role: TensorRole,
    data_type: i32,
    range: Range<u64>,
    raw: Option<Range<u64>>,
    has_typed: bool,
    is_external: bool,
}

impl std::fmt::Debug for ModelTensor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelTensor")
            .field("name", &self.name())
            .field("path", &self.path())
            .field("role", &self.role())
            .field("type", &self.type_name())
            .field("dims", &self.dims())
            .finish_non_exhaustive()
    }
}

impl<'a> ModelTensor<'a> {
    /// Returns the tensor's common name: for an initializer, its own name; for a constant, the name
    /// of its output; for a tensor in another attribute, `node.attribute`. In a subgraph, the name
    /// is prefixed with the names of the node and the attribute; in a function, with the function's
    /// name.
    pub fn name(&self) -> &'a str {
        &self.all.names[self.entry.name.clone()]
    }

    /// Returns the name in the tensor's message.
    fn own_name(&self) -> &'a str {
        &self.all.names[self.entry.own_name.clone()]
    }

    /// Returns the tensor's field path in the model.
    pub fn path(&self) -> String {
        let parent = self.all.parents[self.entry.parent].clone();
        joined(parent, self.entry.label, self.entry.index)
    }

    /// Returns the tensor's role in the model.
    pub fn role(&self) -> TensorRole {
        self.entry.role
    }

    /// Returns the type of the elements, if ONNX 1.23 defines it.
    pub fn data_type(&self) -> Option<DataType> {
        DataType::try_from(self.entry.data_type).ok()
    }

    /// Returns the name of the element type in lower case, such as `float16`; its number if the
    /// type is unknown.
    pub fn type_name(&self) -> String {
        self.data_type()
            .map_or_else(|| self.entry.data_type.to_string(), type_name)
    }

    /// Returns the number of the element type in ONNX's enum `DataType`.
    pub fn type_number(&self) -> i32 {
        self.entry.data_type
    }

    /// Returns the byte range of the tensor's message in the model.
    pub(crate) fn range(&self) -> Range<u64> {
        self.entry.range.clone()
    }

    /// Returns the size of the tensor's message, including its data in the model, in bytes.
    pub(crate) fn stored_len(&self) -> u64 {
        self.entry.range.end - self.entry.range.start
    }

    /// Returns the tensor's shape.
    pub fn dims(&self) -> &'a [i64] {
        &self.all.dims[self.entry.dims.clone()]
    }

    /// Returns the number of elements; `None` if the shape is invalid.
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.dims())
    }

    /// Returns the size of the elements as raw data, in bytes; `None` for strings, unknown types
    /// and invalid shapes.
    pub fn raw_len(&self) -> Option<u64> {
        raw_len(self.data_type()?, self.dims())
    }

    /// Returns the byte range of the tensor's raw data in the model; `None` if the tensor has
    /// elements in a typed field, data in another file, or no data.
    pub fn raw_data(&self) -> Option<Range<u64>> {
        if self.entry.is_external {
            None
        } else {
            self.entry.raw.clone()
        }
    }

    /// Returns true if the tensor's data is in another file, which was not opened.
    pub fn is_external(&self) -> bool {
        self.entry.is_external
    }

    /// Returns the tensor as it was parsed, without the content of its `external_data`.
    fn found(&self) -> Tensor {
        let entry = self.entry;
        Tensor {
            name: self.own_name().to_owned(),
            dims: self.dims().to_owned(),
            data_type: entry.data_type,
            range: entry.range.clone(),
            raw: entry.raw.clone(),
            has_typed: entry.has_typed,
            is_external: entry.is_external,
            ..Tensor::default()
        }
    }
}

/// A parser of the paths of tensors. Only the first of the tensors in a field is parsed; the others
/// differ in the index.
pub(crate) struct TensorPaths<'d> {
    model: &'d MessageDescriptor,
    /// The most recent path, with the parent and the label of its tensor.
    recent: Option<(usize, &'static str, FieldPath)>,
}

impl<'d> TensorPaths<'d> {
    pub(crate) fn new(model: &'d MessageDescriptor) -> TensorPaths<'d> {
        TensorPaths {
            model,
            recent: None,
        }
    }

    /// Returns the path of a tensor. `text` is the same path with names.
    pub(crate) fn path(&mut self, tensor: ModelTensor<'_>, text: &str) -> Result<FieldPath> {
        let Entry {
            parent,
            label,
            index,
            ..
        } = tensor.entry;
        if let Some((above, field, path)) = &self.recent
            && (above, field) == (parent, label)
            && let Some(index) = index
        {
            let mut path = path.clone();
            if let Some(Step { field, .. }) = path.pop() {
                path.push(Step::index(field.0, u64::from(*index)));
            }
            return Ok(path);
        }
        let path = FieldPath::parse(text, self.model)?;
        self.recent = Some((*parent, label, path.clone()));
        Ok(path)
    }
}

/// All tensors of a model.
///
/// ```
/// use prost::Message;
/// use proto_splitter_onnx::ModelTensors;
/// use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto};
///
/// let tensor = TensorProto {
///     dims: vec![2],
///     data_type: Some(10),
///     name: Some("halves".into()),
///     int32_data: vec![15872, 49152],
///     ..Default::default()
/// };
/// let graph = GraphProto { initializer: vec![tensor], ..Default::default() };
/// let model = ModelProto { graph: Some(graph), ..Default::default() }.encode_to_vec();
///
/// let size = model.len() as u64;
/// let tensors = ModelTensors::read(std::sync::Arc::new(model), size, &Default::default())?;
/// let halves = tensors.find("halves")?;
/// assert_eq!((halves.type_name().as_str(), halves.dims()), ("float16", &[2][..]));
/// assert_eq!(halves.path(), "graph.initializer[0]");
///
/// let mut raw = Vec::new();
/// tensors.write_raw(halves, &mut raw)?;
/// assert_eq!(raw, [0x00, 0x3e, 0x00, 0xc0]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct ModelTensors {
    reader: Arc<dyn ReadAt>,
    /// Entries, in blocks of [`BLOCK`]. The last block may have fewer. A single list would be
    /// copied as it grows.
    entries: Vec<Vec<Entry>>,
    names: String,
    dims: Vec<i64>,
    /// Field paths of the messages that contain tensors.
    parents: Vec<String>,
}

impl std::fmt::Debug for ModelTensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl OnnxSource {
    /// Lists the tensors of the model.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelTensors::read`].
    pub fn tensors(&self) -> Result<ModelTensors> {
        ModelTensors::read(Arc::clone(self.reader()), self.size(), &OnnxOptions::new())
    }
}

impl ModelTensors {
    /// Lists the tensors of the model in the first `size` bytes of `reader`. Only headers are read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`], with the path and the offset, if the model breaks the wire
    /// format; [`ErrorKind::LimitExceeded`]; [`ErrorKind::Io`] if reading fails.
    pub fn read(reader: Arc<dyn ReadAt>, size: u64, options: &OnnxOptions) -> Result<ModelTensors> {
        let tensors = ModelTensors {
            reader: Arc::clone(&reader),
            entries: Vec::new(),
            names: String::new(),
            dims: Vec::new(),
            parents: Vec::new(),
        };
        let mut all = All {
            tensors,
            message: None,
            budget: NameBudget::default(),
        };
        walk(&*reader, size, options.get_max_depth(), &mut all)?;
        Ok(all.tensors)
    }

    /// Returns the tensors, in the model's order.
    pub fn iter(&self) -> ModelTensorIter<'_> {
        ModelTensorIter {
            all: self,
            indices: 0..self.len(),
        }
    }

    /// Returns the tensor with this index, in the model's order; `None` if there are fewer tensors.
    pub fn get(&self, index: usize) -> Option<ModelTensor<'_>> {
        let entry = self.entries.get(index / BLOCK)?.get(index % BLOCK)?;
        Some(ModelTensor { all: self, entry })
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        let full = self.entries.len().saturating_sub(1);
        full * BLOCK + self.entries.last().map_or(0, Vec::len)
    }

    /// Returns true if there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the tensor with this name, or at this path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no such tensor, or several tensors have this name.
    pub fn find(&self, name: &str) -> Result<ModelTensor<'_>> {
        let mut named = self.iter().filter(|tensor| tensor.name() == name);
        let by_path = || self.iter().find(|tensor| tensor.path() == name);
        let message = match (named.next().or_else(by_path), named.next()) {
            (Some(tensor), None) => return Ok(tensor),
            (Some(first), Some(second)) => format!(
                "several tensors are called \"{name}\": {} and {}",
                first.path(),
                second.path()
            ),
            (None, _) => format!("the model has no tensor \"{name}\""),
        };
        Err(Error::new(ErrorKind::InvalidPath, message))
    }

    /// Returns a tensor's reference to the file with its data; `None` if there is no valid
    /// reference.
    pub(crate) fn reference(&self, tensor: ModelTensor<'_>) -> Result<Option<ExternalReference>> {
        let range = tensor.entry.range.clone();
        let mut found = Tensor::default();
        let mut cursor = WireCursor::new(SourceInput::new(&*self.reader, range.end));
        found.parse(&mut cursor, range)?;
        Ok(ExternalReference::of(&found.entries).ok())
    }

    /// Writes a tensor's elements as raw data, little-endian, and returns the number of bytes
    /// written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the tensor's elements aren't in the model, or don't match
    /// its type and shape; [`ErrorKind::Io`] if reading or writing fails.
    pub fn write_raw(&self, tensor: ModelTensor<'_>, sink: &mut dyn Write) -> Result<u64> {
        let found = tensor.found();
        let written = found
            .write_raw(&*self.reader, sink)
            .map_err(|error| error.at_path(tensor.path()))?;
        match tensor.raw_len() {
            Some(needed) if needed != written => Err(found
                .invalid(&other_length(written, needed))
                .at_path(tensor.path())),
            _ => Ok(written),
        }
    }

    /// Returns the problems of the tensors, one line each. Examples of problems are data whose
    /// length doesn't match the tensor's type and shape, an unknown type, and two initializers with
    /// the same name in one graph. Reads elements in typed fields, such as `float_data`, to count
    /// them, but no raw data.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if reading fails.
    pub fn problems(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut names: HashMap<(String, &str), ModelTensor<'_>> = HashMap::new();
        for tensor in self {
            if let Some(problem) = self.problem(tensor)? {
                let (path, name) = (tensor.path(), tensor.name());
                problems.push(format!("{path}: \"{name}\": {problem}"));
            }
            let Some(graph) = graph_of(tensor) else {
                continue;
            };
            let name = tensor.own_name();
            if let Some(first) = names.insert((graph, name), tensor) {
                problems.push(format!(
                    "{}: another initializer is called \"{name}\": {}",
                    tensor.path(),
                    first.path()
                ));
            }
        }
        Ok(problems)
    }

    fn problem(&self, tensor: ModelTensor<'_>) -> Result<Option<String>> {
        let inner = &tensor.found();
        let Some(data_type) = inner.data_type().filter(|one| *one != DataType::Undefined) else {
            return Ok(Some(format!("its type is {}", inner.type_name())));
        };
        let Some(elements) = inner.element_count() else {
            return Ok(Some(format!("its shape is {:?}", inner.dims)));
        };
        if data_type == DataType::String {
            return Ok(inner
                .raw
                .is_some()
                .then(|| "strings can't be raw data".to_owned()));
        }
        let Some(needed) = inner.raw_len() else {
            return Ok(Some(format!("its shape is {:?}", inner.dims)));
        };
        let found = match (inner.data(), element_bits(data_type)) {
            (Data::External, _) | (_, None) => return Ok(None),
            (Data::Raw(range), _) => range.end - range.start,
            (Data::Typed(form), _) => match self.converted_len(inner, form) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::InvalidMessage => {
                    return Ok(Some(error.to_string()));
                }
                Err(error) => return Err(error),
            },
            (Data::None, _) if elements == 0 => 0,
            (Data::None, _) => return Ok(Some("it has no data".to_owned())),
        };
        Ok((found != needed).then(|| other_length(found, needed)))
    }

    fn converted_len(&self, tensor: &Tensor, form: ElementForm) -> Result<u64> {
        let range = tensor.range.clone();
        elements::convert(&*self.reader, range, form, &mut std::io::sink())
    }
}

/// Iterator over the tensors of a model, from [`ModelTensors::iter`].
#[derive(Clone, Debug)]
pub struct ModelTensorIter<'a> {
    all: &'a ModelTensors,
    indices: Range<usize>,
}

impl<'a> Iterator for ModelTensorIter<'a> {
    type Item = ModelTensor<'a>;

    fn next(&mut self) -> Option<ModelTensor<'a>> {
        self.all.get(self.indices.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

impl ExactSizeIterator for ModelTensorIter<'_> {}

impl<'a> IntoIterator for &'a ModelTensors {
    type Item = ModelTensor<'a>;
    type IntoIter = ModelTensorIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns the path of the graph that contains the tensor; `None` if the tensor isn't an
/// initializer, or has no name.
fn graph_of(tensor: ModelTensor<'_>) -> Option<String> {
    let is_initializer = matches!(
        tensor.role(),
        TensorRole::Initializer | TensorRole::SparseValues
    );
    if !is_initializer || tensor.own_name().is_empty() {
        return None;
    }
    let path = tensor.path();
    let (graph, _) = path.rsplit_once("initializer[")?;
    Some(graph.trim_end_matches("sparse_").to_owned())
}

pub(crate) fn other_length(found: u64, needed: u64) -> String {
    format!("it has {found} bytes, but its type and shape require {needed}")
}

struct All {
    tensors: ModelTensors,
    /// Number of the message that contained the previous tensor; `None` if the walk has left a
    /// message since then.
    message: Option<u64>,
    budget: NameBudget,
}

impl Visitor for All {
    fn leave(&mut self, _: &Field) -> Result<()> {
        self.message = None;
        Ok(())
    }

    fn tensor(
        &mut self,
        _: &Field,
        tensor: &Tensor,
        place: &Place<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let all = &mut self.tensors;
        if self.message != Some(place.message) {
            self.message = Some(place.message);
            let parent = place.parent();
            let spent = self.budget.spend(parent.len() as u64);
            spent.map_err(|error| error.at_path(place.path()))?;
            all.parents.push(parent);
        }
        let own_name = append(&mut all.names, &tensor.name);
        let name = if place.has_own_name() {
            own_name.clone()
        } else {
            let name = place.name(cursor, tensor, &mut self.budget)?;
            append(&mut all.names, &name)
        };
        let dims = all.dims.len();
        all.dims.extend_from_slice(&tensor.dims);
        let entry = Entry {
            name,
            own_name,
            dims: dims..all.dims.len(),
            parent: all.parents.len() - 1,
            label: place.label,
            index: place.index,
            role: place.role,
            data_type: tensor.data_type,
            range: tensor.range.clone(),
            raw: tensor.raw.clone(),
            has_typed: tensor.has_typed,
            is_external: tensor.is_external,
        };
        match all.entries.last_mut() {
            Some(block) if block.len() < BLOCK => block.push(entry),
            _ => all.entries.push(vec![entry]),
        }
        Ok(())
    }
}

fn append(all: &mut String, text: &str) -> Range<usize> {
    let start = all.len();
    all.push_str(text);
    start..all.len()
}
