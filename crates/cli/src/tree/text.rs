//! Printing a size tree as a table.

use proto_splitter::ops::{TreeField, TreeMember, TreeReport, TreeRest};

use crate::sanitize::one_line;
use crate::size;
use crate::table::{Align, Table};

/// A line of the table: the text of each column, and the share that the bar shows.
struct Line {
    cells: [String; 5],
    /// Share of the total size, which the bar shows; `None` for the line that sums up omitted
    /// parts.
    share: Option<f64>,
    label: String,
}

/// The style of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Maximum width of lines, in columns; `None` if unlimited.
    pub(super) width: Option<usize>,
    /// True to print the whole path on each line, even if it doesn't fit, instead of drawing a
    /// tree.
    pub(super) full_paths: bool,
    /// True to print a bar next to each share. Bars are meant for a terminal.
    pub(super) bars: bool,
    pub(super) color: bool,
}

/// Length of a full bar, in characters.
const BAR: usize = 10;

/// Characters for the end of a bar. The index is the number of eighths that are filled.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Formats a tree as a table.
pub(super) fn text(report: &TreeReport, look: Look) -> String {
    let mut lines = Vec::new();
    let root = &report.tree;
    let label = match (root.label.as_str(), &report.message) {
        ("", Some(message)) => message.as_str(),
        ("", None) => "message",
        (path, _) => path,
    };
    lines.push(Line {
        cells: cells(root),
        share: Some(root.share),
        label: one_line(label),
    });
    field_lines(root, "", look.full_paths, &mut lines);
    let mut table = Table::new([
        ("size", Align::Right),
        ("share", Align::Right),
        (BARS, Align::Left),
        ("own", Align::Right),
        ("count", Align::Right),
        ("chunk", Align::Left),
        ("path", Align::Left),
    ]);
    for Line {
        cells,
        share,
        label,
    } in lines
    {
        let [size, percent, own, count, chunk] = cells;
        let bar = share.map_or(String::new(), bar);
        table.row([size, percent, bar, own, count, chunk, label]);
    }
    if !look.bars {
        table.hide(BARS);
    }
    if !report.is_chunked() {
        table.hide("chunk");
    }
    let text = table.render_within(look.width.filter(|_| !look.full_paths));
    if look.color { colored(&text) } else { text }
}

/// Title of the column for bars.
const BARS: &str = "";

/// Returns a bar for a share, which is between 0 and 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is between 0 and 1"
)]
fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let last = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{last}", "█".repeat(eighths / 8))
}

/// Returns the table with escape sequences that make the header bold and color the bars.
fn colored(text: &str) -> String {
    let is_bar = |c: char| c == '█' || EIGHTHS.iter().any(|part| part.starts_with(c));
    let mut lines = text.lines();
    let mut out = match lines.next() {
        Some(header) => format!("\u{1b}[1m{header}\u{1b}[0m\n"),
        None => String::new(),
    };
    for line in lines {
        let bar = line.find(is_bar).map(|start| {
            let rest = &line[start..];
            let end = rest.find(|c| !is_bar(c)).unwrap_or(rest.len());
            (&line[..start], &rest[..end], &rest[end..])
        });
        match bar {
            Some((front, bar, rest)) => {
                out.push_str(&format!("{front}\u{1b}[36m{bar}\u{1b}[0m{rest}\n"));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn cells(field: &TreeField) -> [String; 5] {
    [
        size::show(field.size),
        percent(field.share),
        size::show(field.own),
        thousands(field.count),
        chunks(&field.chunks, field.more_chunks),
    ]
}

/// Formats the indices of chunks, such as `3`, `0, 3` or `0..7`. A long list is replaced by the
/// number of chunks. `more` is true if `listed` doesn't contain all chunks.
pub(super) fn chunks(listed: &[u64], more: bool) -> String {
    match (listed, more) {
        (_, true) => format!("{}+ chunks", listed.len()),
        ([], _) => String::new(),
        ([first, .., last], _) if listed.len() > 2 && last - first + 1 == listed.len() as u64 => {
            format!("{first}..{last}")
        }
        (few, _) if few.len() <= 3 => {
            let few: Vec<String> = few.iter().map(u64::to_string).collect();
            few.join(", ")
        }
        (several, _) => format!("{} chunks", several.len()),
    }
}

/// Appends the lines below a field: first its members (elements or map entries), then its nested
/// fields. The sizes of the members add up to the field's size, and so do the sizes of the nested
/// fields and the field's own bytes. To show that these are two separate sums, the lines of members
/// have a different style.
fn field_lines(field: &TreeField, indent: &str, full_paths: bool, lines: &mut Vec<Line>) {
    let members: &[TreeMember] = if only_member(field).is_some() {
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
    let front = |tip: &str| {
        if full_paths {
            String::new()
        } else {
            format!("{indent}{tip}")
        }
    };
    let of_member = |tip: &str| front(tip).replace("─ ", "╌ ");
    for member in members {
        let (tip, _) = branch();
        let mut line = member_line(member, &of_member(tip));
        if full_paths {
            line.label = one_line(&member.path);
        }
        lines.push(line);
    }
    if let Some(rest) = field.other_members {
        let (tip, _) = branch();
        lines.push(rest_line(rest, &of_member(tip), "other"));
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
        if full_paths {
            label = one_line(&child.path);
        }
        lines.push(Line {
            cells: cells(child),
            share: Some(child.share),
            label: format!("{}{label}", front(tip)),
        });
        field_lines(child, &format!("{indent}{deeper}"), full_paths, lines);
    }
    if let Some(rest) = field.other_fields {
        let (tip, _) = branch();
        lines.push(rest_line(rest, &front(tip), "other field"));
    }
}

/// Returns the only member (element or map entry) of a field with one value; `None` for other
/// fields. The member is printed on the field's line.
fn only_member(field: &TreeField) -> Option<&TreeMember> {
    match field.members.as_slice() {
        [only] if field.count == 1 => Some(only),
        _ => None,
    }
}

fn only_label(member: &TreeMember) -> String {
    let called = called(member.name.as_deref(), member.detail.as_deref());
    one_line(&member.selector) + &called
}

fn member_line(member: &TreeMember, tip: &str) -> Line {
    let mut label = format!("{tip}{}", one_line(&member.short));
    let called = called(member.name.as_deref(), member.detail.as_deref());
    label.push_str(&called);
    Line {
        cells: [
            size::show(member.size),
            percent(member.share),
            String::new(),
            String::new(),
            chunks(&member.chunks, member.more_chunks),
        ],
        share: Some(member.share),
        label,
    }
}

fn rest_line(rest: TreeRest, tip: &str, what: &str) -> Line {
    let plural = if rest.count == 1 { "" } else { "s" };
    Line {
        cells: [
            size::show(rest.size),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ],
        share: None,
        label: format!("{tip}[{} {what}{plural}]", thousands(rest.count)),
    }
}

/// Returns the text that is printed after a member's selector: the member's name and detail.
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

/// Formats a number with a comma between groups of three digits.
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
    fn a_bar_is_as_long_as_its_share() {
        for (share, expected) in [
            (0.0, ""),
            (0.001, ""),
            (0.0125, "▏"),
            (0.5, "█████"),
            (0.55, "█████▌"),
            (1.0, "██████████"),
        ] {
            assert_eq!(bar(share), expected, "{share}");
        }
    }

    #[test]
    fn only_the_header_and_the_bars_are_colored() {
        let text = colored("share\n  50%  ██▌  a █\n   0%  b\n");
        let expected = "\u{1b}[1mshare\u{1b}[0m\n  50%  \u{1b}[36m██▌\u{1b}[0m  a █\n   0%  b\n";
        assert_eq!(text, expected);
    }

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
