//! The report on a tree: the parts within limits.

use std::path::PathBuf;

use proto_splitter_core::ChunkIndex;
use proto_splitter_core::path::Select;
use proto_splitter_core::view::size_tree::{
    ChunkSet, Guessed, LargePart, Member, SizeTree, TreeNode,
};

use super::{TreeLimits, TreeOrder};

/// The result of [`tree`](super::tree()): a size tree reduced to the nodes within the limits.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeReport {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Full name of the message's type, if known; for an archive, the title of its format.
    pub message: Option<String>,
    /// The three largest parts, which errors about limits also name; empty for an archive.
    pub largest: Vec<TreePart>,
    /// The whole, or the part at the requested path.
    pub tree: TreeField,
    /// The largest members, each measured separately, if
    /// [requested](super::TreeOptions::enter_members).
    #[cfg_attr(feature = "serde", serde(skip))]
    pub inside: Vec<TreeField>,
}

/// A large part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreePart {
    /// Path of a value, or of all values of a field, with a `[*]` for each repeated field.
    pub path: String,
    /// The name of an element, if it has one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// Size, in bytes.
    pub size: u64,
}

impl From<LargePart> for TreePart {
    fn from(part: LargePart) -> TreePart {
        let LargePart {
            path, name, size, ..
        } = part;
        TreePart { path, name, size }
    }
}

/// All values at one path.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeField {
    /// Path from the root of the message.
    pub path: String,
    /// The last step of the path.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub label: String,
    /// Additional description of a single value, for people to read.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub detail: Option<String>,
    /// Type of the values, if known.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub type_name: Option<String>,
    /// Kind of data, guessed if the type is unknown: `message`, `text`, `bytes` or `number`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub guess: Option<&'static str>,
    /// Number of values.
    pub count: u64,
    /// Total size, in bytes.
    pub size: u64,
    /// Size of the parts outside the nested fields, in bytes.
    pub own: u64,
    /// Size as a share of the root of this tree.
    pub share: f64,
    /// Chunks that contain the values; empty for a message in one piece.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub chunks: Vec<u64>,
    /// True if there are more chunks than listed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_false"))]
    pub more_chunks: bool,
    /// Elements of a repeated field, or entries of a map.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub members: Vec<TreeMember>,
    /// Members not listed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub other_members: Option<TreeRest>,
    /// Fields nested in the values.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub fields: Vec<TreeField>,
    /// The fields that aren't listed, except for fields below the maximum depth.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub other_fields: Option<TreeRest>,
}

/// An element of a repeated field, or an entry of a map.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeMember {
    /// Path from the root of the message.
    pub path: String,
    /// The end of the path, which distinguishes the member from other members.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub short: String,
    /// The index or key, in brackets.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub selector: String,
    /// Name of the member, if it has one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// Additional description, such as the op of a node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub detail: Option<String>,
    /// Size, in bytes.
    pub size: u64,
    /// Size as a share of the root of this tree.
    pub share: f64,
    /// Chunks that contain the member; empty for a message in one piece.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub chunks: Vec<u64>,
    /// True if there are more chunks than listed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_false"))]
    pub more_chunks: bool,
}

#[cfg(feature = "serde")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The parts that a list leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeRest {
    /// Number of parts.
    pub count: u64,
    /// Total size, in bytes.
    pub size: u64,
}

impl TreeReport {
    /// Returns true if the message is in chunks.
    pub fn is_chunked(&self) -> bool {
        !self.tree.chunks.is_empty()
    }
}

/// Returns a message's tree, and the trees of its members that were measured separately.
pub(super) fn of_message(
    tree: &SizeTree,
    entered: &[SizeTree],
    limits: &TreeLimits,
) -> (TreeField, Vec<TreeField>) {
    let whole = tree.root.size;
    let cut = Cut {
        limits: *limits,
        min_size: limits.get_min_size().of(whole),
        whole,
    };
    let is_unlimited = limits.get_depth() == usize::MAX;
    let inside = entered
        .iter()
        .filter(|inside| is_unlimited && inside.root.size >= cut.min_size)
        .map(|inside| cut.field(&inside.root, String::new(), 0));
    (cut.field(&tree.root, String::new(), 0), inside.collect())
}

/// Returns the share of the whole, rounded to millionths.
#[allow(
    clippy::cast_precision_loss,
    reason = "rounded to millionths right after"
)]
pub(super) fn share(size: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => (size as f64 * 1e6 / whole as f64).round() / 1e6,
    }
}

/// The limits, and the total size to which their shares refer.
struct Cut {
    limits: TreeLimits,
    min_size: u64,
    whole: u64,
}

impl Cut {
    fn field(&self, node: &TreeNode, above: String, depth: usize) -> TreeField {
        let label = node.label();
        let path = match (above.as_str(), label.as_str()) {
            ("", label) => label.to_owned(),
            (above, label) => format!("{above}.{label}"),
        };
        let below = depth < self.limits.get_depth();
        let (members, other_members) = if below {
            self.members(node)
        } else {
            (Vec::new(), None)
        };
        let (fields, other_fields) = if below {
            self.fields(node, &path, depth + 1)
        } else {
            (Vec::new(), None)
        };
        TreeField {
            path,
            label,
            detail: None,
            type_name: node.type_name.clone(),
            guess: node.guessed.map(guess),
            count: node.count,
            size: node.size,
            own: node.own,
            share: share(node.size, self.whole),
            chunks: chunks(&node.chunks),
            more_chunks: node.chunks.more(),
            members,
            other_members,
            fields,
            other_fields,
        }
    }

    fn members(&self, node: &TreeNode) -> (Vec<TreeMember>, Option<TreeRest>) {
        let shown = |member: &&Member| member.size >= self.min_size;
        let mut members: Vec<&Member> = node.members.iter().filter(shown).collect();
        members.truncate(self.limits.get_top());
        if self.limits.get_order() == TreeOrder::Name {
            members.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let listed: u64 = members.iter().map(|member| member.size).sum();
        let rest = TreeRest {
            count: node.count.saturating_sub(members.len() as u64),
            size: node.size.saturating_sub(listed),
        };
        let rest = Some(rest).filter(|rest| rest.count > 0 && !members.is_empty());
        let listed = members.into_iter().map(|member| TreeMember {
            path: member.text.clone(),
            short: member.short.clone(),
            selector: selector(member),
            name: member.name.name.clone(),
            detail: member.name.detail.clone(),
            size: member.size,
            share: share(member.size, self.whole),
            chunks: chunks(&member.chunks),
            more_chunks: member.chunks.more(),
        });
        (listed.collect(), rest)
    }

    fn fields(
        &self,
        node: &TreeNode,
        path: &str,
        depth: usize,
    ) -> (Vec<TreeField>, Option<TreeRest>) {
        let shown = |child: &&TreeNode| child.size >= self.min_size;
        // The children are already sorted by size.
        let mut shown: Vec<&TreeNode> = node.children.iter().filter(shown).collect();
        if self.limits.get_order() == TreeOrder::Count {
            shown.sort_by_key(|child| std::cmp::Reverse(child.count));
        }
        shown.truncate(self.limits.get_top());
        if self.limits.get_order() == TreeOrder::Name {
            shown.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let sizes = |size: u64, child: &TreeNode| size.saturating_add(child.size);
        let all = node.children.iter().fold(0, sizes);
        let rest = TreeRest {
            count: (node.children.len() - shown.len()) as u64,
            size: all - shown.iter().copied().fold(0, sizes),
        };
        let rest = Some(rest).filter(|rest| rest.count > 0);
        let fields = shown
            .into_iter()
            .map(|child| self.field(child, path.to_owned(), depth))
            .collect();
        (fields, rest)
    }
}

fn selector(member: &Member) -> String {
    match member.path.steps().last().map(|step| &step.select) {
        Some(Select::Index(index)) => format!("[{index}]"),
        Some(Select::Key(key)) => format!("[{key}]"),
        _ => String::new(),
    }
}

fn chunks(set: &ChunkSet) -> Vec<u64> {
    set.indices().map(ChunkIndex::get).collect()
}

fn guess(guessed: Guessed) -> &'static str {
    match guessed {
        Guessed::Message => "message",
        Guessed::Text => "text",
        Guessed::Bytes => "bytes",
        Guessed::Number => "number",
    }
}
