//! Printing the size changes between two messages as a table.

use proto_splitter::ops::{SizeChange, TreeDiffReport, WhatChanged};

use super::text::{called, thousands};
use crate::display_name::shown;
use crate::sanitize::one_line;
use crate::size;
use crate::table::{Align, Table};

/// Formats size changes as a table.
pub(super) fn text(report: &TreeDiffReport, width: Option<usize>, full_paths: bool) -> String {
    let nothing = report.old_size == report.new_size && report.lines.len() <= 1;
    if nothing && report.other_changes == 0 {
        return format!("{}: no size differs\n", one_line(&shown(&report.new)));
    }
    let mut table = Table::new([
        ("change", Align::Right),
        ("old", Align::Right),
        ("new", Align::Right),
        ("count", Align::Right),
        ("", Align::Left),
        ("path", Align::Left),
    ]);
    for (depth, row) in &report.lines {
        let size = |size: Option<u64>| match (size, row.unseen_up_to) {
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
            size(row.old_size),
            size(row.new_size),
            counts(row),
            what(row.what).into(),
            label,
        ]);
    }
    let mut text = table.render_within(width.filter(|_| !full_paths));
    if report.other_changes > 0 {
        let plural = if report.other_changes == 1 { "" } else { "s" };
        let others = thousands(report.other_changes);
        text.push_str(&format!("and {others} smaller change{plural}\n"));
    }
    text
}

/// Returns the change in the number of values as text, such as `+2`; empty if there is none.
pub(super) fn counts(row: &SizeChange) -> String {
    let (old, new) = (row.old_count.unwrap_or(0), row.new_count.unwrap_or(0));
    match new.cmp(&old) {
        std::cmp::Ordering::Equal => String::new(),
        std::cmp::Ordering::Greater => format!("+{}", thousands(new - old)),
        std::cmp::Ordering::Less => format!("-{}", thousands(old - new)),
    }
}

/// Returns the word that describes a kind of change.
pub(super) fn what(what: WhatChanged) -> &'static str {
    match what {
        WhatChanged::Grew => "grew",
        WhatChanged::Shrank => "shrank",
        WhatChanged::Appeared => "appeared",
        WhatChanged::Went => "went",
        _ => "changed",
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
