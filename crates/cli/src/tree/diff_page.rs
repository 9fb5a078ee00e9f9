//! The size changes between two messages as a self-contained HTML page.

use proto_splitter::ops::{SizeChange, TreeDiffReport};

use super::changes::{counts, signed, what};
use super::page::escape;
use super::text::{called, thousands};
use crate::display_name::shown;
use crate::size;

const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; font-weight: 600; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid; }
th:last-child, td:last-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.bar { width: 10rem; }
.bar svg { display: block; width: 100%; height: 0.7rem; }
.more { fill: #c2410c; }
.less { fill: #15803d; }
tr:hover { background: #8882; }
";

/// Returns the HTML page that shows the size changes.
pub(super) fn page(report: &TreeDiffReport) -> String {
    let title = format!(
        "{}: what changed since {}",
        shown(&report.new),
        shown(&report.old)
    );
    let title = escape(&title);
    let sizes = format!(
        "{} became {}",
        size::show(report.old_size),
        size::show(report.new_size)
    );
    let largest = report
        .lines
        .iter()
        .map(|(_, row)| row.change.unsigned_abs());
    let largest = largest.max().unwrap_or(0).max(1);
    let rows = report
        .lines
        .iter()
        .map(|(depth, row)| line(*depth, row, largest));
    let rows: String = rows.collect();
    let others = match report.other_changes {
        0 => String::new(),
        1 => "<p>and 1 smaller change</p>\n".to_owned(),
        count => format!("<p>and {} smaller changes</p>\n", thousands(count)),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"protosplit\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p>{sizes}</p>\n<table>\n<thead><tr><th>change</th><th></th><th>old</th><th>new</th>\
         <th>count</th><th></th><th>path</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n\
         {others}</body>\n</html>\n"
    )
}

fn line(depth: usize, row: &SizeChange, largest: u64) -> String {
    let bytes = |bytes: Option<u64>| match (bytes, row.unseen_up_to) {
        (Some(bytes), _) => size::show(bytes),
        (None, Some(most)) => format!("\u{2264} {}", size::show(most)),
        (None, None) => "-".into(),
    };
    let root = match row.path.as_str() {
        "" => "message",
        _ => &row.label,
    };
    let called = called(row.name.as_deref(), row.detail.as_deref());
    let label = escape(&format!("{root}{called}"));
    let path = escape(&row.path);
    let indent = depth.saturating_mul(2);
    format!(
        "<tr><td>{}</td><td class=\"bar\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td style=\"padding-left:{indent}ch\" title=\"{path}\">{label}</td></tr>\n",
        signed(row.change),
        bar(row.change, largest),
        bytes(row.old_size),
        bytes(row.new_size),
        counts(row),
        what(row.what),
    )
}

/// Returns a bar that extends from the middle to the right if the size grew, and to the left if it
/// shrank.
fn bar(change: i64, largest: u64) -> String {
    let permille = u128::from(change.unsigned_abs()) * 500 / u128::from(largest);
    let (class, start) = match change {
        0.. => ("more", 500),
        _ => ("less", 500_u128.saturating_sub(permille)),
    };
    format!(
        "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"presentation\"><rect class=\"{class}\" x=\"{start}\" width=\"{permille}\" height=\"10\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere() {
        for outside in ["http:", "https:", "@import", "url(", "src="] {
            assert!(!STYLE.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_bar_begins_in_the_middle() {
        assert!(bar(5, 10).contains("class=\"more\" x=\"500\" width=\"250\""));
        assert!(bar(-10, 10).contains("class=\"less\" x=\"0\" width=\"500\""));
    }
}
