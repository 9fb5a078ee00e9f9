//! Finds the large constants of a model, and reads the small rest of it.
//!
//! The walk hops from node to node: nothing of a constant is read but its header. What is left when
//! the contents are taken out is a SavedModel too, and a small one, so that it can be decoded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use prost_reflect::ReflectMessage;
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::merge::MergeOptions;
use proto_splitter_core::rope::{RopeBuilder, RopeFileId};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{DataType, TensorShapeProto};
use proto_splitter_saved_model::proto::SavedModel;
use record_file::ReadAt;

use crate::constant::{Constant, Encoding, Place};

/// The most bytes that a model may have without its large constants. TensorFlow needs several times
/// as much memory to load them.
pub const MAX_REST: u64 = 512 << 20;

/// The most nodes that a model may have.
pub const MAX_NODES: u64 = 4_000_000;

/// What a walk through a model found.
#[derive(Debug)]
pub(crate) struct Scan {
    /// In the order in which they stand in the model.
    pub(crate) constants: Vec<Constant>,
    /// The model without the contents of those.
    pub(crate) rest: SavedModel,
}

/// Walks through a model of `size` bytes. Constants at the places in `leave` are not taken out.
pub(crate) fn scan(
    data: &Arc<dyn ReadAt>,
    size: u64,
    min_size: u64,
    leave: &BTreeSet<Place>,
) -> Result<Scan> {
    let mut rope = RopeBuilder::new();
    let file = rope.reader("the model", Arc::clone(data))?;
    let mut scanner = Scanner {
        cursor: WireCursor::new(SourceInput::new(&**data, size)),
        rope,
        file,
        min_size,
        leave,
        constants: Vec::new(),
        largest_left: None,
        place: Place::default(),
        meta_graphs: 0,
        nodes: 0,
    };
    scanner.message(Level::Model, 0..size)?;
    let Scanner {
        rope,
        constants,
        largest_left,
        ..
    } = scanner;
    let rope = rope.finish()?;
    let len = rope.total_size();
    if len > MAX_REST {
        let largest = match largest_left {
            Some((name, size)) => format!("; the largest thing in it is {name}, of {size} bytes"),
            None => String::new(),
        };
        let message = format!(
            "the model without its large constants has {len} bytes, and at most {MAX_REST} are rewritten{largest}"
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    // The model has that many bytes.
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    rope.read_exact_at(0, &mut bytes)?;
    let rest = SavedModel::decode(bytes.as_slice()).map_err(|error| {
        let message = format!("not a SavedModel: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    })?;
    check_known(&rest, &bytes)?;
    Ok(Scan { constants, rest })
}

/// Fails if the model has fields that our types haven't: they would be lost.
fn check_known(rest: &SavedModel, bytes: &[u8]) -> Result<()> {
    let encoded = rest.encode_to_vec();
    if encoded == bytes {
        return Ok(());
    }
    let options = || MergeOptions::new().descriptor(rest.descriptor());
    let was = MessageView::of_plain(&bytes, options())?;
    let is = MessageView::of_plain(&encoded, options())?;
    match compare(&was, &is, 1)? {
        Comparison::Identical | Comparison::Equal => Ok(()),
        Comparison::Different(found) => {
            let path = found.first().map(|found| found.path.to_string());
            let message = "a field that this version doesn't know, and that would be lost";
            let error = Error::new(ErrorKind::UnsupportedVersion, message);
            Err(error.at_path(path.unwrap_or_default()))
        }
    }
}

/// A message on the way to nodes.
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
    /// What the field of this number has.
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
    /// The model without the contents that were taken out.
    rope: RopeBuilder,
    file: RopeFileId,
    min_size: u64,
    leave: &'a BTreeSet<Place>,
    constants: Vec<Constant>,
    /// The largest node that stays.
    largest_left: Option<(String, u64)>,
    place: Place,
    meta_graphs: usize,
    nodes: u64,
}

/// A value of a constant: the fields on the way to it, and what it is.
struct Found {
    path: Vec<Field>,
    dtype: DataType,
    shape: Vec<u64>,
    size: u64,
    encoding: Encoding,
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
                    functions += 1;
                }
                Some(Level::Node) => {
                    if level == Level::Graph {
                        self.place.function = None;
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
                Some(Level::Model) | None => {}
            }
            match child {
                // What is smaller can't have a large constant.
                Some(child) if field.value.end - field.value.start >= self.min_size => {
                    self.rope.begin_field(field.number)?;
                    match child {
                        Level::Node => self.node(field.value.clone())?,
                        _ => self.message(child, field.value.clone())?,
                    }
                    self.rope.end_field()?;
                    self.cursor.set_range(field.end..range.end);
                }
                _ => self.rope.span(self.file, field.start..field.end)?,
            }
        }
        Ok(())
    }

    /// A node that is large enough to be a large constant.
    fn node(&mut self, range: Range<u64>) -> Result<()> {
        let name = self.text(&range, 1)?;
        match self.constant(&range)? {
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
            _ => {
                let size = range.end - range.start;
                if self
                    .largest_left
                    .as_ref()
                    .is_none_or(|(_, least)| *least < size)
                {
                    self.largest_left = Some((name, size));
                }
                self.rope.span(self.file, range)?;
            }
        }
        Ok(())
    }

    /// Adds the message at `range` without the field that `path` leads to.
    fn put_without(&mut self, range: Range<u64>, path: &[Field]) -> Result<()> {
        let Some((field, inner)) = path.split_first() else {
            return Ok(());
        };
        self.rope.span(self.file, range.start..field.start)?;
        if !inner.is_empty() {
            self.rope.begin_field(field.number)?;
            self.put_without(field.value.clone(), inner)?;
            self.rope.end_field()?;
        }
        self.rope.span(self.file, field.end..range.end)
    }

    /// All fields of this number in a message.
    fn fields(&mut self, range: &Range<u64>, number: u32) -> Result<Vec<Field>> {
        let mut found = Vec::new();
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            if field.number.0 == number {
                found.push(field);
            }
        }
        Ok(found)
    }

    /// The last text in this field; "" if there is none or it is longer than any name.
    fn text(&mut self, range: &Range<u64>, number: u32) -> Result<String> {
        const MAX_NAME: u64 = 64 << 10;
        let found = self.fields(range, number)?.pop();
        let short = |field: &Field| {
            field.wire_type == WireType::Len && field.value.end - field.value.start <= MAX_NAME
        };
        match found.filter(short) {
            Some(field) => {
                let bytes = self.cursor.bytes(field.value)?;
                Ok(String::from_utf8_lossy(bytes).into_owned())
            }
            None => Ok(String::new()),
        }
    }

    /// The value of the node at `range`, if it is a constant of numbers, large enough, and written
    /// as TensorFlow writes them.
    fn constant(&mut self, range: &Range<u64>) -> Result<Option<Found>> {
        const OP: u32 = 2;
        const ATTR: u32 = 5;
        if self.text(range, OP)? != "Const" {
            return Ok(None);
        }
        let mut value = None;
        for entry in self.fields(range, ATTR)? {
            if entry.wire_type != WireType::Len || self.text(&entry.value, 1)? != "value" {
                continue;
            }
            if value.replace(entry).is_some() {
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
            let mut fields = self.fields(&range, number)?;
            match (fields.pop(), fields.is_empty()) {
                (Some(field), true) if field.wire_type == WireType::Len => path.push(field),
                _ => return Ok(None),
            }
        }
        self.tensor(path)
    }

    /// The content of the tensor that `path` leads to.
    fn tensor(&mut self, mut path: Vec<Field>) -> Result<Option<Found>> {
        const DTYPE: u32 = 1;
        const SHAPE: u32 = 2;
        const VERSION: u32 = 3;
        /// The most bytes that a shape has: it has at most 254 dimensions.
        const MAX_SHAPE: u64 = 64 << 10;
        let Some(range) = path.last().map(|tensor| tensor.value.clone()) else {
            return Ok(None);
        };
        let (mut dtype, mut shape, mut data) = (0, TensorShapeProto::default(), None);
        self.cursor.set_range(range.clone());
        let mut fields = Vec::new();
        while let Some(field) = self.cursor.next()? {
            fields.push(field);
            // A list that isn't packed has a field an element.
            if fields.len() > 16 {
                return Ok(None);
            }
        }
        for field in fields {
            match field.number.0 {
                DTYPE => {
                    let bytes = self.cursor.bytes(field.value)?;
                    let number = proto_splitter_core::wire::decode_varint(bytes);
                    dtype = number.and_then(|(n, _)| i32::try_from(n).ok()).unwrap_or(0);
                }
                SHAPE if field.value.end - field.value.start <= MAX_SHAPE => {
                    let bytes = self.cursor.bytes(field.value.clone())?;
                    shape = TensorShapeProto::decode(bytes).map_err(|error| {
                        let error = Error::new(ErrorKind::InvalidMessage, error.to_string());
                        error.at_offset(field.start)
                    })?;
                }
                VERSION => {}
                _ if data.is_some() || field.wire_type != WireType::Len => return Ok(None),
                _ => data = Some(field),
            }
        }
        let Some((data, dtype)) = data.zip(DataType::try_from(dtype).ok()) else {
            return Ok(None);
        };
        let dims = shape.dim.iter().map(|dim| u64::try_from(dim.size).ok());
        let Some(dims) = dims
            .collect::<Option<Vec<u64>>>()
            .filter(|_| !shape.unknown_rank)
        else {
            return Ok(None);
        };
        let len = data.value.end - data.value.start;
        let Some((encoding, size)) = Encoding::of(data.number, dtype, &dims, len) else {
            return Ok(None);
        };
        if size < self.min_size {
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
}

fn once(count: &mut u32, name: &str, field: &Field) -> Result<()> {
    *count += 1;
    if *count == 1 {
        return Ok(());
    }
    let message = format!("{name} is there twice");
    Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start))
}
