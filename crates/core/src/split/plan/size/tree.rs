//! The tree of messages to reduce, with their fields.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prost_reflect::MessageDescriptor;

use super::skip_index::{SkipIndex, SmallMembers};
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::split::plan::cuts::Cuts;
use crate::split::read::source_view::Chain;
use crate::wire::{Field, FieldNumber, WireType, varint_len};

/// One occurrence on the wire of a message to reduce.
pub(super) struct Node {
    pub(super) path: FieldPath,
    pub(super) descriptor: MessageDescriptor,
    pub(super) chain: Chain,
    pub(super) depth: u32,
    /// Size of the content that stays in the message, in bytes.
    pub(super) size: u64,
    pub(super) groups: Vec<Group>,
    /// True if the message's repeated fields may be sliced.
    pub(super) sliceable: bool,
    /// True if all members that could become chunks are kept as children, not only the large ones.
    pub(super) complete: bool,
    pub(super) siblings: Siblings,
}

impl Node {
    /// Returns the number of chunks moved out of the message, including chunks inside other chunks.
    pub(super) fn chunk_count(&self) -> usize {
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

/// Facts about the other pieces of a singular submessage that is written in several pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Siblings {
    /// Number of occurrences of each field in earlier pieces.
    pub(super) before: HashMap<FieldNumber, u64>,
    /// Fields that occur in later pieces.
    pub(super) after: HashSet<FieldNumber>,
    /// True if some piece is empty. An empty piece would be mistaken for the placeholder of a slice
    /// at the message's path.
    pub(super) any_empty: bool,
}

impl Siblings {
    pub(super) fn before(&self, number: FieldNumber) -> u64 {
        self.before.get(&number).copied().unwrap_or(0)
    }
}

/// All occurrences of a field number in a node.
pub(super) struct Group {
    pub(super) number: FieldNumber,
    pub(super) class: Class,
    /// Number of occurrences in this piece of the message.
    pub(super) count: u64,
    /// Size of the first occurrence in the source, in bytes.
    pub(super) first: u64,
    /// Size of the occurrences that stay in the message, including tags, in bytes.
    pub(super) total: u64,
    /// Size in the source of the occurrences that stay, in bytes; `None` unless the group was
    /// sliced.
    pub(super) kept_raw: Option<u64>,
    /// Ranges of the occurrences in the source; adjacent ranges are merged.
    pub(super) runs: Vec<Range<u64>>,
    /// Positions of some occurrences, so that others can be found without scanning from the first.
    pub(super) stops: SkipIndex,
    /// Small members, which could become chunks only if the group can't be sliced.
    pub(super) spare: SmallMembers,
    pub(super) children: Vec<Child>,
    pub(super) slices: Vec<Slice>,
    /// Number of occurrences, from the first on, that stay in the message when others become
    /// slices.
    pub(super) kept: u64,
    /// True if paths can lead to the members.
    pub(super) addressable: bool,
}

impl Group {
    /// Returns true if the index of an element in a path is also the index of its occurrence in this
    /// group: each occurrence has the expected wire type, and contains exactly one element.
    fn is_countable(&self) -> bool {
        self.addressable && !matches!(self.class, Class::Numbers { .. })
    }
}

/// The kind of a group's members.
#[derive(Clone, PartialEq)]
pub(super) enum Class {
    /// A submessage, singular or repeated.
    Message {
        descriptor: MessageDescriptor,
        repeated: bool,
        group: bool,
    },
    /// A bytes or string field.
    Value,
    /// A repeated bytes or string field.
    Values,
    /// A map. `value` is the type of its values; `None` if they are not messages.
    Map {
        entry: MessageDescriptor,
        value: Option<MessageDescriptor>,
    },
    /// A repeated number field. `width` is the size of each element in bytes; `None` for varints.
    Numbers { width: Option<u64> },
    /// A singular number, which is too small to be cut.
    Scalar,
    /// Fields that the message type lacks, or whose wire type differs from the one that the message
    /// type declares.
    Unknown,
}

impl Class {
    pub(super) fn repeats(&self) -> bool {
        match self {
            Class::Message { repeated, .. } => *repeated,
            Class::Values | Class::Map { .. } | Class::Numbers { .. } | Class::Unknown => true,
            Class::Value | Class::Scalar => false,
        }
    }
}

/// Data about a member of a group. Such data is kept for large members, and in some groups for all
/// members.
pub(super) struct Child {
    /// Index of the member among the occurrences of its field in this piece of the message.
    pub(super) ordinal: u64,
    pub(super) path: FieldPath,
    /// Chain of fields that ends with the value's field; for a map, with the field inside the
    /// entry.
    pub(super) chain: Chain,
    pub(super) field: Field,
    /// The map entry that contains the value; `None` if the field is not a map.
    pub(super) entry: Option<Field>,
    /// Size of the content that stays in the value, in bytes.
    pub(super) content: u64,
    /// Facts about the other pieces of the message, if this value is one piece of several.
    pub(super) siblings: Siblings,
    pub(super) node: Option<Box<Node>>,
    /// Number of chunks moved out of the value, set once the value is finished.
    pub(super) inside: usize,
    pub(super) cut: Cut,
    /// True if the value is a message.
    pub(super) message: bool,
    /// True if the value may become a chunk.
    pub(super) chunkable: bool,
    /// True if parts of the value's content may become chunks.
    pub(super) enterable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The member stays in its parent.
    No,
    /// The member becomes a chunk to reduce the size of its parent.
    Needed,
    /// The member becomes a chunk in any case, since it is a large value.
    Always,
    /// A splitter has already cut the member.
    Already,
}

impl Child {
    /// Returns the member's size in its parent, in bytes, if its value has `content` bytes.
    pub(super) fn outer_with(&self, content: u64) -> u64 {
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

    /// Returns the member's current size in its parent, in bytes.
    pub(super) fn outer(&self) -> u64 {
        self.outer_with(if self.cut == Cut::No { self.content } else { 0 })
    }

    /// Returns the number of bytes by which the parent shrinks if the member's value is moved out.
    pub(super) fn gain(&self) -> u64 {
        self.outer_with(self.content)
            .saturating_sub(self.outer_with(0))
    }

    /// Returns the member's size in the source, in bytes.
    pub(super) fn raw(&self) -> u64 {
        let outer = self.entry.as_ref().unwrap_or(&self.field);
        outer.end - outer.start
    }

    /// Returns the member's start in the source, as an offset.
    pub(super) fn outer_start(&self) -> u64 {
        self.entry.as_ref().unwrap_or(&self.field).start
    }

    pub(super) fn kind(&self) -> ChunkKind {
        if self.message {
            ChunkKind::Message
        } else {
            ChunkKind::Bytes
        }
    }
}

/// Returns the size in bytes of a field with the tag of `field` and a value of `content` bytes. A
/// field whose value keeps its size also keeps its length prefix, even an overlong one.
pub(super) fn field_size(field: &Field, content: u64) -> u64 {
    let tag = field.tag_end - field.start;
    if content == field.value.end - field.value.start {
        return field.end - field.start;
    }
    match field.wire_type {
        WireType::Len => tag + varint_len(content) as u64 + content,
        _ => tag + content + (field.end - field.value.end),
    }
}

/// A chunk with members of a repeated field.
#[derive(Debug)]
pub(super) enum Slice {
    /// Complete fields, at these ranges of the source.
    Fields {
        /// Ordinal of the first member in the slice.
        first: u64,
        runs: Vec<Range<u64>>,
    },
    /// Elements of a packed field.
    Packed { run: Chain, elements: Range<u64> },
}

pub(super) fn mark_node(node: &Node, marks: &mut Cuts) {
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
        for (at, slice) in group.slices.iter().enumerate() {
            match slice {
                Slice::Fields { first, runs } => {
                    let elements = match (group.is_countable(), group.slices.get(at + 1)) {
                        (false, _) | (_, Some(Slice::Packed { .. })) => 0,
                        (true, Some(Slice::Fields { first: next, .. })) => next - first,
                        (true, None) => group.count - first,
                    };
                    let slice = (runs.iter().cloned(), elements);
                    marks.slice(&node.path, group.number, &node.chain, slice);
                }
                Slice::Packed { run, elements } => {
                    marks.slice_packed(&node.path, run, elements.clone())
                }
            }
        }
    }
}
