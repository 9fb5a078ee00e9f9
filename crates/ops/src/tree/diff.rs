//! Comparing the sizes of two messages, part by part.

use std::cmp::Reverse;
use std::path::PathBuf;

use proto_splitter_core::Result;
use proto_splitter_core::formats::Opened;
use proto_splitter_core::view::size_tree::{MemberChange, Sum, TreeChange, TreeDiff};

use super::{LeastSize, TreeLimits, TreeOptions, of_message};

/// Maximum number of list elements or map entries to compare for each field. Each of them takes a
/// few hundred bytes of memory.
const COMPARED: usize = 10_000;

/// The result of [`tree_diff`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TreeDiffReport {
    /// Path or URL of the old input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub old: PathBuf,
    /// Path or URL of the new input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub new: PathBuf,
    /// Size of the compared part in the old message, in bytes.
    pub old_size: u64,
    /// Size of the compared part in the new message, in bytes.
    pub new_size: u64,
    /// Changes in fields, and in single elements or map entries, the largest change first. A change
    /// in a nested field also counts in the changes of the enclosing messages.
    pub changes: Vec<SizeChange>,
    /// Number of changes that the limits exclude from `changes`.
    pub other_changes: u64,
    /// The same changes as in `changes`, each with its depth in the tree, in the order of the tree.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub lines: Vec<(usize, SizeChange)>,
}

/// A change in the size of a field, or of one element or entry of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SizeChange {
    /// Kind of change.
    pub what: WhatChanged,
    /// Path of the field, list element or map entry, from the root of the message.
    pub path: String,
    /// True for a change in one list element or map entry; false for the total change in all values
    /// at the path.
    pub member: bool,
    /// Name of the list element or map entry; `None` if there is none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// Description of the list element or map entry in addition to its name, such as the op of a
    /// node; `None` if there is none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub detail: Option<String>,
    /// Difference between the new and the old size, in bytes. Positive for growth.
    pub change: i64,
    /// Size in the old message, in bytes; `None` if the old message isn't known to contain the
    /// value.
    pub old_size: Option<u64>,
    /// Size in the new message, in bytes; `None` if the new message isn't known to contain the
    /// value.
    pub new_size: Option<u64>,
    /// Number of values that the field has in the old message; `None` for a list element, a map
    /// entry or an absent field.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub old_count: Option<u64>,
    /// Number of values that the field has in the new message; `None` for a list element, a map
    /// entry or an absent field.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub new_count: Option<u64>,
    /// Maximum size, in bytes, that the list element or map entry can have in the message in which
    /// it wasn't found. That message may contain it nevertheless, since only the largest elements
    /// and entries are compared. `None` if it was found in both messages, or is certainly in only
    /// one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub unseen_up_to: Option<u64>,
    /// Last step of the path.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub label: String,
}

/// The kind of a [`SizeChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum WhatChanged {
    /// The size increased.
    Grew,
    /// The size decreased.
    Shrank,
    /// The value exists only in the new message.
    Appeared,
    /// The value exists only in the old message.
    Went,
    /// The value has the same size, but parts of it changed in size.
    Changed,
}

/// Compares the sizes of two messages, or of the part of each that the options select. Reports the
/// parts that grew, shrank, appeared or disappeared.
///
/// If the old message's type is unknown, the new message's type is used for both, since field names
/// in one tree couldn't be compared with field numbers in the other.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{TreeOptions, WhatChanged, tree_diff};
///
/// let folder = tempfile::tempdir()?;
/// let open = |name: &str, bytes: &[u8]| -> Result<Opened, Box<dyn std::error::Error>> {
///     let path = folder.path().join(name);
///     std::fs::write(&path, bytes)?;
///     Ok(Opened::of_file(&path, None, &OpenOptions::new())?)
/// };
/// let (old, new) = (open("old.pb", b"\x08\x01")?, open("new.pb", b"\x08\x01\x12\x04more")?);
/// let report = tree_diff(&old, &new, &TreeOptions::new())?;
/// assert_eq!((report.old_size, report.new_size), (2, 8));
/// let (depth, change) = &report.lines[1];
/// assert_eq!((*depth, change.path.as_str(), change.what), (1, "2", WhatChanged::Appeared));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`MeasuredTree::of`](super::MeasuredTree::of), for either input;
/// [`ErrorKind::InvalidConfig`](proto_splitter_core::ErrorKind) if either input has no message.
pub fn tree_diff(old: &Opened, new: &Opened, options: &TreeOptions) -> Result<TreeDiffReport> {
    let all = TreeLimits::new()
        .top(COMPARED)
        .min_size(LeastSize::Bytes(0));
    let measuring = options.clone().limits(all).enter_members(false);
    let old_type = old.descriptor().or(new.descriptor());
    let (old_tree, _) = of_message(old, old_type, &measuring)?;
    let (new_tree, _) = of_message(new, new.descriptor(), &measuring)?;
    let mut report = TreeDiffReport {
        old: old.input().to_owned(),
        new: new.input().to_owned(),
        old_size: old_tree.root.size,
        new_size: new_tree.root.size,
        changes: Vec::new(),
        other_changes: 0,
        lines: Vec::new(),
    };
    let whole = report.old_size.max(report.new_size);
    let cut = Cut {
        depth: options.get_limits().get_depth(),
        top: options.get_limits().get_top(),
        min_size: options.get_limits().get_min_size().of(whole),
    };
    report.add(
        &TreeDiff::of(&old_tree, &new_tree).root,
        String::new(),
        0,
        &cut,
    );
    report.changes = report.lines.iter().map(|(_, row)| row.clone()).collect();
    report
        .changes
        .sort_by_key(|row| Reverse(row.change.unsigned_abs()));
    Ok(report)
}

/// The limits on the listed changes.
struct Cut {
    depth: usize,
    top: usize,
    /// Minimum change to list, in bytes.
    min_size: u64,
}

impl TreeDiffReport {
    fn add(&mut self, change: &TreeChange, above: String, depth: usize, cut: &Cut) {
        let path = match (above.as_str(), change.label.as_str()) {
            ("", label) => label.to_owned(),
            (above, label) => format!("{above}.{label}"),
        };
        self.lines
            .push((depth, SizeChange::of_field(change, &path)));
        if depth >= cut.depth {
            return;
        }
        let shown =
            |index: usize, change: i64| index < cut.top && change.unsigned_abs() >= cut.min_size;
        for (index, member) in change.members.iter().enumerate() {
            if shown(index, member.change()) {
                self.lines.push((depth + 1, SizeChange::of_member(member)));
            } else {
                self.other_changes += 1;
            }
        }
        for (index, child) in change.children.iter().enumerate() {
            if shown(index, child.change()) || holds(child, cut.min_size) {
                self.add(child, path.clone(), depth + 1, cut);
            } else {
                self.other_changes += 1;
            }
        }
    }
}

/// Returns true if a field, list element or map entry within `change` changed by at least `least`
/// bytes, even if the total size didn't change.
fn holds(change: &TreeChange, least: u64) -> bool {
    let large = |change: i64| change.unsigned_abs() >= least.max(1);
    change.members.iter().any(|member| large(member.change()))
        || change
            .children
            .iter()
            .any(|child| large(child.change()) || holds(child, least))
}

impl SizeChange {
    fn of_field(change: &TreeChange, path: &str) -> SizeChange {
        let size = |sum: Option<Sum>| sum.map(|sum| sum.size);
        let count = |sum: Option<Sum>| sum.map(|sum| sum.count);
        SizeChange {
            what: WhatChanged::of(size(change.old), size(change.new), None),
            path: path.to_owned(),
            member: false,
            name: None,
            detail: None,
            change: change.change(),
            old_size: size(change.old),
            new_size: size(change.new),
            old_count: count(change.old),
            new_count: count(change.new),
            unseen_up_to: None,
            label: change.label.clone(),
        }
    }

    fn of_member(member: &MemberChange) -> SizeChange {
        SizeChange {
            what: WhatChanged::of(member.old, member.new, member.unseen_up_to),
            path: member.text.clone(),
            member: true,
            name: member.name.name.clone(),
            detail: member.name.detail.clone(),
            change: member.change(),
            old_size: member.old,
            new_size: member.new,
            old_count: None,
            new_count: None,
            unseen_up_to: member.unseen_up_to,
            label: member.short.clone(),
        }
    }
}

impl WhatChanged {
    fn of(old: Option<u64>, new: Option<u64>, unseen: Option<u64>) -> WhatChanged {
        match (old.or(unseen), new.or(unseen)) {
            (None, _) => WhatChanged::Appeared,
            (_, None) => WhatChanged::Went,
            (Some(old), Some(new)) if new > old => WhatChanged::Grew,
            (Some(old), Some(new)) if new < old => WhatChanged::Shrank,
            _ => WhatChanged::Changed,
        }
    }
}
