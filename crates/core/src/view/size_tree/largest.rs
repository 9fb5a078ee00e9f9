//! The largest parts of a message, for errors about exceeded limits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::measure::measure;
use super::node::{Member, SizeTree, TreeNode};
use super::options::TreeOptions;
use crate::error::{LargePart, NAMED};
use crate::path::FieldPath;
use crate::view::MessageView;
use crate::{Error, Result};

/// Maximum number of messages that a search traverses; traversing them takes a few seconds. The
/// fields of further messages aren't measured separately.
const MOST_ENTERED: u64 = 1 << 24;

/// Maximum number of a tree's largest members to inspect.
const MOST_MEMBERS: usize = 256;

/// Denominator of the minimum share of a field's size, 1/8, at which a member is named separately.
const TELLING_SHARE: u64 = 8;

/// Returns the three largest parts of the value at a path, the largest first, as
/// [`SizeTree::largest`] finds them.
///
/// The memory used doesn't depend on the message's size, and the number of messages traversed is
/// limited.
///
/// ```
/// use proto_splitter_core::ReadOptions;
/// use proto_splitter_core::path::FieldPath;
/// use proto_splitter_core::view::size_tree::largest;
/// use proto_splitter_core::view::MessageView;
///
/// // Field 3 is a message twice, with the strings "testing" and "it" in field 1.
/// let message = b"\x1a\x09\x0a\x07testing\x1a\x04\x0a\x02it".to_vec();
/// let view = MessageView::of_plain(&message, ReadOptions::new())?;
/// let parts = largest(&view, &FieldPath::root())?;
/// assert_eq!((parts[0].path.as_str(), parts[0].size), ("3[0]", 11));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// The errors of [`measure`].
pub fn largest(view: &MessageView<'_>, path: &FieldPath) -> Result<Vec<LargePart>> {
    let options = TreeOptions::new().most_entered(MOST_ENTERED);
    Ok(measure(view, path, &options)?.largest(NAMED))
}

/// If `error` was caused by the size of the value at a path, adds the value's largest parts to the
/// error. Returns the error unchanged if it has another cause or already names some parts, or if
/// the value can't be measured.
pub fn with_largest(error: Error, view: &MessageView<'_>, path: &FieldPath) -> Error {
    if !error.needs_largest() {
        return error;
    }
    match largest(view, path) {
        Ok(parts) => error.with_largest(parts),
        Err(_) => error,
    }
}

impl SizeTree {
    /// Returns the paths and sizes of the largest parts, the largest first and at most `most`;
    /// empty if no field or element is large enough to be named.
    ///
    /// A part is named as precisely as its size justifies: a message, field or member is replaced
    /// by the listed parts inside it if these make up at least half of its size. A field with many
    /// small members is one part, such as `packet[*]`. A tree lists only the [largest
    /// members](super::TreeOptions::top) of its fields.
    pub fn largest(&self, most: usize) -> Vec<LargePart> {
        let mut search = Search {
            members: self.large_members(),
            parts: Vec::new(),
            open: BinaryHeap::new(),
        };
        let (root, mut found) = (&self.root, Vec::new());
        let is_single = root.count == 1;
        search.push(root.size, root.name.clone(), Part::Field(root, is_single));
        while found.len() < most
            && let Some((size, Reverse(path), part)) = search.open.pop()
        {
            let part = search.parts[part];
            if !search.refine(part, &path) && path != root.name {
                let name = match part {
                    Part::Member(member) => member.name.name.clone(),
                    Part::Field(..) => None,
                };
                found.push(LargePart {
                    name,
                    ..LargePart::new(path, size)
                });
            }
        }
        found
    }

    /// Returns the largest members in the entire tree, the largest first.
    fn large_members(&self) -> Vec<&Member> {
        let (mut members, mut open) = (Vec::new(), vec![&self.root]);
        while let Some(node) = open.pop() {
            members.extend(&node.members);
            open.extend(&node.children);
        }
        members.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.text.cmp(&b.text)));
        members.truncate(MOST_MEMBERS);
        members
    }
}

/// A search for the largest parts of a tree.
struct Search<'a> {
    /// The largest members that the tree lists.
    members: Vec<&'a Member>,
    /// All parts found so far.
    parts: Vec<Part<'a>>,
    /// The parts to inspect: the size, the path, and the index in `parts`. The largest part comes
    /// first; among parts of the same size, the one whose path sorts first.
    open: BinaryHeap<(u64, Reverse<String>, usize)>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    /// All values of a field. The flag is true if no field along the path to this field is
    /// repeated.
    Field(&'a TreeNode, bool),
    Member(&'a Member),
}

impl<'a> Search<'a> {
    /// Replaces a part with the parts inside it. Returns false if the part itself should be named
    /// instead.
    fn refine(&mut self, part: Part<'a>, path: &str) -> bool {
        match part {
            Part::Field(node, is_single) => match node.members.as_slice() {
                [only] if node.count == 1 => {
                    if !self.enter(node, &only.text, is_single) {
                        self.push(only.size, only.text.clone(), Part::Member(only));
                    }
                    true
                }
                [first, ..] if first.size.saturating_mul(TELLING_SHARE) >= node.size => {
                    for member in &node.members {
                        self.push(member.size, member.text.clone(), Part::Member(member));
                    }
                    true
                }
                _ => self.enter(node, path, is_single && node.count == 1),
            },
            Part::Member(member) => self.inside(member),
        }
    }

    /// Adds the fields of a message to the parts to inspect, if these fields make up at least half
    /// of the message's size. If a node has several messages, a single field must make up at least
    /// half of their total size. Returns true if the fields were added.
    fn enter(&mut self, node: &'a TreeNode, path: &str, is_single: bool) -> bool {
        // Nodes without a path have labels in parentheses: a map's keys, and the fields beyond the
        // maximum.
        let children = node.children.iter();
        let named = children.filter(|child| !child.name.starts_with('('));
        let named: Vec<&TreeNode> = named.collect();
        let sizes = named.iter().map(|child| child.size);
        let known = if is_single {
            sizes.fold(0, u64::saturating_add)
        } else {
            sizes.max().unwrap_or(0)
        };
        if known == 0 || known.saturating_mul(2) < node.size {
            return false;
        }
        for child in named {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", child.label());
            self.push(child.size, path, Part::Field(child, is_single));
        }
        true
    }

    /// Adds the outermost listed members inside a member to the parts to inspect, if these members
    /// make up at least half of the member's size. Returns true if they were added.
    fn inside(&mut self, member: &Member) -> bool {
        let is_within = |inner: &Member, outer: &Member| {
            inner.path != outer.path && inner.path.strip_prefix(&outer.path).is_some()
        };
        let within: Vec<&'a Member> = self
            .members
            .iter()
            .copied()
            .filter(|other| is_within(other, member))
            .collect();
        let is_outermost = |inner: &&&Member| !within.iter().any(|outer| is_within(inner, outer));
        let outermost: Vec<&'a Member> = within.iter().filter(is_outermost).copied().collect();
        let sizes = outermost.iter().map(|member| member.size);
        let known = sizes.fold(0, u64::saturating_add);
        if known.saturating_mul(2) < member.size {
            return false;
        }
        for inner in outermost {
            self.push(inner.size, inner.text.clone(), Part::Member(inner));
        }
        true
    }

    fn push(&mut self, size: u64, path: String, part: Part<'a>) {
        self.open.push((size, Reverse(path), self.parts.len()));
        self.parts.push(part);
    }
}
