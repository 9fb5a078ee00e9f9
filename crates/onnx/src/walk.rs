//! Visiting the tensors and compiled nodes of a model, and skipping everything else.
//!
//! ```text
//! Model -> graph, training_info -> {initialization, algorithm}, functions
//! Graph -> node, initializer, sparse_initializer
//! Function -> node, attribute_proto
//! Node -> attribute
//! Attribute -> t, tensors, g, graphs, sparse_tensor, sparse_tensors
//! Sparse -> values, indices
//! ```

use std::fmt::Write as _;
use std::ops::Range;

use proto_splitter_core::tensor::NameBudget;
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::context::{self, Context, Part};
use crate::tensor::Tensor;

pub(crate) use crate::cursor::Cursor;

/// Default maximum nesting depth of messages in a model, the same as in protobuf's own readers. A
/// graph in a node's attribute is three levels deeper than the node's own graph.
pub const DEFAULT_MAX_DEPTH: u32 = 100;

/// Maximum size of the name of a node or function, in bytes. Longer names aren't read.
const MAX_NAME: u64 = crate::tensor::MAX_TENSOR_NAME;

/// The type of a message that may contain tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Training,
    Function,
    Graph,
    Node,
    /// An attribute of a node, or the default value of a function's attribute.
    Attribute,
    Sparse,
}

/// The role of a tensor in its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorRole {
    /// An initializer of a graph.
    Initializer,
    /// The value of a node's attribute, for example of a constant.
    Attribute,
    /// The default value of a function's attribute.
    Default,
    /// The values of a sparse tensor.
    SparseValues,
    /// The indices of a sparse tensor.
    SparseIndices,
}

/// The reason for visiting a field. The field may contain tensors, or parts of the names of
/// tensors.
enum Way {
    /// The field contains messages of this type, which may contain tensors. The string is the
    /// field's name, and the boolean is true if the field is repeated.
    Down(Kind, &'static str, bool),
    /// The field contains tensors with this role. The string is the field's name, and the boolean
    /// is true if the field is repeated.
    Tensor(TensorRole, &'static str, bool),
    /// The field contains the name of a node, function or attribute.
    Name,
    Op,
    Output,
    Domain,
}

fn way(kind: Kind, number: u32) -> Option<Way> {
    use Kind as K;
    use Way::{Domain, Down, Name, Op, Output};
    Some(match (kind, number) {
        (K::Model, 7) => Down(K::Graph, "graph", false),
        (K::Model, 20) => Down(K::Training, "training_info", true),
        (K::Model, 25) => Down(K::Function, "functions", true),
        (K::Training, 1) => Down(K::Graph, "initialization", false),
        (K::Training, 2) => Down(K::Graph, "algorithm", false),
        (K::Function, 1) | (K::Attribute, 1) | (K::Node, 3) => Name,
        (K::Function, 7) | (K::Graph, 1) => Down(K::Node, "node", true),
        (K::Function, 10) => Domain,
        (K::Function, 11) => Down(K::Attribute, "attribute_proto", true),
        (K::Graph, 5) => Way::Tensor(TensorRole::Initializer, "initializer", true),
        (K::Graph, 15) => Down(K::Sparse, "sparse_initializer", true),
        (K::Node, 2) => Output,
        (K::Node, 4) => Op,
        (K::Node, 5) => Down(K::Attribute, "attribute", true),
        (K::Attribute, 5) => Way::Tensor(TensorRole::Attribute, "t", false),
        (K::Attribute, 6) => Down(K::Graph, "g", false),
        (K::Attribute, 10) => Way::Tensor(TensorRole::Attribute, "tensors", true),
        (K::Attribute, 11) => Down(K::Graph, "graphs", true),
        (K::Attribute, 22) => Down(K::Sparse, "sparse_tensor", false),
        (K::Attribute, 23) => Down(K::Sparse, "sparse_tensors", true),
        (K::Sparse, 1) => Way::Tensor(TensorRole::SparseValues, "values", false),
        (K::Sparse, 2) => Way::Tensor(TensorRole::SparseIndices, "indices", false),
        _ => return None,
    })
}

/// Maximum number of fields that may contain tensors, in a single message.
const MOST_WAYS: usize = 6;

/// A message that the visitor has entered and not yet left.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    label: &'static str,
    index: Option<u32>,
    name: Option<Range<u64>>,
    op: Option<Range<u64>>,
    output: Option<Range<u64>>,
    domain: Option<Range<u64>>,
    /// Location of the content, if the message is a compiled node.
    context: Option<Box<Context>>,
    /// Pairs of a repeated field's number and the count of its elements visited so far.
    counts: [(u32, u32); MOST_WAYS],
}

impl Frame {
    fn new(kind: Kind, label: &'static str, index: Option<u32>) -> Frame {
        Frame {
            kind,
            label,
            index,
            name: None,
            op: None,
            output: None,
            domain: None,
            context: None,
            counts: [(0, 0); MOST_WAYS],
        }
    }

    /// Returns the index of the next element of the field `number`; `None` if the field isn't
    /// repeated.
    fn count(&mut self, number: u32, repeated: bool) -> Option<u32> {
        if !repeated {
            return None;
        }
        let slot = self
            .counts
            .iter_mut()
            .find(|(counted, _)| *counted == 0 || *counted == number)?;
        slot.0 = number;
        let index = slot.1;
        slot.1 = slot.1.saturating_add(1);
        Some(index)
    }
}

/// The location of a tensor, as a list of the enclosing messages, outermost first.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) role: TensorRole,
    frames: &'a [Frame],
    /// Number of messages entered so far. Two locations with the same number are in the same
    /// message, unless another message was entered and left between them.
    pub(crate) message: u64,
    pub(crate) label: &'static str,
    pub(crate) index: Option<u32>,
}

impl Place<'_> {
    fn has(&self, kind: Kind) -> bool {
        self.frames.iter().any(|frame| frame.kind == kind)
    }

    pub(crate) fn in_function(&self) -> bool {
        self.has(Kind::Function)
    }

    pub(crate) fn in_training(&self) -> bool {
        self.has(Kind::Training)
    }

    /// Returns true if the tensor is an initializer whose data may be in the safetensors file that
    /// has the model in its header: an initializer of any graph, except in functions and training
    /// information.
    pub(crate) fn is_embedded(&self) -> bool {
        self.role == TensorRole::Initializer && !self.in_function() && !self.in_training()
    }

    /// Returns true if the tensor is in the graph of an attribute.
    pub(crate) fn in_subgraph(&self) -> bool {
        let attribute = |frame: &Frame| frame.kind == Kind::Attribute;
        let graph = |frame: &Frame| frame.kind == Kind::Graph;
        let first = self.frames.iter().position(attribute);
        first.is_some_and(|first| self.frames[first..].iter().any(graph))
    }

    /// Returns the field path of the tensor, such as `graph.node[3].attribute[0].t`.
    pub(crate) fn path(&self) -> String {
        joined(self.parent(), self.label, self.index)
    }

    /// Returns the field path of the message that contains the tensor. For the model itself, the
    /// path is empty.
    pub(crate) fn parent(&self) -> String {
        let frames = self.frames.iter().skip(1);
        frames.fold(String::new(), |path, frame| {
            joined(path, frame.label, frame.index)
        })
    }

    /// Returns the total size of the names that [`name`](Self::name) reads, in bytes.
    fn names_len(&self) -> u64 {
        let len = |range: &Range<u64>| range.end - range.start;
        let read = |frame: &Frame| {
            let names = [&frame.name, &frame.op, &frame.output, &frame.domain];
            let sizes = names.into_iter().flatten().map(len);
            sizes.filter(|size| *size <= MAX_NAME).sum::<u64>()
        };
        self.frames.iter().map(read).sum()
    }

    /// Returns true if the tensor's common name is its own name, as for initializers of the model's
    /// main graph.
    pub(crate) fn has_own_name(&self) -> bool {
        let outer = |frame: &Frame| matches!(frame.kind, Kind::Model | Kind::Graph);
        self.role == TensorRole::Initializer && self.frames.iter().all(outer)
    }

    /// Returns the tensor's common name: for an initializer, its own name; for a constant, the name
    /// of its output; for a tensor in another attribute, `node.attribute`. In a subgraph, the name
    /// is prefixed with the names of the node and the attribute; in a function, with the function's
    /// name. Fails if the names exceed `budget`.
    ///
    /// ```text
    /// conv1.weight    /relu/Constant_output_0    If_0/then_branch/bias    my.domain::Gelu/half
    /// ```
    pub(crate) fn name(
        &self,
        cursor: &mut Cursor<'_>,
        tensor: &Tensor,
        budget: &mut NameBudget,
    ) -> Result<String> {
        budget
            .spend(self.names_len())
            .map_err(|error| error.at_path(self.path()))?;
        let mut name = String::new();
        let (mut node, mut attribute) = (String::new(), String::new());
        let mut is_constant = false;
        for (at, frame) in self.frames.iter().enumerate() {
            match frame.kind {
                Kind::Function => {
                    let domain = text(cursor, frame.domain.as_ref())?;
                    let function = text(cursor, frame.name.as_ref())?;
                    name.push_str(&format!("{domain}::{function}/"));
                }
                Kind::Training => {
                    name.push_str(&format!("training_info[{}]", frame.index.unwrap_or(0)));
                    if let Some(graph) = self.frames.get(at + 1) {
                        name.push_str(&format!(".{}/", graph.label));
                    }
                }
                Kind::Node => {
                    let op = text(cursor, frame.op.as_ref())?;
                    let output = text(cursor, frame.output.as_ref())?;
                    is_constant = op == "Constant" && !output.is_empty();
                    node = match text(cursor, frame.name.as_ref())? {
                        _ if is_constant => output,
                        empty if empty.is_empty() => format!("{op}:{output}"),
                        named => named,
                    };
                }
                Kind::Attribute => attribute = text(cursor, frame.name.as_ref())?,
                Kind::Graph if at > 0 && self.frames[at - 1].kind == Kind::Attribute => {
                    let index = frame.index.map(|index| format!("[{index}]"));
                    let index = index.unwrap_or_default();
                    name.push_str(&format!("{node}/{attribute}{index}/"));
                }
                Kind::Model | Kind::Graph | Kind::Sparse => {}
            }
        }
        let in_attribute = self
            .frames
            .iter()
            .rev()
            .find(|frame| frame.kind != Kind::Sparse)
            .is_some_and(|frame| frame.kind == Kind::Attribute);
        match (in_attribute, self.role) {
            (true, TensorRole::Default) => name.push_str(&attribute),
            (true, _) if is_constant => name.push_str(&node),
            (true, _) => name.push_str(&format!("{node}.{attribute}")),
            (false, TensorRole::SparseIndices) => {
                name.push_str(&format!("{}.indices", tensor.name));
                return Ok(name);
            }
            (false, _) => name.push_str(&tensor.name),
        }
        if self.role == TensorRole::SparseIndices {
            name.push_str(".indices");
        }
        if let (TensorRole::Attribute, Some(index)) = (self.role, self.index) {
            name.push_str(&format!("[{index}]"));
        }
        Ok(name)
    }
}

/// Appends a field to the path of a message, followed by the index of an element if the field is
/// repeated.
pub(crate) fn joined(mut path: String, label: &str, index: Option<u32>) -> String {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(label);
    if let Some(index) = index {
        // Writing to a string doesn't fail.
        write!(path, "[{index}]").unwrap_or(());
    }
    path
}

/// Returns the string at `range` in the model, with invalid UTF-8 replaced; empty if there is no
/// range, or the string is longer than [`MAX_NAME`].
fn text(cursor: &mut Cursor<'_>, range: Option<&Range<u64>>) -> Result<String> {
    let Some(range) = range.filter(|range| range.end - range.start <= MAX_NAME) else {
        return Ok(String::new());
    };
    let bytes = cursor.bytes(range.clone())?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Callbacks of a [`walk`] through a model.
pub(crate) trait Visitor {
    /// Called before the fields of a message that may contain tensors are visited.
    fn enter(&mut self, _field: &Field) -> Result<()> {
        Ok(())
    }

    /// Called after the fields of a message that may contain tensors were visited.
    fn leave(&mut self, _field: &Field) -> Result<()> {
        Ok(())
    }

    /// Called for a tensor. The implementation may move the cursor.
    fn tensor(
        &mut self,
        field: &Field,
        tensor: &Tensor,
        place: &Place<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<()>;

    /// Called for an attribute that contains or locates the content of a compiled node. The
    /// implementation may move the cursor.
    fn context(
        &mut self,
        _field: &Field,
        _context: &Context,
        _part: Part,
        _cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        Ok(())
    }
}

/// Passes every tensor and every node with a compiled graph (`EPContext`) of the model in `source`
/// to `visitor`, in the model's order.
pub(crate) fn walk(
    source: &dyn ReadAt,
    size: u64,
    max_depth: u32,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let mut walker = Walker {
        cursor: WireCursor::new(SourceInput::new(source, size)),
        frames: vec![Frame::new(Kind::Model, "", None)],
        tensor: Tensor::default(),
        entered: 0,
        max_depth,
        visitor,
    };
    walker.message(0..size)
}

struct Walker<'a, 'v> {
    cursor: Cursor<'a>,
    frames: Vec<Frame>,
    /// The tensor parsed last, whose memory is reused for the next one.
    tensor: Tensor,
    /// Number of messages entered so far.
    entered: u64,
    max_depth: u32,
    visitor: &'v mut dyn Visitor,
}

impl Walker<'_, '_> {
    /// Visits the fields of the innermost message, which is at `range`.
    fn message(&mut self, range: Range<u64>) -> Result<()> {
        self.cursor.set_range(range.clone());
        while let Some(field) = self.cursor.next()? {
            let Some(frame) = self.frames.last_mut() else {
                break;
            };
            if field.wire_type != WireType::Len {
                continue;
            }
            match way(frame.kind, field.number.0) {
                None => continue,
                Some(Way::Name) => frame.name = Some(field.value),
                Some(Way::Op) => frame.op = Some(field.value),
                // A function's domain was already looked up.
                Some(Way::Domain) => {}
                Some(Way::Output) => {
                    frame.output.get_or_insert(field.value);
                }
                Some(Way::Down(kind, label, repeated)) => {
                    let index = frame.count(field.number.0, repeated);
                    let is_nodes = (frame.kind, kind) == (Kind::Node, Kind::Attribute);
                    if is_nodes && self.context(&range, &field, index)? {
                        self.cursor.set_range(field.end..range.end);
                        continue;
                    }
                    self.down(&field, Frame::new(kind, label, index))?;
                    self.cursor.set_range(field.end..range.end);
                }
                Some(Way::Tensor(role, label, repeated)) => {
                    let index = frame.count(field.number.0, repeated);
                    self.tensor(&field, role, label, index)?;
                    self.cursor.set_range(field.end..range.end);
                }
            }
        }
        Ok(())
    }

    /// Passes the attribute `field` of the node at `range` to the visitor if the attribute contains
    /// or locates the content of a compiled node. Returns true in this case.
    fn context(&mut self, range: &Range<u64>, field: &Field, index: Option<u32>) -> Result<bool> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(false);
        };
        if index == Some(0) {
            frame.context = find_context(&mut self.cursor, range, frame.op.as_ref())?;
        }
        let Some(context) = frame.context.as_deref() else {
            return Ok(false);
        };
        let Some(part) = context.part(field.start) else {
            return Ok(false);
        };
        let cursor = &mut self.cursor;
        self.visitor.context(field, context, part, cursor)?;
        Ok(true)
    }

    fn down(&mut self, field: &Field, frame: Frame) -> Result<()> {
        if self.frames.len() as u64 >= u64::from(self.max_depth) {
            let message = format!("messages nest deeper than {}", self.max_depth);
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(field.start));
        }
        self.frames.push(frame);
        self.entered += 1;
        if self.frames.last().map(|frame| frame.kind) == Some(Kind::Function) {
            self.find_domain(field.value.clone())?;
        }
        self.visitor.enter(field)?;
        self.message(field.value.clone())?;
        self.visitor.leave(field)?;
        self.frames.pop();
        Ok(())
    }

    /// Looks up a function's domain, which is stored after its nodes.
    fn find_domain(&mut self, range: Range<u64>) -> Result<()> {
        self.cursor.set_range(range);
        while let Some(field) = self.cursor.next()? {
            let is_domain = matches!(way(Kind::Function, field.number.0), Some(Way::Domain));
            if let (true, WireType::Len, Some(frame)) =
                (is_domain, field.wire_type, self.frames.last_mut())
            {
                frame.domain = Some(field.value);
            }
        }
        Ok(())
    }

    fn tensor(
        &mut self,
        field: &Field,
        role: TensorRole,
        label: &'static str,
        index: Option<u32>,
    ) -> Result<()> {
        let is_default = || {
            let kinds = self.frames.iter().map(|frame| frame.kind);
            kinds.eq([Kind::Model, Kind::Function, Kind::Attribute])
        };
        let role = match role {
            TensorRole::Attribute if is_default() => TensorRole::Default,
            role => role,
        };
        let place = Place {
            role,
            frames: &self.frames,
            message: self.entered,
            label,
            index,
        };
        let tensor = &mut self.tensor;
        tensor
            .parse(&mut self.cursor, field.value.clone())
            .map_err(|error| error.at_path(place.path()))?;
        self.visitor.tensor(field, tensor, &place, &mut self.cursor)
    }
}

/// Returns the location of the content of the node at `range`; `None` if it isn't a compiled node.
fn find_context(
    cursor: &mut Cursor<'_>,
    range: &Range<u64>,
    op: Option<&Range<u64>>,
) -> Result<Option<Box<Context>>> {
    // Writers put a node's operator before its attributes. Supporting any other order would mean
    // reading every node twice.
    let Some(op) = op else {
        return Ok(None);
    };
    if !context::is(cursor, op, context::OPERATOR.as_bytes())? {
        return Ok(None);
    }
    let found = Context::find(cursor, range.clone())?;
    Ok(found.map(Box::new))
}
