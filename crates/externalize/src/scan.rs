//! Finding the large constants of a model, and reading the model without them.
//!
//! The scan visits the model node by node, and reads only the headers of constants. The model
//! without the constants (`rest`) is small enough to be decoded, and is itself a SavedModel.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use prost_reflect::ReflectMessage;
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::spans::{SourceId, SpansBuilder};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{DataType, TensorShapeProto};
use proto_splitter_saved_model::directory::MAX_PLAIN_SIZE;
use proto_splitter_saved_model::proto::{SavedModel, descriptor_pool};
use record_file::ReadAt;

use crate::constant::{Constant, Encoding, Place};
use crate::memory;
use crate::select::Reason;

/// Maximum size of a model without its large constants, in bytes: TensorFlow's limit for a
/// `saved_model.pb`.
pub const MAX_REST: u64 = MAX_PLAIN_SIZE;

/// Maximum number of nodes in a model.
pub const MAX_NODES: u64 = 4_000_000;

/// Number of the field `signature` of a `FunctionDef`.
const SIGNATURE: u32 = 1;
/// Number of the field `dtype` of a `TensorProto`.
const DTYPE: u32 = 1;
/// Number of the field `tensor_shape` of a `TensorProto`.
const SHAPE: u32 = 2;
/// Number of the field `version_number` of a `TensorProto`.
const VERSION: u32 = 3;

/// The result of scanning a model.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Large constants that can be moved out, in the model's order.
    pub(crate) constants: Vec<Constant>,
    /// Large constants that can't be moved because of their encoding or type, each with the reason.
    pub(crate) stay: Vec<(Constant, Reason)>,
    /// The model without the values of `constants`.
    pub(crate) rest: SavedModel,
    /// Description of the largest part of `rest`; `None` if this part is smaller than the minimum
    /// size of constants that are moved out.
    pub(crate) largest: Option<String>,
}

/// Scans a model of `size` bytes. The constants in `leave` stay in the model, even if they are
/// large.
pub(crate) fn scan(
    data: &Arc<dyn ReadAt>,
    size: u64,
    min_size: u64,
    leave: &BTreeSet<Place>,
) -> Result<Scan> {
    let mut spans = SpansBuilder::new();
    let file = spans.reader("the model", Arc::clone(data))?;
    let mut scanner = Scanner {
        cursor: WireCursor::new(SourceInput::new(&**data, size)),
        spans,
        file,
        min_size,
        leave,
        constants: Vec::new(),
        stay: Vec::new(),
        largest: Largest::default(),
        signature: None,
        place: Place::default(),
        meta_graphs: 0,
        nodes: 0,
    };
    scanner.message(Level::Model, 0..size)?;
    let largest = scanner.largest()?;
    let Scanner {
        spans,
        constants,
        stay,
        ..
    } = scanner;
    let spans = spans.finish()?;
    let len = spans.total_size();
    if len > MAX_REST {
        let error = too_large(len, largest.as_deref());
        let options = ReadOptions::new().descriptor(SavedModel::default().descriptor());
        let view = MessageView::of_plain(&spans, options)?;
        return Err(with_largest(error, &view, &FieldPath::root()));
    }
    // The original model has at least `len` bytes, so a small file can't cause a large allocation.
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    spans.read_exact_at(0, &mut bytes)?;
    let bytes = Bytes::from(bytes);
    memory::check(&bytes)?;
    // The strings in the decoded message share these bytes.
    let rest = SavedModel::decode(bytes.clone()).map_err(|error| {
        let message = format!("not a SavedModel: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    })?;
    check_known(&rest, &bytes)?;
    Ok(Scan {
        constants,
        stay,
        rest,
        largest,
    })
}

/// Returns the error for a model that still has `len` bytes without its large constants.
pub(crate) fn too_large(len: u64, largest: Option<&str>) -> Error {
    let largest = match largest {
        Some(largest) => format!("; the largest part is {largest}"),
        None => String::new(),
    };
    let message = format!(
        "the model without its large constants has {len} bytes, but TensorFlow reads at most {MAX_REST}{largest}"
    );
    Error::new(ErrorKind::LimitExceeded, message).refusing_size()
}

/// Fails if the model has fields that the generated types don't have, since these fields would be
/// lost.
fn check_known(rest: &SavedModel, bytes: &Bytes) -> Result<()> {
    let encoded = rest.encode_to_vec();
    if encoded == **bytes {
        return Ok(());
    }
    let options = || ReadOptions::new().descriptor(rest.descriptor());
    let bytes = &**bytes;
    let was = MessageView::of_plain(&bytes, options())?;
    let is = MessageView::of_plain(&encoded, options())?;
    match compare(&was, &is, 1)? {
        Comparison::Identical | Comparison::Equal => Ok(()),
        Comparison::Different(found) => {
            let path = found.first().map(|found| found.path.to_string());
            let message = "a field is unknown to this version, and would be lost";
            let error = Error::new(ErrorKind::UnsupportedVersion, message);
            Err(error.at_path(path.unwrap_or_default()))
        }
    }
}

/// The type of a message that is a node or may contain nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Model,
    MetaGraph,
    Graph,
    Library,
    Function,
    Node,
}

impl Level {
    /// Returns the full name of the message type.
    fn type_name(self) -> &'static str {
        match self {
            Level::Model => "tensorflow.SavedModel",
            Level::MetaGraph => "tensorflow.MetaGraphDef",
            Level::Graph => "tensorflow.GraphDef",
            Level::Library => "tensorflow.FunctionDefLibrary",
            Level::Function => "tensorflow.FunctionDef",
            Level::Node => "tensorflow.NodeDef",
        }
    }

    /// Returns the level of the message in the field `number`; `None` if the field can't contain
    /// nodes.
    fn child(self, number: u32) -> Option<Level> {
        Some(match (self, number) {
            (Level::Model, 2) => Level::MetaGraph,
            (Level::MetaGraph, 2) => Level::Graph,
            (Level::Graph, 2) => Level::Library,
            (Level::Library, 1) => Level::Function,
            (Level::Graph, 1) | (Level::Function, 3) => Level::Node,
            _ => return None,
        })
    }
}

struct Scanner<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    /// Builder of the model without the values of moved constants.
    spans: SpansBuilder,
    file: SourceId,
    min_size: u64,
    leave: &'a BTreeSet<Place>,
    constants: Vec<Constant>,
    stay: Vec<(Constant, Reason)>,
    /// Largest part that stays in the model, among those seen so far.
    largest: Largest,
    /// Range of the current function's signature; `None` in the main graph.
    signature: Option<Range<u64>>,
    place: Place,
    meta_graphs: usize,
    nodes: u64,
}

/// The largest part that stays in the model: its size in bytes, and its description.
#[derive(Clone, Debug, Default)]
struct Largest {
    size: u64,
    what: Option<What>,
}

/// A part that stays in the model.
#[derive(Clone, Debug)]
enum What {
    /// A node: its name, and the byte range of its function's signature (`None` for the main
    /// graph).
    Node {
        name: String,
        signature: Option<Range<u64>>,
    },
    /// A field of a message.
    Field { level: Level, number: u32 },
}

/// The value of a constant that can be moved out: the nested fields that lead to the value, and a
/// description of the tensor.
struct Found {
    path: Vec<Field>,
    dtype: DataType,
    shape: Vec<u64>,
    size: u64,
    encoding: Encoding,
}

/// The last field with a given number in a message.
struct Last {
    field: Field,
    /// True if no other field has this number.
    is_only: bool,
}

impl Scanner<'_> {
    fn message(&mut self, level: Level, range: Range<u64>) -> Result<()> {
        let (mut graphs, mut libraries, mut functions, mut nodes) = (0, 0, 0, 0);
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            let child = level
                .child(field.number.0)
                .filter(|_| field.wire_type == WireType::Len);
            match child {
                Some(Level::MetaGraph) => {
                    self.place.meta_graph = self.meta_graphs;
                    self.meta_graphs += 1;
                }
                Some(Level::Graph) => once(&mut graphs, "graph_def", &field)?,
                Some(Level::Library) => once(&mut libraries, "library", &field)?,
                Some(Level::Function) => {
                    self.place.function = Some(functions);
                    self.signature = None;
                    functions += 1;
                }
                Some(Level::Node) => {
                    if level == Level::Graph {
                        self.place.function = None;
                        self.signature = None;
                    }
                    self.place.node = nodes;
                    nodes += 1;
                    self.nodes += 1;
                    if self.nodes > MAX_NODES {
                        let message = format!("more than {MAX_NODES} nodes");
                        let error = Error::new(ErrorKind::LimitExceeded, message);
                        return Err(error.at_offset(field.start));
                    }
                }
                None if (level, field.number.0) == (Level::Function, SIGNATURE) => {
                    self.signature = Some(field.value.clone());
                }
                Some(Level::Model) | None => {}
            }
            match child {
                // Only constants that make the model large are moved. A smaller message may still
                // have a constant that is large in memory, such as one of zeros as varints.
                Some(child) if field.value.end - field.value.start >= self.min_size => {
                    self.spans.begin_field(field.number)?;
                    match child {
                        Level::Node => self.node(field.value.clone())?,
                        _ => self.message(child, field.value.clone())?,
                    }
                    self.spans.end_field()?;
                    self.cursor.set_range(field.end..range.end);
                }
                _ => {
                    let number = field.number.0;
                    self.stays(field.end - field.start, || What::Field { level, number });
                    self.spans.span(self.file, field.start..field.end)?;
                }
            }
        }
        Ok(())
    }

    /// Records a part of `size` bytes that stays in the model. Ignores the part if it is below the
    /// minimum size, or isn't larger than the part recorded before.
    fn stays(&mut self, size: u64, what: impl FnOnce() -> What) {
        if size >= self.min_size && size > self.largest.size {
            let what = Some(what());
            self.largest = Largest { size, what };
        }
    }

    /// Returns a description of the largest part that stays in the model, if any was recorded.
    fn largest(&mut self) -> Result<Option<String>> {
        let Largest { size, what } = std::mem::take(&mut self.largest);
        let name = match what {
            None => return Ok(None),
            Some(What::Node { name, signature }) => match signature {
                Some(signature) => format!("{}/{name}", self.text(&signature, 1)?),
                None => name,
            },
            Some(What::Field { level, number }) => {
                let message = descriptor_pool().get_message_by_name(level.type_name());
                let field = message.and_then(|message| message.get_field(number));
                let field =
                    field.map_or_else(|| number.to_string(), |field| field.name().to_owned());
                format!("the field {field} of {}", level.type_name())
            }
        };
        Ok(Some(format!("{name}, of {size} bytes")))
    }

    /// Handles the node at `range`, which is large enough to contain a large constant.
    fn node(&mut self, range: Range<u64>) -> Result<()> {
        let name = self.text(&range, 1)?;
        let value = self.value(&range)?;
        let found = match value.clone() {
            Some(path) => self.tensor(path)?,
            None => None,
        };
        match found {
            Some(found) if !self.leave.contains(&self.place) => {
                self.put_without(range, &found.path)?;
                let span = match found.path.last() {
                    Some(content) => content.value.clone(),
                    None => 0..0,
                };
                self.constants.push(Constant {
                    place: self.place,
                    name,
                    dtype: found.dtype,
                    shape: found.shape,
                    size: found.size,
                    encoding: found.encoding,
                    span,
                });
            }
            found => {
                if let (None, Some(tensor)) = (found, value.and_then(|mut path| path.pop())) {
                    self.immovable(&name, tensor.value)?;
                }
                let signature = self.signature.clone();
                let size = range.end - range.start;
                self.stays(size, || What::Node { name, signature });
                self.spans.span(self.file, range)?;
            }
        }
        Ok(())
    }

    /// Records a constant that can't be moved, because its tensor at `range` doesn't consist of
    /// numbers in TensorFlow's encoding. Ignores a small constant.
    fn immovable(&mut self, name: &str, range: Range<u64>) -> Result<()> {
        let size = range.end - range.start;
        if size < self.min_size {
            return Ok(());
        }
        let dtype = match self.last(&range, DTYPE)? {
            Some(last) => self.number(last.field)?,
            None => 0,
        };
        let shape = match self.last(&range, SHAPE)? {
            Some(last) => self.shape(&last.field)?,
            None => TensorShapeProto::default(),
        };
        let dtype = DataType::try_from(dtype).unwrap_or_default();
        let reason = match dtype {
            DataType::DtString => Reason::Strings,
            _ => Reason::UnusualEncoding,
        };
        let constant = Constant {
            place: self.place,
            name: name.to_owned(),
            dtype,
            shape: dims(&shape).unwrap_or_default(),
            size,
            encoding: Encoding::Raw,
            span: range,
        };
        self.stay.push((constant, reason));
        Ok(())
    }

    /// Adds the message at `range` to the model, without the field to which `path` leads.
    fn put_without(&mut self, range: Range<u64>, path: &[Field]) -> Result<()> {
        let Some((field, inner)) = path.split_first() else {
            return Ok(());
        };
        self.spans.span(self.file, range.start..field.start)?;
        if !inner.is_empty() {
            self.spans.begin_field(field.number)?;
            self.put_without(field.value.clone(), inner)?;
            self.spans.end_field()?;
        }
        self.spans.span(self.file, field.end..range.end)
    }

    /// Returns the last field with this number in the message at `range`; `None` if there is none.
    /// The other fields aren't kept, since a small message can have millions.
    fn last(&mut self, range: &Range<u64>, number: u32) -> Result<Option<Last>> {
        let mut last = None;
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            if field.number.0 == number {
                let is_only = last.is_none();
                last = Some(Last { field, is_only });
            }
        }
        Ok(last)
    }

    /// Returns the value of the last field with this number in the message at `range`, as a string.
    /// Returns an empty string if there is no such field, or the value is too long for a name.
    fn text(&mut self, range: &Range<u64>, number: u32) -> Result<String> {
        const MAX_NAME: u64 = 64 << 10;
        let short = |Last { field, .. }: &Last| {
            field.wire_type == WireType::Len && field.value.end - field.value.start <= MAX_NAME
        };
        match self.last(range, number)?.filter(short) {
            Some(Last { field, .. }) => {
                let bytes = self.cursor.bytes(field.value)?;
                Ok(String::from_utf8_lossy(bytes).into_owned())
            }
            None => Ok(String::new()),
        }
    }

    /// Returns the nested fields that lead to the tensor in the value of the node at `range`,
    /// outermost first; `None` if the node isn't a constant.
    fn value(&mut self, range: &Range<u64>) -> Result<Option<Vec<Field>>> {
        const OP: u32 = 2;
        const ATTR: u32 = 5;
        if self.text(range, OP)? != "Const" {
            return Ok(None);
        }
        let mut value = None;
        self.cursor.set_range(range.clone());
        while let Some(entry) = self.cursor.next()? {
            if entry.number.0 != ATTR || entry.wire_type != WireType::Len {
                continue;
            }
            let is_value = self.text(&entry.value, 1)? == "value";
            self.cursor.set_range(entry.end..range.end);
            if is_value && value.replace(entry).is_some() {
                return Ok(None);
            }
        }
        let mut path = Vec::new();
        path.extend(value);
        for number in [2, 8] {
            let Some(outer) = path.last() else {
                return Ok(None);
            };
            let range = outer.value.clone();
            match self.last(&range, number)? {
                Some(Last { field, is_only }) if is_only && field.wire_type == WireType::Len => {
                    path.push(field);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(path))
    }

    /// Returns the value of the tensor to which the nested fields `path` lead; `None` if the tensor
    /// is too small, or doesn't consist of numbers in TensorFlow's encoding.
    fn tensor(&mut self, mut path: Vec<Field>) -> Result<Option<Found>> {
        let Some(range) = path.last().map(|tensor| tensor.value.clone()) else {
            return Ok(None);
        };
        let (mut dtype, mut shape, mut data) = (0, None, None);
        self.cursor.set_range(range.clone());
        let mut fields = Vec::new();
        while let Some(field) = self.cursor.next()? {
            fields.push(field);
            // Many fields mean that a repeated field isn't packed, and occurs once for each
            // element.
            if fields.len() > 16 {
                return Ok(None);
            }
        }
        for field in fields {
            match field.number.0 {
                DTYPE => dtype = self.number(field)?,
                SHAPE => {
                    // Parsers merge several shapes into one.
                    if shape.replace(self.shape(&field)?).is_some() {
                        return Ok(None);
                    }
                }
                VERSION => {}
                _ if data.is_some() || field.wire_type != WireType::Len => return Ok(None),
                _ => data = Some(field),
            }
        }
        let Some((data, dtype)) = data.zip(DataType::try_from(dtype).ok()) else {
            return Ok(None);
        };
        let Some(dims) = dims(&shape.unwrap_or_default()) else {
            return Ok(None);
        };
        let len = data.value.end - data.value.start;
        let Some((encoding, size)) = Encoding::of(data.number, dtype, &dims, len) else {
            return Ok(None);
        };
        if len.max(size) < self.min_size {
            return Ok(None);
        }
        path.push(data);
        Ok(Some(Found {
            path,
            dtype,
            shape: dims,
            size,
            encoding,
        }))
    }

    /// Returns the value of a varint field; 0 if the field isn't a varint.
    fn number(&mut self, field: Field) -> Result<i32> {
        if field.wire_type != WireType::Varint {
            return Ok(0);
        }
        let bytes = self.cursor.bytes(field.value)?;
        let number = proto_splitter_core::wire::decode_varint(bytes);
        Ok(number.and_then(|(n, _)| i32::try_from(n).ok()).unwrap_or(0))
    }

    /// Returns the shape in a field. If the field is longer than any shape, returns a shape of
    /// unknown rank.
    fn shape(&mut self, field: &Field) -> Result<TensorShapeProto> {
        /// Maximum size of a shape, in bytes. A shape has at most 254 dimensions.
        const MAX_SHAPE: u64 = 64 << 10;
        if field.wire_type != WireType::Len || field.value.end - field.value.start > MAX_SHAPE {
            return Ok(TensorShapeProto {
                unknown_rank: true,
                ..TensorShapeProto::default()
            });
        }
        let bytes = self.cursor.bytes(field.value.clone())?;
        TensorShapeProto::decode(bytes).map_err(|error| {
            let error = Error::new(ErrorKind::InvalidMessage, error.to_string());
            error.at_offset(field.start)
        })
    }
}

/// Returns the dimensions of a shape; `None` if any of them is unknown.
fn dims(shape: &TensorShapeProto) -> Option<Vec<u64>> {
    let dims = shape.dim.iter().map(|dim| u64::try_from(dim.size).ok());
    dims.collect::<Option<Vec<u64>>>()
        .filter(|_| !shape.unknown_rank)
}

fn once(count: &mut u32, name: &str, field: &Field) -> Result<()> {
    *count += 1;
    if *count == 1 {
        return Ok(());
    }
    let message = format!("{name} occurs twice");
    Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start))
}
