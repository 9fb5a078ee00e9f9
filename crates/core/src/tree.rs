//! What takes up space in a message: sizes by field path, without loading it.
//!
//! [`MessageView::tree`](crate::lazy::MessageView::tree) walks a message, hopping over every value
//! that is no message, and sums what it meets by field path: all elements of `graph_def.node` are
//! one [`TreeNode`], and so are the `name`s of all of them. Of repeated fields and maps the largest
//! members are kept besides, and called by a name that means something.
//!
//! Sizes are bytes on the wire, tags and lengths included, so the sizes of a message's fields add
//! up to its own; what is left over, the message's tag and length, is [`own`](TreeNode::own).
//! Nothing grows with the number of elements.
//!
//! ```
//! use proto_splitter_core::lazy::MessageView;
//! use proto_splitter_core::merge::MergeOptions;
//! use proto_splitter_core::path::FieldPath;
//! use proto_splitter_core::tree::{Guessed, TreeOptions};
//!
//! // Field 3 is a message twice, with the strings "testing" and "it" in field 1.
//! let message = b"\x1a\x09\x0a\x07testing\x1a\x04\x0a\x02it".to_vec();
//! let view = MessageView::of_plain(&message, MergeOptions::new())?;
//! let tree = view.tree(&FieldPath::root(), &TreeOptions::new())?;
//!
//! let field = &tree.root.children[0];
//! assert_eq!((field.label().as_str(), field.count, field.size), ("3[*]", 2, 17));
//! assert_eq!(field.guessed, Some(Guessed::Message));
//! assert_eq!(field.members[0].text, "3[0]");
//! assert_eq!(field.members[0].name.name.as_deref(), Some("testing"));
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod arena;
mod chunks;
mod diff;
mod finish;
mod guess;
mod header;
mod names;
mod place;
mod walk;

use std::ops::Range;

use prost_reflect::MessageDescriptor;

pub use chunks::ChunkSet;
pub use diff::{MemberChange, Sum, TreeChange, TreeDiff};
pub use names::{MemberFields, MemberName, NameRule};
pub use place::TreePlace;

use crate::Result;
use crate::merge::MergePlan;
use crate::path::FieldPath;
use crate::wire::{FieldNumber, Input, WireCursor};
use arena::{Arena, ROOT};
use chunks::ChunkMap;

/// How many members of a field are kept, unless options say otherwise.
pub const DEFAULT_TOP: usize = 10;

/// What is kept beside the sums.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    top: usize,
    min_member_size: u64,
    names: Vec<NameRule>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions::new()
    }
}

impl TreeOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        TreeOptions {
            top: DEFAULT_TOP,
            min_member_size: 0,
            names: Vec::new(),
        }
    }

    /// Keeps this many of a field's largest members ([`DEFAULT_TOP`]). Each takes some hundred
    /// bytes of memory, for every path that repeats.
    #[must_use]
    pub const fn top(mut self, members: usize) -> Self {
        self.top = members;
        self
    }

    /// Keeps only members of at least this many bytes (0: of any size).
    #[must_use]
    pub const fn min_member_size(mut self, bytes: u64) -> Self {
        self.min_member_size = bytes;
        self
    }

    /// Adds rules for what the messages of some types are called (none: by fields that sound like
    /// names). The first rule of a type counts.
    #[must_use]
    pub fn names(mut self, rules: &[NameRule]) -> Self {
        self.names.extend_from_slice(rules);
        self
    }
}

/// The sizes of a message by field path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SizeTree {
    /// The message itself, or the value that was asked for.
    pub root: TreeNode,
}

/// All values at one path, whatever the indices and keys on the way are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeNode {
    /// The field's number.
    pub field: FieldNumber,
    /// The field's name, or its number if the type doesn't know it; of the root nothing.
    pub name: String,
    /// What its values are: a message's full name, or `string`, `map<string, int32>` and the like;
    /// `None` if only a guess can tell.
    pub type_name: Option<String>,
    /// What its values look like, if the type doesn't know the field.
    pub guessed: Option<Guessed>,
    /// Whether a message can have several of them, or had, where the type doesn't know.
    pub repeated: bool,
    /// How often the field is written. A packed run counts once.
    pub count: u64,
    /// Bytes of all of them, with their tags and lengths.
    pub size: u64,
    /// Bytes that belong to no field below.
    pub own: u64,
    /// The chunks that they lie in.
    pub chunks: ChunkSet,
    /// The largest of them, if they are several, by their size.
    pub members: Vec<Member>,
    /// The fields below, by their size.
    pub children: Vec<TreeNode>,
}

/// What a value without a type looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guessed {
    /// Fields, one after the other, whenever it occurred.
    Message,
    /// Text in UTF-8.
    Text,
    /// Anything else with a length: bytes, packed numbers, or text and messages by turns.
    Bytes,
    /// A number, as its wire type says.
    Number,
}

/// An element of a repeated field, or an entry of a map.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Where it is in the whole message.
    pub path: FieldPath,
    /// The same as text, with the type's names.
    pub text: String,
    /// The end of its path that tells it from other members: `[7]`, or `node[7].attr["value"]`.
    pub short: String,
    /// What it is called.
    pub name: MemberName,
    /// Its bytes, with its tag and length.
    pub size: u64,
    /// The chunks that it lies in.
    pub chunks: ChunkSet,
    /// Which of the names that are read last is its own.
    serial: usize,
}

impl TreeNode {
    /// Its step in a path: `node[*]` if it is repeated.
    pub fn label(&self) -> String {
        if self.repeated {
            format!("{}[*]", self.name)
        } else {
            self.name.clone()
        }
    }

    /// The field below with this name.
    pub fn child(&self, name: &str) -> Option<&TreeNode> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// What is measured: pieces of an input, and where in which message they are.
pub(crate) struct Target<'a> {
    pub(crate) pieces: &'a [Range<u64>],
    /// Whether it is a message at all, and its type.
    pub(crate) is_message: bool,
    pub(crate) message: Option<MessageDescriptor>,
    pub(crate) path: &'a FieldPath,
    pub(crate) whole: Option<&'a MessageDescriptor>,
    /// Where the chunks are, if there are any.
    pub(crate) plan: Option<&'a MergePlan>,
    /// How many messages deep it is walked.
    pub(crate) max_depth: u32,
}

/// Walks a part of a message.
pub(crate) fn measure<I: Input>(
    mut cursor: WireCursor<I>,
    target: &Target<'_>,
    options: &TreeOptions,
) -> Result<SizeTree> {
    let chunks = target.plan.map_or_else(ChunkMap::whole, ChunkMap::of);
    let message = target.message.clone();
    let mut arena = Arena::new(message, chunks, options.top, options.min_member_size);
    for piece in target.pieces {
        arena.node(ROOT).total += piece.end - piece.start;
        if target.plan.is_some() {
            arena.touch(ROOT, piece.start, piece.end);
        }
    }
    arena.node(ROOT).count = 1;
    if target.is_message {
        walk::walk(&mut cursor, &mut arena, target.pieces, target.max_depth)?;
    }
    let finish = finish::Finish {
        cursor,
        arena,
        rules: &options.names,
        prefix: target.path,
        whole: target.whole,
        wanted: Vec::new(),
    };
    let root = finish.tree(&target.path.display(target.whole))?;
    Ok(SizeTree { root })
}

#[cfg(test)]
mod tests;
