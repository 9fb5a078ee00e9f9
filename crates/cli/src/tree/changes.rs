//! The changes between two messages.

use proto_splitter::size_tree::{MemberChange, Sum, TreeChange};
use serde::Serialize;

use super::shown::Limits;
use super::text::{called, thousands};
use crate::harmless::one_line;
use crate::size;
use crate::table::{Align, Table};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) old_size: u64,
    pub(super) new_size: u64,
    /// Fields by path and members by name, the largest change first, including enclosing messages.
    pub(super) changes: Vec<Row>,
    /// Number of smaller changes not listed.
    pub(super) other_changes: u64,
    #[serde(skip)]
    pub(super) lines: Vec<(usize, Row)>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: What,
    pub(super) path: String,
    /// True for one member, false for all values at the path.
    member: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    pub(super) change: i64,
    pub(super) old_size: Option<u64>,
    pub(super) new_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_count: Option<u64>,
    /// The member may exist in the other message with at most this many bytes, as only the largest members are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unseen_up_to: Option<u64>,
    #[serde(skip)]
    pub(super) label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    Grew,
    Shrank,
    Appeared,
    Went,
    /// Members changed, but their sum did not.
    Changed,
}

impl Report {
    pub(super) fn add(&mut self, change: &TreeChange, above: String, depth: usize, limits: Limits) {
        let path = match (above.as_str(), change.label.as_str()) {
            ("", label) => label.to_owned(),
            (above, label) => format!("{above}.{label}"),
        };
        self.lines.push((depth, Row::of_field(change, &path)));
        if depth >= limits.depth {
            return;
        }
        let shown = |index: usize, change: i64| {
            index < limits.top && change.unsigned_abs() >= limits.min_size
        };
        for (index, member) in change.members.iter().enumerate() {
            if shown(index, member.change()) {
                self.lines.push((depth + 1, Row::of_member(member)));
            } else {
                self.other_changes += 1;
            }
        }
        for (index, child) in change.children.iter().enumerate() {
            if shown(index, child.change()) || holds(child, limits.min_size) {
                self.add(child, path.clone(), depth + 1, limits);
            } else {
                self.other_changes += 1;
            }
        }
    }

    pub(super) fn text(&self, width: Option<usize>, full_paths: bool) -> String {
        let nothing = self.old_size == self.new_size && self.lines.len() <= 1;
        if nothing && self.other_changes == 0 {
            return format!("{}: no size differs\n", one_line(&self.new));
        }
        let mut table = Table::new([
            ("change", Align::Right),
            ("old", Align::Right),
            ("new", Align::Right),
            ("count", Align::Right),
            ("", Align::Left),
            ("path", Align::Left),
        ]);
        for (depth, row) in &self.lines {
            let shown = |size: Option<u64>| match (size, row.unseen_up_to) {
                (Some(bytes), _) => size::show(bytes),
                (None, Some(most)) => format!("<= {}", size::show(most)),
                (None, None) => "-".into(),
            };
            let root = if row.path.is_empty() {
                "message"
            } else {
                &row.label
            };
            let mut label = if full_paths && !row.path.is_empty() {
                one_line(&row.path)
            } else {
                format!("{}{}", "  ".repeat(*depth), one_line(root))
            };
            label.push_str(&called(row.name.as_deref(), row.detail.as_deref()));
            table.row([
                signed(row.change),
                shown(row.old_size),
                shown(row.new_size),
                row.counts(),
                row.what.text().into(),
                label,
            ]);
        }
        let mut text = table.render_within(width.filter(|_| !full_paths));
        if self.other_changes > 0 {
            let plural = if self.other_changes == 1 { "" } else { "s" };
            let others = thousands(self.other_changes);
            text.push_str(&format!("and {others} smaller change{plural}\n"));
        }
        text
    }
}

/// Returns true if the node contains a change this large, even if others compensate for it.
fn holds(change: &TreeChange, least: u64) -> bool {
    let large = |change: i64| change.unsigned_abs() >= least.max(1);
    change.members.iter().any(|member| large(member.change()))
        || change
            .children
            .iter()
            .any(|child| large(child.change()) || holds(child, least))
}

impl Row {
    fn of_field(change: &TreeChange, path: &str) -> Row {
        let size = |sum: Option<Sum>| sum.map(|sum| sum.size);
        let count = |sum: Option<Sum>| sum.map(|sum| sum.count);
        Row {
            what: What::of(size(change.old), size(change.new), None),
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

    fn of_member(member: &MemberChange) -> Row {
        Row {
            what: What::of(member.old, member.new, member.unseen_up_to),
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

    /// Returns the change in the number of values.
    pub(super) fn counts(&self) -> String {
        let (old, new) = (self.old_count.unwrap_or(0), self.new_count.unwrap_or(0));
        match new.cmp(&old) {
            std::cmp::Ordering::Equal => String::new(),
            std::cmp::Ordering::Greater => format!("+{}", thousands(new - old)),
            std::cmp::Ordering::Less => format!("-{}", thousands(old - new)),
        }
    }
}

impl What {
    fn of(old: Option<u64>, new: Option<u64>, unseen: Option<u64>) -> What {
        match (old.or(unseen), new.or(unseen)) {
            (None, _) => What::Appeared,
            (_, None) => What::Went,
            (Some(old), Some(new)) if new > old => What::Grew,
            (Some(old), Some(new)) if new < old => What::Shrank,
            _ => What::Changed,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            What::Grew => "grew",
            What::Shrank => "shrank",
            What::Appeared => "appeared",
            What::Went => "went",
            What::Changed => "changed",
        }
    }
}

pub(super) fn signed(change: i64) -> String {
    let bytes = size::show(change.unsigned_abs());
    match change {
        0 => bytes,
        1.. => format!("+{bytes}"),
        _ => format!("-{bytes}"),
    }
}
