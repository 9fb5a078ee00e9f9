//! What a tree of sizes consists of.

use super::chunks::ChunkSet;
use crate::member_names::MemberName;
use crate::path::FieldPath;
use crate::wire::FieldNumber;

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
    pub(super) serial: usize,
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
