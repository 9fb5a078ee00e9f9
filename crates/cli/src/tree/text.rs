//! The tree as a table.

use super::shown::{Field, Listed, Report, Rest};
use crate::output::one_line;
use crate::size;
use crate::table::{Align, Table};

/// A line: what stands in its columns, and how deep it is.
struct Line {
    cells: [String; 5],
    label: String,
}

impl Report {
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let mut lines = Vec::new();
        let root = &self.tree;
        let label = match (root.label.as_str(), &self.message) {
            ("", Some(message)) => message.as_str(),
            ("", None) => "message",
            (path, _) => path,
        };
        lines.push(Line {
            cells: cells(root),
            label: one_line(label),
        });
        field_lines(root, "", &mut lines);
        if self.is_chunked() {
            let mut table = Table::new([
                ("size", Align::Right),
                ("share", Align::Right),
                ("own", Align::Right),
                ("count", Align::Right),
                ("chunk", Align::Left),
                ("path", Align::Left),
            ]);
            for Line { cells, label } in lines {
                let [size, share, own, count, chunk] = cells;
                table.row([size, share, own, count, chunk, label]);
            }
            return table.render_within(width);
        }
        let mut table = Table::new([
            ("size", Align::Right),
            ("share", Align::Right),
            ("own", Align::Right),
            ("count", Align::Right),
            ("path", Align::Left),
        ]);
        for Line { cells, label } in lines {
            let [size, share, own, count, _] = cells;
            table.row([size, share, own, count, label]);
        }
        table.render_within(width)
    }
}

fn cells(field: &Field) -> [String; 5] {
    [
        size::show(field.size),
        percent(field.share),
        size::show(field.own),
        thousands(field.count),
        field.chunks.text(),
    ]
}

/// What hangs below a field: its members, then its fields.
fn field_lines(field: &Field, indent: &str, lines: &mut Vec<Line>) {
    let members: &[Listed] = if only_member(field).is_some() {
        &[]
    } else {
        &field.members
    };
    let below = members.len()
        + usize::from(field.other_members.is_some())
        + field.fields.len()
        + usize::from(field.other_fields.is_some());
    let mut left = below;
    let mut branch = || {
        left -= 1;
        match left {
            0 => ("└─ ", "   "),
            _ => ("├─ ", "│  "),
        }
    };
    for member in members {
        let (tip, _) = branch();
        lines.push(member_line(member, &format!("{indent}{tip}")));
    }
    if let Some(rest) = field.other_members {
        let (tip, _) = branch();
        lines.push(rest_line(rest, &format!("{indent}{tip}"), "other"));
    }
    for child in &field.fields {
        let (tip, deeper) = branch();
        let mut label = one_line(&child.label);
        if let Some(guess) = child.guess {
            label.push_str(&format!(" ({guess}?)"));
        }
        label.push_str(&called(None, child.detail.as_deref()));
        if let Some(only) = only_member(child) {
            label.push_str("  ");
            label.push_str(&only_label(only));
        }
        lines.push(Line {
            cells: cells(child),
            label: format!("{indent}{tip}{label}"),
        });
        field_lines(child, &format!("{indent}{deeper}"), lines);
    }
    if let Some(rest) = field.other_fields {
        let (tip, _) = branch();
        lines.push(rest_line(rest, &format!("{indent}{tip}"), "other field"));
    }
}

/// The member of a field that has one only, and so no line to itself.
fn only_member(field: &Field) -> Option<&Listed> {
    match field.members.as_slice() {
        [only] if field.count == 1 => Some(only),
        _ => None,
    }
}

fn only_label(member: &Listed) -> String {
    let called = called(member.name.as_deref(), member.detail.as_deref());
    one_line(&member.selector) + &called
}

fn member_line(member: &Listed, tip: &str) -> Line {
    let mut label = format!("{tip}{}", one_line(&member.short));
    let called = called(member.name.as_deref(), member.detail.as_deref());
    label.push_str(&called);
    Line {
        cells: [
            size::show(member.size),
            percent(member.share),
            String::new(),
            String::new(),
            member.chunks.text(),
        ],
        label,
    }
}

fn rest_line(rest: Rest, tip: &str, what: &str) -> Line {
    let plural = if rest.count == 1 { "" } else { "s" };
    Line {
        cells: [
            size::show(rest.size),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ],
        label: format!("{tip}[{} {what}{plural}]", thousands(rest.count)),
    }
}

/// What a member is called, to be put behind its place.
pub(super) fn called(name: Option<&str>, detail: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(name) = name {
        text.push_str("  ");
        text.push_str(&one_line(name));
    }
    if let Some(detail) = detail {
        text.push_str("  (");
        text.push_str(&one_line(detail));
        text.push(')');
    }
    text
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A number with commas between its thousands.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }
}
