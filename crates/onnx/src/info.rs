//! Properties of a model, and verification of the files next to it.

use std::collections::HashSet;
use std::ops::Range;

use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::wire::{SourceInput, WireCursor, WireType};
use record_file::ReadAt;

use crate::cursor::Cursor;
use crate::data_type::type_name;
use crate::proto::tensor_proto::DataType;
use crate::proto::tensor_shape_proto::dimension::Value as Dimension;
use crate::proto::type_proto::Value as Type;
use crate::proto::{OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto};
use crate::source::OnnxSource;
use crate::tensor::varint;
use crate::tensors::ModelTensors;
use crate::walk::TensorRole;

/// Number of bytes to read from the model at once: 1 MiB.
const READ_LEN: usize = 1 << 20;

/// Maximum number of opsets, inputs or outputs to list.
const MOST: usize = 100;

/// Maximum number of missing files to list.
const MAX_MISSING: usize = 100;

/// Maximum size of a string or message to read, in bytes: 64 KiB.
const MAX_SIZE: u64 = 64 << 10;

impl OnnxSource {
    /// Verifies the checksums that tensors declare in `external_data` for the files with their
    /// data. Returns true if there are any checksums. Reading all data of a file also verifies the
    /// file's checksum.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`], which names the file and the tensor; [`ErrorKind::Io`] if a
    /// file can't be read; [`ErrorKind::Cancelled`].
    ///
    /// [`ErrorKind::ChecksumMismatch`]: proto_splitter_core::ErrorKind::ChecksumMismatch
    /// [`ErrorKind::Io`]: proto_splitter_core::ErrorKind::Io
    /// [`ErrorKind::Cancelled`]: proto_splitter_core::ErrorKind::Cancelled
    pub fn verify_checksums(&self, progress: &Progress) -> Result<bool> {
        Ok(self.spans().check_files(progress)? > 0)
    }

    /// Reads the whole message, to find unreadable parts.
    pub(crate) fn read_all(&self, progress: &Progress) -> Result<()> {
        let mut buffer = vec![0; READ_LEN];
        read_pieces(&**self.reader(), 0..self.size(), &mut buffer, |_, _| {
            progress.check()
        })
    }
}

/// Returns the properties of the model and of the files next to it, as names and values.
pub(crate) fn properties(
    model: &OnnxSource,
    tensors: &ModelTensors,
) -> Result<Vec<(String, String)>> {
    let mut properties = properties_of_message(&**model.reader(), model.size(), tensors)?;
    if model.is_embedded() {
        return Ok(properties);
    }
    let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
    let external = model.external_tensors() + model.outside_tensors();
    put("external tensors", external.to_string());
    let outside = model.outside_files();
    let files = model.files().len() - 1 + outside.len();
    put("external files", files.to_string());
    for missing in outside.filter(|file| !file.exists()).take(MAX_MISSING) {
        put("missing file", missing.display().to_string());
    }
    Ok(properties)
}

/// Returns the properties of the model in the first `size` bytes of `reader`, as names and values.
pub(crate) fn properties_of_message(
    reader: &dyn ReadAt,
    size: u64,
    tensors: &ModelTensors,
) -> Result<Vec<(String, String)>> {
    let initializers = tensors
        .iter()
        .filter(|tensor| tensor.role() == TensorRole::Initializer);
    let mut facts = Facts {
        initializers: initializers.map(|tensor| tensor.name()).collect(),
        own: Default::default(),
        graph: None,
        nodes: 0,
        lists: [
            ("opset", Listed::default()),
            ("input", Listed::default()),
            ("output", Listed::default()),
        ],
    };
    let mut cursor = WireCursor::new(SourceInput::new(reader, size));
    facts.read_model(&mut cursor, 0..size)?;
    let mut properties = facts.into_properties();
    let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
    put("tensors", tensors.len().to_string());
    let parameters = tensors.iter().filter_map(|tensor| tensor.element_count());
    let parameters = parameters.fold(0u64, u64::saturating_add);
    put("parameters", parameters.to_string());
    Ok(properties)
}

/// Numbers of the fields of `ModelProto` that are reported as properties, each with the property's
/// name.
const OWN: [(u32, &str); 5] = [
    (1, "IR version"),
    (2, "producer"),
    (3, "producer version"),
    (4, "domain"),
    (5, "model version"),
];

/// Index of the opsets in [`Facts::lists`].
const OPSETS: usize = 0;
/// Index of the inputs in [`Facts::lists`].
const INPUTS: usize = 1;
/// Index of the outputs in [`Facts::lists`].
const OUTPUTS: usize = 2;

/// The properties of a model that have been found so far.
struct Facts<'a> {
    /// Names of the initializers. Inputs with these names have default values.
    initializers: HashSet<&'a str>,
    own: [Option<String>; OWN.len()],
    graph: Option<String>,
    nodes: u64,
    lists: [(&'static str, Listed); 3],
}

/// The first items of a list, and the number of items omitted after them.
#[derive(Default)]
struct Listed {
    values: Vec<String>,
    more: u64,
}

impl Listed {
    fn push(&mut self, value: String) {
        if self.values.len() < MOST {
            self.values.push(value);
        } else {
            self.more += 1;
        }
    }
}

impl Facts<'_> {
    fn read_model(&mut self, cursor: &mut Cursor<'_>, range: Range<u64>) -> Result<()> {
        cursor.set_range(range.clone());
        while let Some(found) = cursor.next()? {
            let number = found.number.0;
            let own = OWN.iter().position(|(own, _)| *own == number);
            match (own, number, found.wire_type) {
                (Some(own), _, WireType::Varint) => {
                    let value = varint(cursor, &found)?.cast_signed();
                    self.own[own] = Some(value.to_string());
                }
                (Some(own), _, WireType::Len) => self.own[own] = text(cursor, &found.value)?,
                (None, 7, WireType::Len) => {
                    self.read_graph(cursor, found.value.clone())?;
                    cursor.set_range(found.end..range.end);
                }
                (None, 8, WireType::Len) => {
                    if let Some(opset) = message::<OperatorSetIdProto>(cursor, &found.value)? {
                        let domain = match opset.domain() {
                            "" => "ai.onnx",
                            domain => domain,
                        };
                        let opset = format!("{domain} {}", opset.version());
                        self.lists[OPSETS].1.push(opset);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_graph(&mut self, cursor: &mut Cursor<'_>, range: Range<u64>) -> Result<()> {
        cursor.set_range(range);
        while let Some(found) = cursor.next()? {
            match (found.number.0, found.wire_type) {
                (1, WireType::Len) => self.nodes += 1,
                (2, WireType::Len) => self.graph = text(cursor, &found.value)?,
                (number @ (11 | 12), WireType::Len) => {
                    let Some(value) = message::<ValueInfoProto>(cursor, &found.value)? else {
                        continue;
                    };
                    let list = if number == 11 { INPUTS } else { OUTPUTS };
                    if list == OUTPUTS || !self.initializers.contains(value.name()) {
                        self.lists[list].1.push(described(&value));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn into_properties(self) -> Vec<(String, String)> {
        let own = OWN.iter().zip(self.own);
        let own = own.filter_map(|((_, name), value)| Some((*name, value?)));
        let graph = self.graph.map(|graph| ("graph", graph));
        let mut properties: Vec<(String, String)> = own
            .chain(graph)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        for (name, listed) in self.lists {
            let more = (listed.more > 0).then(|| format!("and {} more", listed.more));
            let values = listed.values.into_iter().chain(more);
            properties.extend(values.map(|value| (name.to_owned(), value)));
        }
        properties.push(("nodes".to_owned(), self.nodes.to_string()));
        properties
    }
}

/// Reads the string at `range`; `None` if it is larger than [`MAX_SIZE`].
fn text(cursor: &mut Cursor<'_>, range: &Range<u64>) -> Result<Option<String>> {
    if range.end - range.start > MAX_SIZE {
        return Ok(None);
    }
    let bytes = cursor.bytes(range.clone())?;
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// Reads the message at `range`. Returns `None` if the message is damaged or larger than
/// [`MAX_SIZE`], so that the model's other properties are still reported.
fn message<M: Message + Default>(cursor: &mut Cursor<'_>, range: &Range<u64>) -> Result<Option<M>> {
    if range.end - range.start > MAX_SIZE {
        return Ok(None);
    }
    Ok(M::decode(cursor.bytes(range.clone())?).ok())
}

/// Describes an input or output, such as `x float[N, 3]`.
fn described(value: &ValueInfoProto) -> String {
    let name = value.name();
    match value.r#type.as_ref() {
        Some(of) => format!("{name} {}", typed(of)),
        None => name.to_owned(),
    }
}

fn typed(of: &TypeProto) -> String {
    let inner = |of: Option<&TypeProto>| of.map_or("?".to_owned(), typed);
    let tensor = |number: i32, shape: Option<&TensorShapeProto>| {
        format!(
            "{}{}",
            element(number),
            shape.map_or("[...]".to_owned(), shaped)
        )
    };
    match &of.value {
        Some(Type::TensorType(of)) => tensor(of.elem_type(), of.shape.as_ref()),
        Some(Type::SparseTensorType(of)) => {
            format!("sparse {}", tensor(of.elem_type(), of.shape.as_ref()))
        }
        Some(Type::SequenceType(of)) => format!("sequence({})", inner(of.elem_type.as_deref())),
        Some(Type::OptionalType(of)) => format!("optional({})", inner(of.elem_type.as_deref())),
        Some(Type::MapType(of)) => {
            let (key, value) = (element(of.key_type()), inner(of.value_type.as_deref()));
            format!("map({key}, {value})")
        }
        Some(_) | None => "?".to_owned(),
    }
}

fn element(number: i32) -> String {
    DataType::try_from(number).map_or_else(|_| number.to_string(), type_name)
}

fn shaped(shape: &TensorShapeProto) -> String {
    let dims = shape.dim.iter().map(|dim| match &dim.value {
        Some(Dimension::DimValue(value)) => value.to_string(),
        Some(Dimension::DimParam(name)) if !name.is_empty() => name.clone(),
        Some(Dimension::DimParam(_)) | None => "?".to_owned(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}
