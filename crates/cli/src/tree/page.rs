//! A size tree as a self-contained HTML page.

use std::collections::BTreeMap;

use proto_splitter::ops::{LeastSize, TreeField, TreeLimits, TreeMember, TreeReport, TreeRest};
use serde::Serialize;

use super::text;
use crate::display_name::shown;
use crate::failure::Failure;

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// Maximum size of the data in a page, in bytes. If there is more data, only the sums of the
/// smallest nodes are included.
const MOST_DATA: usize = 4 << 20;

/// Maximum number of characters in a path, name or selector on a page.
const MOST_TEXT: usize = 200;

#[derive(Serialize)]
struct Data<'a> {
    file: &'a str,
    message: Option<&'a str>,
    chunked: bool,
    tree: Item,
    /// Trees of the elements and map entries that the page can zoom into, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    inside: BTreeMap<String, Item>,
}

/// A field in the page's data. JSON keys are single letters, since there may be many thousands of
/// fields.
#[derive(Serialize)]
struct Item {
    /// Label: the last step of the field's path or, for the root, its whole path.
    n: String,
    /// Type of the field, which may be a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    g: Option<&'static str>,
    s: u64,
    o: u64,
    c: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    k: String,
    /// Listed elements or map entries of the field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    m: Vec<Row>,
    /// Number and total size in bytes of the elements or map entries that aren't listed; `None` if
    /// there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    f: Vec<Item>,
    /// Number and total size in bytes of the nested fields that aren't listed; `None` if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<(u64, u64)>,
}

/// An element or map entry in the page's data: its selector, name, detail, size in bytes, chunks
/// and path.
type Row = (String, Option<String>, Option<String>, u64, String, String);

/// Returns a page for the largest report whose data has at most [`MOST_DATA`] bytes. `report`
/// creates the report for given limits.
pub(super) fn page(
    limits: TreeLimits,
    report: impl Fn(&TreeLimits) -> TreeReport,
) -> Result<String, Failure> {
    let (mut depth, mut top) = (limits.get_depth(), limits.get_top());
    let mut limits = limits;
    loop {
        let report = report(&limits);
        let data = data(&report)?;
        if data.len() <= MOST_DATA || (top <= 1 && depth <= 1) {
            return Ok(fill(&title(&report), &data));
        }
        let whole = report.tree.size;
        let least = limits.get_min_size().of(whole);
        // Each round must raise the minimum size, even for a small message.
        let least = least.max(whole >> 20).max(1).saturating_mul(4);
        // At first, only the minimum size is raised, since showing all members of one field is
        // better than showing small members of every field. After that, fewer members are shown,
        // too.
        if least >= whole >> 12 {
            top = (top / 2).max(1);
        }
        if top == 1 {
            depth = (depth / 2).clamp(1, 64);
        }
        limits = limits
            .min_size(LeastSize::Bytes(least))
            .top(top)
            .depth(depth);
    }
}

fn title(report: &TreeReport) -> String {
    format!("{}: sizes by field", shown(&report.file))
}

/// Returns the JSON data for the page's script. Any `<` is escaped, since it could end the `script`
/// element.
fn data(report: &TreeReport) -> Result<String, Failure> {
    let data = Data {
        file: &shown(&report.file),
        message: report.message.as_deref(),
        chunked: report.is_chunked(),
        tree: Item::of(&report.tree),
        inside: report.inside.iter().filter_map(inside).collect(),
    };
    let json = serde_json::to_string(&data).map_err(|error| Failure::bad(error.to_string()))?;
    Ok(json.replace('<', "\\u003c"))
}

/// Returns the path and the data of an element or map entry to zoom into; `None` if the path is too
/// long for the page.
fn inside(field: &TreeField) -> Option<(String, Item)> {
    let is_whole = field.path.chars().count() <= MOST_TEXT;
    is_whole.then(|| (field.path.clone(), Item::of(field)))
}

/// Returns the page's template with all placeholders replaced. Untrusted text is inserted last, so
/// that placeholders in it aren't replaced.
fn fill(title: &str, data: &str) -> String {
    let page = PAGE
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT);
    let (front, rest) = page.split_once("{{title}}").unwrap_or((&page, ""));
    let (middle, end) = rest.split_once("{{data}}").unwrap_or((rest, ""));
    [front, &escape(title), middle, data, end].concat()
}

/// Escapes text for elements and quoted attributes in XML and HTML. Characters that XML doesn't
/// allow are omitted.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

impl Item {
    fn of(field: &TreeField) -> Self {
        let rest = |rest: &Option<TreeRest>| rest.map(|rest| (rest.count, rest.size));
        Item {
            n: short(&field.label),
            t: field.type_name.clone(),
            g: field.guess,
            s: field.size,
            o: field.own,
            c: field.count,
            k: text::chunks(&field.chunks, field.more_chunks),
            m: field.members.iter().map(member).collect(),
            r: rest(&field.other_members),
            f: field.fields.iter().map(Item::of).collect(),
            x: rest(&field.other_fields),
        }
    }
}

fn member(member: &TreeMember) -> Row {
    (
        short(&member.short),
        member.name.as_deref().map(short),
        member.detail.as_deref().map(short),
        member.size,
        text::chunks(&member.chunks, member.more_chunks),
        short(&member.path),
    )
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proto_splitter::ops::{MeasuredTree, TreeOptions};
    use proto_splitter::{OpenOptions, Opened};

    use super::*;

    #[test]
    fn the_page_of_a_small_message_with_too_many_parts_lists_fewer_of_them() {
        // Strings of three letters in the fields 16 to 47: their rows are several times as large as
        // the strings.
        let mut message = Vec::new();
        for number in 16..48_u8 {
            let field = [(number << 3) | 0x82, number >> 4, 3, b'a', b'a', b'a'];
            message.extend(field.repeat(5_000));
        }
        assert!(message.len() < 1 << 20);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("message.pb");
        std::fs::write(&path, message).unwrap();
        let input = Opened::of_file(&path, None, &OpenOptions::new()).unwrap();
        let limits = TreeLimits::new().top(5_000).min_size(LeastSize::Bytes(0));
        let tree = MeasuredTree::of(&input, &TreeOptions::new().limits(limits)).unwrap();
        let rounds = Cell::new(0);
        let page = page(limits, |limits| {
            rounds.set(rounds.get() + 1);
            assert!(rounds.get() < 100, "no smaller report than {limits:?}");
            tree.report(limits)
        });
        assert!(rounds.get() > 1, "the first report is too large");
        assert!(page.unwrap().len() < 2 * MOST_DATA);
    }

    #[test]
    fn every_place_of_the_template_is_filled_in_and_no_text_from_outside_is_one() {
        let page = fill("a </title><b> {{data}} {{script}}", "{\"n\":\"{{title}}\"}");
        assert!(page.contains("<title>a &lt;/title&gt;&lt;b&gt; {{data}} {{script}}</title>"));
        assert!(page.contains(">{\"n\":\"{{title}}\"}</script>"));
        assert!(!page.contains("{{style}}"));
        assert_eq!(page.matches("use strict").count(), 1);
    }

    #[test]
    fn the_template_asks_for_nothing_from_elsewhere() {
        for (name, text) in [("html", PAGE), ("css", STYLE), ("js", SCRIPT)] {
            for outside in [
                "http:", "https:", "@import", "XMLHttp", "url(", "src=", "fetch(",
            ] {
                assert!(!text.contains(outside), "{outside} in {name}");
            }
        }
    }

    #[test]
    fn text_is_escaped_for_elements_and_attributes() {
        assert_eq!(
            escape("<a b=\"c\" d='e'>&\u{0}\u{1b}\u{ffff}é"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;é"
        );
    }
}
