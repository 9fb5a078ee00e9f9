//! Comparing the trees of two messages.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::node::{Member, SizeTree, TreeNode};
use crate::view::MemberName;

/// Changes between two messages of one type, by field path: what grew, shrank, appeared or
/// disappeared.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeDiff {
    /// Change of the whole message.
    pub root: TreeChange,
}

/// The number of occurrences of a field, and their total size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sum {
    /// Number of occurrences.
    pub count: u64,
    /// Total size of the occurrences, in bytes.
    pub size: u64,
}

/// The change of the values at one field path, from an old to a new message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeChange {
    /// Last step of the path, in the form of [`TreeNode::label`].
    pub label: String,
    /// Number and size of the values in the old message; `None` if the field appeared.
    pub old: Option<Sum>,
    /// Number and size of the values in the new message; `None` if the field disappeared.
    pub new: Option<Sum>,
    /// Members known to have changed, the largest change first.
    pub members: Vec<MemberChange>,
    /// Changed fields of the values, the largest change first.
    pub children: Vec<TreeChange>,
}

/// The change of one member of a repeated field or map, from an old to a new message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberChange {
    /// Name of the member.
    pub name: MemberName,
    /// Path of the member in the new message, or in the old one if the member disappeared.
    pub text: String,
    /// Suffix of the path that distinguishes the member from others.
    pub short: String,
    /// Size in the old message, in bytes; `None` if the old tree doesn't list the member.
    pub old: Option<u64>,
    /// Size in the new message, in bytes; `None` if the new tree doesn't list the member.
    pub new: Option<u64>,
    /// Maximum size in bytes that the member can have in the message whose tree doesn't list it. A
    /// tree lists only the largest members. `None` if the member's size is known in both messages.
    pub unseen_up_to: Option<u64>,
}

impl TreeChange {
    /// Returns the growth from the old to the new message, in bytes. Negative if the values shrank.
    pub fn change(&self) -> i64 {
        change(self.old.map(|sum| sum.size), self.new.map(|sum| sum.size))
    }
}

impl MemberChange {
    /// Returns the growth from the old to the new message, in bytes. Negative if the member shrank.
    /// If the member may be too small for one of the trees to list it, returns the smallest
    /// possible change.
    pub fn change(&self) -> i64 {
        let unseen = self.unseen_up_to;
        change(self.old.or(unseen), self.new.or(unseen))
    }
}

fn change(old: Option<u64>, new: Option<u64>) -> i64 {
    let signed = |size: Option<u64>| i64::try_from(size.unwrap_or(0)).unwrap_or(i64::MAX);
    signed(new).saturating_sub(signed(old))
}

impl TreeDiff {
    /// Compares two trees.
    ///
    /// Members are matched by name, or by path if they have no name. Several members with the same
    /// name are matched in order. Only members that the trees keep can be compared, so keep more
    /// members than you display.
    ///
    /// ```
    /// use proto_splitter_core::view::MessageView;
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::path::FieldPath;
    /// use proto_splitter_core::view::size_tree::{TreeDiff, TreeOptions, measure};
    ///
    /// let tree = |message: &'static [u8]| {
    ///     let view = MessageView::of_plain(&message, ReadOptions::new())?;
    ///     measure(&view, &FieldPath::root(), &TreeOptions::new())
    /// };
    /// let diff = TreeDiff::of(&tree(b"\x08\x01")?, &tree(b"\x08\x01\x12\x04more")?);
    /// assert_eq!(diff.root.change(), 6);
    /// assert_eq!(diff.root.children[0].label, "2");
    /// assert_eq!(diff.root.children[0].old, None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    pub fn of(old: &SizeTree, new: &SizeTree) -> TreeDiff {
        TreeDiff {
            root: node(Some(&old.root), Some(&new.root), false),
        }
    }
}

/// Compares two nodes, of which at least one is present.
fn node(old: Option<&TreeNode>, new: Option<&TreeNode>, below_several: bool) -> TreeChange {
    let several = |node: Option<&TreeNode>| node.is_some_and(|node| node.count > 1);
    let any_several = below_several || several(old) || several(new);
    let mut children: Vec<TreeChange> = pairs(old, new)
        .into_iter()
        .map(|(old, new)| node(old, new, any_several))
        .filter(TreeChange::is_change)
        .collect();
    children.sort_by_key(|child| Reverse(child.change().unsigned_abs()));
    let sum = |node: &TreeNode| Sum {
        count: node.count,
        size: node.size,
    };
    TreeChange {
        label: new.or(old).map(TreeNode::label).unwrap_or_default(),
        old: old.map(sum),
        new: new.map(sum),
        members: members(old, new, below_several),
        children,
    }
}

impl TreeChange {
    fn is_change(&self) -> bool {
        self.old != self.new || !self.members.is_empty() || !self.children.is_empty()
    }
}

type Pair<'a> = (Option<&'a TreeNode>, Option<&'a TreeNode>);

fn pairs<'a>(old: Option<&'a TreeNode>, new: Option<&'a TreeNode>) -> Vec<Pair<'a>> {
    let children = |node: Option<&'a TreeNode>| node.map_or(&[][..], |node| &node.children);
    // Matched by name: the number of an unknown field can't equal the name of a known field.
    let mut olds: HashMap<&str, &TreeNode> = children(old)
        .iter()
        .map(|child| (child.name.as_str(), child))
        .collect();
    let mut pairs: Vec<Pair<'a>> = children(new)
        .iter()
        .map(|child| (olds.remove(child.name.as_str()), Some(child)))
        .collect();
    let gone = children(old)
        .iter()
        .filter(|child| olds.contains_key(child.name.as_str()));
    pairs.extend(gone.map(|child| (Some(child), None)));
    pairs
}

fn members(
    old: Option<&TreeNode>,
    new: Option<&TreeNode>,
    below_several: bool,
) -> Vec<MemberChange> {
    let (olds, news) = (keyed(old, below_several), keyed(new, below_several));
    let mut unmatched: HashMap<&Key<'_>, &Member> =
        olds.iter().map(|(key, member)| (key, *member)).collect();
    let mut changes = Vec::new();
    for (key, member) in &news {
        let before = unmatched.remove(key);
        changes.push(MemberChange {
            name: member.name.clone(),
            text: member.text.clone(),
            short: member.short.clone(),
            old: before.map(|before| before.size),
            new: Some(member.size),
            unseen_up_to: unseen(old).filter(|_| before.is_none()),
        });
    }
    for (key, member) in &olds {
        if unmatched.contains_key(key) {
            changes.push(MemberChange {
                name: member.name.clone(),
                text: member.text.clone(),
                short: member.short.clone(),
                old: Some(member.size),
                new: None,
                unseen_up_to: unseen(new),
            });
        }
    }
    // Removes members that may be unchanged, since one tree may lack them only because of their
    // size.
    changes.retain(
        |member| match (member.old, member.new, member.unseen_up_to) {
            (old, new, None) => old != new,
            (Some(size), None, Some(most)) | (None, Some(size), Some(most)) => size > most,
            _ => false,
        },
    );
    changes.sort_by_key(|member| Reverse(member.change().unsigned_abs()));
    changes
}

/// Returns the maximum size in bytes of a member that the node doesn't list; `None` if the node
/// lists all members.
fn unseen(node: Option<&TreeNode>) -> Option<u64> {
    let node = node?;
    let kept = node.members.len() as u64;
    let least = node.members.last().map(|member| member.size);
    (kept < node.count).then(|| least.unwrap_or(u64::MAX))
}

/// The identity of a member across two messages: its name or path, and its index among the members
/// with the same name or path.
type Key<'a> = (&'a str, usize);

fn keyed(node: Option<&TreeNode>, below_several: bool) -> Vec<(Key<'_>, &Member)> {
    let mut members: Vec<&Member> = node.map_or(Vec::new(), |node| node.members.iter().collect());
    // Sorted by position, since members with the same name are told apart by their order.
    members.sort_by(|a, b| a.path.cmp(&b.path));
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut keyed = Vec::with_capacity(members.len());
    for member in members {
        let key = match &member.name.name {
            Some(name) if !ends_with_key(member) => name.as_str(),
            // An index is meaningless once elements were inserted or removed before it.
            _ if below_several => continue,
            _ => member.text.as_str(),
        };
        let nth = seen.entry(key).or_insert(0);
        keyed.push(((key, *nth), member));
        *nth += 1;
    }
    keyed
}

fn ends_with_key(member: &Member) -> bool {
    let last = member.path.steps().last();
    last.is_some_and(|step| matches!(step.select, crate::path::Select::Key(_)))
}
