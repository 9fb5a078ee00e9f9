//! The tensors of a model by name: what they are, and their elements.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use proto_splitter_core::wire::Field;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::data_type::{TypedField, element_bits};
use crate::elements;
use crate::proto::tensor_proto::DataType;
use crate::source::{OnnxOptions, OnnxSource};
use crate::tensor::{Data, Tensor};
use crate::walk::{Cursor, Place, TensorRole, Visitor, walk};

/// A tensor of a model.
#[derive(Clone, Debug)]
pub struct ModelTensor {
    name: String,
    path: String,
    role: TensorRole,
    tensor: Tensor,
}

impl ModelTensor {
    /// What people call it: an initializer by its name, a constant by the output that it is, another
    /// attribute as `node.attribute`; with the node and attribute of the subgraph, or the function,
    /// that it is in.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its field path in the model.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it is in the model.
    pub fn role(&self) -> TensorRole {
        self.role
    }

    /// The type of its elements, if ONNX 1.23 knows it.
    pub fn data_type(&self) -> Option<DataType> {
        self.tensor.data_type()
    }

    /// The type's name in lower case, as `float16`; the number of one that is unknown.
    pub fn type_name(&self) -> String {
        self.tensor.type_name()
    }

    /// The number of the type of its elements.
    pub fn type_number(&self) -> i32 {
        self.tensor.data_type
    }

    /// How many bytes the tensor has as a message, its data in the model included.
    pub(crate) fn stored_len(&self) -> u64 {
        self.tensor.range.end - self.tensor.range.start
    }

    /// Its shape.
    pub fn dims(&self) -> &[i64] {
        &self.tensor.dims
    }

    /// How many elements it has; `None` if its shape is absurd.
    pub fn element_count(&self) -> Option<u64> {
        self.tensor.element_count()
    }

    /// How many bytes its elements have as raw data; `None` for strings, unknown types and absurd
    /// shapes.
    pub fn raw_len(&self) -> Option<u64> {
        self.tensor.raw_len()
    }

    /// Where its raw data is in the model; `None` if its elements stand there one by one, or in
    /// another file, or nowhere.
    pub fn raw_data(&self) -> Option<std::ops::Range<u64>> {
        match self.tensor.data() {
            Data::Raw(range) => Some(range),
            _ => None,
        }
    }

    /// Whether its data is in another file, which was not opened.
    pub fn is_external(&self) -> bool {
        self.tensor.is_external
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
    tensors: Vec<ModelTensor>,
}

impl std::fmt::Debug for ModelTensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.tensors).finish()
    }
}

impl OnnxSource {
    /// The tensors of the model.
    ///
    /// # Errors
    ///
    /// As [`ModelTensors::read`].
    pub fn tensors(&self) -> Result<ModelTensors> {
        ModelTensors::read(Arc::clone(self.reader()), self.size(), &OnnxOptions::new())
    }
}

impl ModelTensors {
    /// The tensors of the model that is the first `size` bytes of `reader`. Only headers are read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] with the path and offset if the model breaks the wire format;
    /// [`ErrorKind::LimitExceeded`]; [`ErrorKind::Io`] if reading fails.
    pub fn read(reader: Arc<dyn ReadAt>, size: u64, options: &OnnxOptions) -> Result<ModelTensors> {
        let mut all = All(Vec::new());
        walk(&*reader, size, options.depth(), &mut all)?;
        Ok(ModelTensors {
            reader,
            tensors: all.0,
        })
    }

    /// The tensors, in the order in which they stand in the model.
    pub fn iter(&self) -> std::slice::Iter<'_, ModelTensor> {
        self.tensors.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The tensor with this name, or at this path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is none, or several have the name.
    pub fn find(&self, name: &str) -> Result<&ModelTensor> {
        let mut named = self.iter().filter(|tensor| tensor.name == name);
        let by_path = || self.iter().find(|tensor| tensor.path == name);
        let message = match (named.next().or_else(by_path), named.next()) {
            (Some(tensor), None) => return Ok(tensor),
            (Some(first), Some(second)) => format!(
                "several tensors are called \"{name}\": {} and {}",
                first.path, second.path
            ),
            (None, _) => format!("the model has no tensor \"{name}\""),
        };
        Err(Error::new(ErrorKind::InvalidPath, message))
    }

    /// Writes a tensor's elements as raw data, little-endian, and says how many bytes they were.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if its elements aren't in the model, or are others than its
    /// type and shape say; [`ErrorKind::Io`] if reading or writing fails.
    pub fn write_raw(&self, tensor: &ModelTensor, sink: &mut dyn Write) -> Result<u64> {
        let written = tensor
            .tensor
            .write_raw(&*self.reader, sink)
            .map_err(|error| error.at_path(&tensor.path))?;
        match tensor.raw_len() {
            Some(needed) if needed != written => Err(tensor
                .tensor
                .invalid(&other_length(written, needed))
                .at_path(&tensor.path)),
            _ => Ok(written),
        }
    }

    /// What is wrong with the tensors, a line each: data of another length than type and shape say,
    /// types that nobody knows, initializers of one graph with one name. Elements that stand one by
    /// one are read to be counted; raw data isn't.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if reading fails.
    pub fn problems(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut names: HashMap<(&str, &str), &str> = HashMap::new();
        for tensor in &self.tensors {
            if let Some(problem) = self.problem(tensor)? {
                problems.push(format!("{}: \"{}\": {problem}", tensor.path, tensor.name));
            }
            let is_initializer = matches!(
                tensor.role,
                TensorRole::Initializer | TensorRole::SparseValues
            );
            let name = tensor.tensor.name.as_str();
            if let (true, Some((graph, _))) = (
                is_initializer && !name.is_empty(),
                tensor.path.rsplit_once("initializer["),
            ) {
                let graph = graph.trim_end_matches("sparse_");
                if let Some(first) = names.insert((graph, name), &tensor.path) {
                    problems.push(format!(
                        "{}: another initializer is called \"{name}\": {first}",
                        tensor.path
                    ));
                }
            }
        }
        Ok(problems)
    }

    fn problem(&self, tensor: &ModelTensor) -> Result<Option<String>> {
        let inner = &tensor.tensor;
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
            (Data::Typed(typed), Some(bits)) => match self.converted_len(inner, typed, bits) {
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

    fn converted_len(&self, tensor: &Tensor, typed: TypedField, bits: u32) -> Result<u64> {
        let range = tensor.range.clone();
        elements::convert(&*self.reader, range, typed, bits, &mut std::io::sink())
    }
}

impl<'a> IntoIterator for &'a ModelTensors {
    type Item = &'a ModelTensor;
    type IntoIter = std::slice::Iter<'a, ModelTensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

pub(crate) fn other_length(found: u64, needed: u64) -> String {
    format!("it has {found} bytes, where its type and shape take {needed}")
}

struct All(Vec<ModelTensor>);

impl Visitor for All {
    fn tensor(
        &mut self,
        _: &Field,
        tensor: Tensor,
        place: &Place<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        self.0.push(ModelTensor {
            name: place.name(cursor, &tensor)?,
            path: place.path(),
            role: place.role,
            tensor,
        });
        Ok(())
    }
}
