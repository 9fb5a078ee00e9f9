//! The nodes of a tree of sizes.

use super::chunks::ChunkSet;
use crate::path::FieldPath;
use crate::view::MemberName;
use crate::wire::FieldNumber;

/// The sizes of a message's parts, by field path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SizeTree {
    /// Node of the whole message, or of the value that was measured.
    pub root: TreeNode,
}

/// The values at one field path, summed over all indices and keys along the path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeNode {
    /// Field number.
    pub field: FieldNumber,
    /// Field name, or the field number if the type lacks the field; empty for the root.
    pub name: String,
    /// Type of the values: a message's full name, or `string`, `map<string, int32>` and the like;
    /// `None` if the enclosing message's type lacks the field.
    pub type_name: Option<String>,
    /// Form that the values seem to have; `None` if the type has the field.
    pub guessed: Option<Guessed>,
    /// True if the field can occur several times in a message. For a field that the type lacks,
    /// true if it does occur several times.
    pub repeated: bool,
    /// Number of occurrences of the field. A packed field counts once, whatever its number of
    /// elements.
    pub count: u64,
    /// Total size including tags and lengths, in bytes.
    pub size: u64,
    /// Number of the bytes in [`size`](Self::size) that belong to none of the children.
    pub own: u64,
    /// Chunks that contain the values.
    pub chunks: ChunkSet,
    /// The largest values of a repeated field, the largest first.
    pub members: Vec<Member>,
    /// Fields of the values, the largest first.
    pub children: Vec<TreeNode>,
}

/// The form that the values of an unknown field seem to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guessed {
    /// A message: each value is a valid sequence of fields.
    Message,
    /// UTF-8 text.
    Text,
    /// Any other length-delimited value: bytes, packed numbers, or a mixture of text and messages.
    Bytes,
    /// A number, according to its wire type.
    Number,
}

/// An element of a repeated field, or an entry of a map.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Path of the member in the whole message.
    pub path: FieldPath,
    /// The path as text, with field names.
    pub text: String,
    /// Suffix of the path that distinguishes the member from other members, such as `[7]` or
    /// `node[7].attr["value"]`.
    pub short: String,
    /// Name of the member.
    pub name: MemberName,
    /// Size including tag and length, in bytes.
    pub size: u64,
    /// Chunks that contain the member.
    pub chunks: ChunkSet,
    /// Index of the member's name in the list of names, which is read after the tree is built.
    pub(super) serial: usize,
}

impl TreeNode {
    /// Returns the field's step in a path, such as `node[*]` for a repeated field.
    pub fn label(&self) -> String {
        if self.repeated {
            format!("{}[*]", self.name)
        } else {
            self.name.clone()
        }
    }

    /// Returns the child with this field name; `None` if there is none.
    pub fn child(&self, name: &str) -> Option<&TreeNode> {
        self.children.iter().find(|child| child.name == name)
    }
}
