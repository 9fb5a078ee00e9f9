//! The size engine: from sizes and descriptors alone, what must leave so that every MESSAGE chunk
//! is within the maximum.
//!
//! A [`Node`] is a message that is large enough to matter. It is scanned by hopping over its
//! fields, which are put in [`Group`]s by number; of a group only the members that are large are
//! held as [`Child`]ren. Reducing a node works on its own fields, largest gain first: a member's
//! value leaves, or the tail of a repeated field leaves in slices.

mod children;
mod pack;
mod reduce;
mod scan;
mod stops;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::context;
use super::marks::Marks;
use super::options::{Profile, SizeRules, SplitOptions};
use super::source::Source;
use super::view::Chain;
use crate::container::ChunkKind;
use crate::path::{FieldPath, Select, Step};
use crate::wire::{Field, FieldNumber, WireType, varint_len};
use crate::{Error, ErrorKind, Result};
use pack::Slice;
pub(crate) use scan::check_field;
use stops::{Spare, Stops};

/// What the engine works with.
pub(crate) struct Engine<'a> {
    source: &'a Source,
    options: &'a SplitOptions,
    rules: &'a SizeRules,
    /// What splitters have cut already: it is gone from its parent.
    marks: &'a Marks,
    /// What leaves the messages that are done with.
    decided: RefCell<Marks>,
}

/// A message that is reduced: one piece of it on the wire.
struct Node {
    path: FieldPath,
    descriptor: MessageDescriptor,
    chain: Chain,
    depth: u32,
    /// Bytes of content that stay.
    size: u64,
    groups: Vec<Group>,
    /// Whether its repeated fields may be sliced.
    sliceable: bool,
    /// Whether all members that could leave are held as children, not only the large ones.
    complete: bool,
    siblings: Siblings,
}

impl Node {
    /// How many chunks leave it, and what leaves those.
    fn chunk_count(&self) -> usize {
        self.groups
            .iter()
            .map(|group| {
                let children = group.children.iter().map(|child| {
                    let inside = child.node.as_ref().map(|node| node.chunk_count());
                    usize::from(child.cut != Cut::No) + inside.unwrap_or(child.inside)
                });
                group.slices.len() + children.sum::<usize>()
            })
            .sum()
    }
}

/// What other pieces of the same message hold: a singular submessage may be written in several.
#[derive(Clone, Debug, Default)]
struct Siblings {
    /// Occurrences of each field in earlier pieces.
    before: HashMap<FieldNumber, u64>,
    /// Fields that occur in later pieces.
    after: HashSet<FieldNumber>,
    /// Whether some piece is empty. It would be taken for the placeholder of a slice at the
    /// message's path.
    any_empty: bool,
}

impl Siblings {
    fn before(&self, number: FieldNumber) -> u64 {
        self.before.get(&number).copied().unwrap_or(0)
    }
}

/// All occurrences of a field number in a node.
struct Group {
    number: FieldNumber,
    class: Class,
    /// Occurrences in this piece.
    count: u64,
    /// Bytes of the first occurrence in the source.
    first: u64,
    /// Bytes that stay, tags included.
    total: u64,
    /// With slices: the bytes of the part that stays, as they are in the source.
    kept_raw: Option<u64>,
    /// Where the occurrences lie: neighbours are joined.
    runs: Vec<Range<u64>>,
    /// Some occurrences, so that any can be found without hopping to it from the first.
    stops: Stops,
    /// Of a group that can't be sliced: its smaller members, which could leave too.
    spare: Spare,
    children: Vec<Child>,
    slices: Vec<Slice>,
    /// How many occurrences slices have left in the parent, from the first on.
    kept: u64,
    /// Whether paths can name the members.
    addressable: bool,
}

/// What the members of a group are.
#[derive(Clone, PartialEq)]
enum Class {
    /// A submessage, by itself or repeated.
    Message {
        descriptor: MessageDescriptor,
        repeated: bool,
        group: bool,
    },
    /// A bytes or string field.
    Value,
    /// A repeated bytes or string field.
    Values,
    /// A map; with the type of its values if they are messages.
    Map {
        entry: MessageDescriptor,
        value: Option<MessageDescriptor>,
    },
    /// A repeated scalar: the bytes of each, or none for varints.
    Numbers { width: Option<u64> },
    /// A scalar, too small to matter.
    Scalar,
    /// Fields that the type doesn't have, or has otherwise.
    Unknown,
}

impl Class {
    fn repeats(&self) -> bool {
        match self {
            Class::Message { repeated, .. } => *repeated,
            Class::Values | Class::Map { .. } | Class::Numbers { .. } | Class::Unknown => true,
            Class::Value | Class::Scalar => false,
        }
    }
}

/// A member of a group that is held, because it is large or all are.
struct Child {
    /// Which occurrence of its group, in this piece.
    ordinal: u64,
    path: FieldPath,
    /// The value's field; for a map the one inside the entry.
    chain: Chain,
    field: Field,
    /// The entry, for a map.
    entry: Option<Field>,
    /// Bytes of the value that stay in it.
    content: u64,
    /// What the other pieces hold, if it is one of several.
    siblings: Siblings,
    node: Option<Box<Node>>,
    /// How many chunks leave it, once it is done with.
    inside: usize,
    cut: Cut,
    /// Whether its value is a message.
    message: bool,
    /// Whether its value may leave as a chunk.
    chunkable: bool,
    /// Whether something inside it may leave.
    enterable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// It stays.
    No,
    /// It leaves because something had to.
    Needed,
    /// It leaves whatever else does: it is a large value.
    Always,
    /// A splitter has cut it already.
    Already,
}

impl Child {
    /// Bytes it takes in its parent with `content` bytes inside.
    fn outer_with(&self, content: u64) -> u64 {
        let field = field_size(&self.field, content);
        match &self.entry {
            None => field,
            Some(entry) => {
                let others =
                    (entry.value.end - entry.value.start) - (self.field.end - self.field.start);
                field_size(entry, others + field)
            }
        }
    }

    /// Bytes it takes in its parent now.
    fn outer(&self) -> u64 {
        self.outer_with(if self.cut == Cut::No { self.content } else { 0 })
    }

    /// Bytes its parent loses if it leaves.
    fn gain(&self) -> u64 {
        self.outer_with(self.content)
            .saturating_sub(self.outer_with(0))
    }

    /// Bytes it takes in the source.
    fn raw(&self) -> u64 {
        let outer = self.entry.as_ref().unwrap_or(&self.field);
        outer.end - outer.start
    }

    /// Where it starts in the source.
    fn outer_start(&self) -> u64 {
        self.entry.as_ref().unwrap_or(&self.field).start
    }

    fn kind(&self) -> ChunkKind {
        if self.message {
            ChunkKind::Message
        } else {
            ChunkKind::Bytes
        }
    }
}

/// Bytes of a field with this tag and `content` bytes inside; unchanged fields keep the length
/// prefix they have.
fn field_size(field: &Field, content: u64) -> u64 {
    let tag = field.tag_end - field.start;
    if content == field.value.end - field.value.start {
        return field.end - field.start;
    }
    match field.wire_type {
        WireType::Len => tag + varint_len(content) as u64 + content,
        _ => tag + content + (field.end - field.value.end),
    }
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        source: &'a Source,
        options: &'a SplitOptions,
        rules: &'a SizeRules,
        marks: &'a Marks,
    ) -> Self {
        Engine {
            source,
            options,
            rules,
            marks,
            decided: RefCell::default(),
        }
    }

    /// Reduces the message at `chain` until its content is within the maximum, and marks what
    /// leaves.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] with the path and size of what can't be cut.
    pub(crate) fn fit(
        self,
        chain: &Chain,
        descriptor: &MessageDescriptor,
        path: &FieldPath,
    ) -> Result<Marks> {
        let siblings = Siblings::default();
        let depth = 0;
        // Whatever becomes of a root: what is a message of another type is refused.
        let check = path.is_root();
        let mut node = self.scan(chain, descriptor, path, depth, siblings, check)?;
        let max = self.options.get_max_chunk_size();
        self.reduce(&mut node, max)?;
        if node.size > max {
            return Err(self.uncuttable(&node));
        }
        let mut marks = self.decided.into_inner();
        mark_node(&node, &mut marks);
        Ok(marks)
    }

    /// Whether a value may be cut that only the extended profile has paths for: an element, or one
    /// in a map.
    fn cuts_elements(&self) -> bool {
        self.options.get_profile() == Profile::Extended
    }

    fn max(&self) -> u64 {
        self.options.get_max_chunk_size()
    }

    /// Names the largest thing that stays in a node that is too large: by itself, or beside the
    /// rest.
    fn uncuttable(&self, node: &Node) -> Error {
        let largest = largest_kept(node);
        if largest.whole > self.max() {
            return self.uncuttable_value(&largest.path, largest.content, largest.whole);
        }
        let root = Some(self.source.descriptor());
        let message = format!(
            "{} bytes stay in one chunk, over the maximum chunk size of {} bytes; the largest part that can't be cut is {} with {}{}",
            node.size,
            self.max(),
            largest.path.display(root),
            largest.whole,
            context::hint(self.options),
        );
        Error::new(ErrorKind::Uncuttable, message).at_path(node.path.display(root))
    }

    /// Names a value that is too large for a chunk, at the latest with its tag and length.
    #[cold]
    fn uncuttable_value(&self, path: &FieldPath, content: u64, whole: u64) -> Error {
        let (hint, max) = (context::hint(self.options), self.max());
        let bytes = if content > max {
            format!("{content} bytes")
        } else {
            format!("{whole} bytes with tag and length")
        };
        let message =
            format!("{bytes} that can't be cut, over the maximum chunk size of {max} bytes{hint}");
        let root = Some(self.source.descriptor());
        Error::new(ErrorKind::Uncuttable, message).at_path(path.display(root))
    }
}

/// What stays in a message.
struct Kept {
    path: FieldPath,
    /// Bytes of its values, as far as they are known apart from their tags and lengths.
    content: u64,
    /// Bytes with tags and lengths.
    whole: u64,
}

/// The largest thing that stays in a node.
fn largest_kept(node: &Node) -> Kept {
    let kept = |path, content, whole| Kept {
        path,
        content,
        whole,
    };
    let Some(group) = node.groups.iter().max_by_key(|group| group.total) else {
        return kept(node.path.clone(), node.size, node.size);
    };
    let children = group.children.iter();
    let largest = children
        .filter(|child| child.ordinal < group.kept)
        .max_by_key(|child| child.outer())
        .filter(|child| child.outer() > group.total / 2);
    match largest {
        Some(child) => match &child.node {
            Some(inner) if child.cut == Cut::No => largest_kept(inner),
            _ => kept(child.path.clone(), child.content, child.outer()),
        },
        None => {
            let path = node.path.join(Step {
                field: group.number,
                select: Select::Field,
            });
            kept(path, group.total, group.total)
        }
    }
}

fn mark_node(node: &Node, marks: &mut Marks) {
    for group in &node.groups {
        for child in &group.children {
            if matches!(child.cut, Cut::Needed | Cut::Always) {
                marks.cut(&child.chain, &child.path, child.kind());
            }
            if let Some(inner) = &child.node {
                mark_node(inner, marks);
            }
        }
        let apart = group.runs.len() > 1 && !group.slices.is_empty();
        marks.reordered |= apart;
        for slice in &group.slices {
            match slice {
                Slice::Fields(runs) => {
                    marks.slice(&node.path, group.number, &node.chain, runs.iter().cloned());
                }
                Slice::Packed { run, elements } => {
                    marks.slice_packed(&node.path, run, elements.clone())
                }
            }
        }
    }
}
