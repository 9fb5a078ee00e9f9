//! The report on a size tree, which lists only the parts within the limits.

use std::path::PathBuf;

use proto_splitter_core::ChunkIndex;
use proto_splitter_core::path::Select;
use proto_splitter_core::view::size_tree::{
    ChunkSet, Guessed, LargePart, Member, SizeTree, TreeNode,
};

use super::{TreeLimits, TreeOrder};

/// The result of [`tree`](super::tree()): the nodes of a size tree that are within the limits.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeReport {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Full name of the message's type or, for an archive, title of the archive's format; `None` if
    /// unknown.
    pub message: Option<String>,
    /// The three largest parts, which are also named in errors about exceeded limits; empty for an
    /// archive.
    pub largest: Vec<TreePart>,
    /// Root of the tree: the whole input, or the selected part.
    pub tree: TreeField,
    /// Trees of the largest list elements and map entries, each measured separately, if
    /// [requested](super::TreeOptions::enter_members).
    #[cfg_attr(feature = "serde", serde(skip))]
    pub inside: Vec<TreeField>,
}

/// One of the largest parts of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreePart {
    /// Path of one value, or of all values of a field, with a `[*]` for each repeated field.
    pub path: String,
    /// Name of the list element at the path; `None` if it has none.
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

/// The values at one path, and their total size.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeField {
    /// Path of the values, from the root of the message.
    pub path: String,
    /// Last step of the path.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub label: String,
    /// Description of an archive entry, such as its type and shape; `None` for other values.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub detail: Option<String>,
    /// Name of the values' type; `None` if unknown.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub type_name: Option<String>,
    /// Guessed kind of data, if the type is unknown: `message`, `text`, `bytes` or `number`;
    /// otherwise `None`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub guess: Option<&'static str>,
    /// Number of values at the path.
    pub count: u64,
    /// Total size of the values, in bytes.
    pub size: u64,
    /// Size of the values without their nested fields, in bytes.
    pub own: u64,
    /// Size of the values as a share of the size of this tree's root, from 0 to 1.
    pub share: f64,
    /// Indices of the chunks that contain the values; empty for a message in one piece.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub chunks: Vec<u64>,
    /// True if chunks that aren't listed in `chunks` also contain some of the values.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_false"))]
    pub more_chunks: bool,
    /// Listed elements of a repeated field, or entries of a map.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub members: Vec<TreeMember>,
    /// Number and size of the members that aren't listed; `None` if there are none, or if `members`
    /// is empty.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub other_members: Option<TreeRest>,
    /// Listed fields that are nested in the values.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub fields: Vec<TreeField>,
    /// Number and size of the nested fields that aren't listed; `None` if there are none, or at the
    /// maximum depth.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub other_fields: Option<TreeRest>,
}

/// An element of a repeated field, or an entry of a map.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeMember {
    /// Path of the member, from the root of the message.
    pub path: String,
    /// Last part of the path, which distinguishes the member from the other members.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub short: String,
    /// Index or key of the member, in brackets.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub selector: String,
    /// Name of the member; `None` if it has none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// Description of the member in addition to its name, such as the op of a node; `None` if there
    /// is none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub detail: Option<String>,
    /// Size of the member, in bytes.
    pub size: u64,
    /// Size of the member as a share of the size of this tree's root, from 0 to 1.
    pub share: f64,
    /// Indices of the chunks that contain the member; empty for a message in one piece.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub chunks: Vec<u64>,
    /// True if chunks that aren't listed in `chunks` also contain some of the member.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_false"))]
    pub more_chunks: bool,
}

#[cfg(feature = "serde")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The number and size of the parts that a list omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeRest {
    /// Number of omitted parts.
    pub count: u64,
    /// Total size of the omitted parts, in bytes.
    pub size: u64,
}

impl TreeReport {
    /// Returns true if the measured message is in chunks.
    pub fn is_chunked(&self) -> bool {
        !self.tree.chunks.is_empty()
    }
}

/// Returns the listed parts of a message's tree, and of the separate trees of list elements and map
/// entries.
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

/// Returns `size` as a share of `whole`, rounded to millionths; 0 if `whole` is 0.
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

/// The limits on the listed parts.
struct Cut {
    limits: TreeLimits,
    min_size: u64,
    /// Total size, in bytes, of which each share is a fraction.
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
        // The nested fields are already sorted by size.
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
