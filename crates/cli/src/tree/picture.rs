//! A size tree as a static SVG picture.

use std::fmt::Write;

use proto_splitter::ops::{TreeField, TreeMember, TreeReport};

use super::page::escape;
use super::squarify::{Rect, squarify};
use super::text::percent;
use crate::display_name::shown;
use crate::size;

const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 860.0;
const MARGIN: f64 = 24.0;
/// Height of the space above the treemap, for the picture's title.
const HEAD: f64 = 78.0;
/// Height of the space below the treemap, for the picture's legend.
const FOOT: f64 = 52.0;
/// Height of a field's label, which is above the rectangles of the field's parts.
const LABEL: f64 = 18.0;
const PADDING: f64 = 2.0;
/// Minimum width and height of a rectangle. A smaller rectangle isn't drawn.
const LEAST_SIDE: f64 = 2.5;
const LEAST_FRAME: (f64, f64) = (28.0, 18.0);
/// Minimum area of the rectangle for a field's largest element or map entry. If the area is
/// smaller, no elements or entries of the field are drawn.
const LEAST_MEMBER: f64 = 700.0;
/// Approximate width of a character in a label.
const CHARACTER: f64 = 7.0;

const STYLE: &str = include_str!("assets/picture.css");

/// A part of a field for which a rectangle is drawn: a nested field, a member (element or map
/// entry), or several small parts together.
enum Part<'a> {
    Field(&'a TreeField),
    Member(&'a TreeMember),
    Rest(String, u64),
}

impl Part<'_> {
    fn size(&self) -> u64 {
        match self {
            Part::Field(field) => field.size,
            Part::Member(member) => member.size,
            Part::Rest(_, size) => *size,
        }
    }

    fn label(&self) -> String {
        match self {
            Part::Field(field) => field.label.clone(),
            Part::Rest(label, _) => label.clone(),
            Part::Member(member) => match (&member.name, &member.detail) {
                (Some(name), Some(detail)) => format!("{name} · {detail}"),
                (Some(text), None) | (None, Some(text)) => text.clone(),
                (None, None) => member.short.clone(),
            },
        }
    }

    fn told(&self, whole: u64) -> String {
        let (place, much) = match self {
            Part::Field(field) => (field.path.clone(), share(field.size, whole)),
            Part::Member(member) => (
                format!("{} {}", member.path, self.label()),
                share(member.size, whole),
            ),
            Part::Rest(label, size) => (label.clone(), share(*size, whole)),
        };
        format!("{place}: {} ({much})", size::show(self.size()))
    }

    fn class(&self) -> &'static str {
        match self {
            Part::Member(_) => "member",
            Part::Rest(..) => "rest",
            Part::Field(field) => kind(field),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn share(size: u64, whole: u64) -> String {
    percent(if whole == 0 {
        0.0
    } else {
        size as f64 / whole as f64
    })
}

/// Returns the CSS class for a kind of field, which determines the field's color. The HTML page has
/// the same colors.
fn kind(field: &TreeField) -> &'static str {
    if !field.fields.is_empty() || field.other_fields.is_some() {
        return "message";
    }
    match field
        .guess
        .or(field.type_name.as_deref())
        .unwrap_or_default()
    {
        "bytes" => "bytes",
        "string" | "text" => "text",
        "message" => "message",
        name if name.contains('.') || name.starts_with("map<") => "message",
        _ => "number",
    }
}

fn parts(field: &TreeField) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = field.fields.iter().map(Part::Field).collect();
    if let Some(rest) = field.other_fields {
        let plural = if rest.count == 1 { "" } else { "s" };
        let label = format!("[{} other field{plural}]", rest.count);
        parts.push(Part::Rest(label, rest.size));
    }
    if !parts.is_empty() && field.own > 0 {
        parts.push(Part::Rest("tags and lengths".into(), field.own));
    }
    if by_member(field) {
        parts = field.members.iter().map(Part::Member).collect();
        if let Some(rest) = field.other_members {
            let label = format!("[{} others]", rest.count);
            parts.push(Part::Rest(label, rest.size));
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.size()));
    parts
}

/// Returns true if a field's members (elements or map entries) are more informative than its nested
/// fields. This is the case if there are several members and no nested fields. It is also the case
/// if the members have names, and no large nested field has members with names.
fn by_member(field: &TreeField) -> bool {
    field.members.len() > 1
        && (field.fields.is_empty() || (is_named(field) && !has_named(field, field.size / 2)))
}

fn is_named(field: &TreeField) -> bool {
    field.members.iter().any(|member| member.name.is_some())
}

fn has_named(field: &TreeField, least: u64) -> bool {
    let mut large = field.fields.iter().filter(|below| below.size >= least);
    large.any(|below| (below.members.len() > 1 && is_named(below)) || has_named(below, least))
}

/// Returns a report as an SVG picture.
pub(super) fn svg(report: &TreeReport) -> String {
    let root = &report.tree;
    let map = Rect {
        x: MARGIN,
        y: HEAD,
        width: WIDTH - 2.0 * MARGIN,
        height: HEIGHT - HEAD - FOOT,
    };
    let message = report.message.as_deref().unwrap_or("message");
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">{file}: sizes by field</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"36\">{shown}</text>\n\
         <text class=\"about\" x=\"{MARGIN}\" y=\"60\">{about}</text>\n",
        file = escape(&shown(&report.file)),
        shown = escape(&fit(&shown(&report.file), 100)),
        about = escape(&fit(
            &[message, &root.path, &size::show(root.size)]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" · "),
            170
        )),
    );
    draw_parts(&mut out, root, map, 0, root.size);
    legend(&mut out);
    out.push_str("</svg>\n");
    out
}

fn draw_parts(out: &mut String, field: &TreeField, within: Rect, depth: usize, whole: u64) {
    let parts = parts(field);
    let sizes: Vec<u64> = parts.iter().map(Part::size).collect();
    for (part, rect) in parts.iter().zip(squarify(&sizes, within)) {
        if rect.width.min(rect.height) >= LEAST_SIDE {
            draw(out, part, rect, depth, whole);
        }
    }
}

fn draw(out: &mut String, part: &Part<'_>, rect: Rect, depth: usize, whole: u64) {
    let inner = match part {
        Part::Field(field) if !self::parts(field).is_empty() => rect
            .inset(PADDING, LABEL + 1.0)
            .filter(|inner| inner.width >= LEAST_FRAME.0 && inner.height >= LEAST_FRAME.1)
            .filter(|inner| !is_dust(field, inner))
            .map(|inner| (*field, inner)),
        _ => None,
    };
    let odd = if inner.is_some() && depth % 2 == 1 {
        " odd"
    } else {
        ""
    };
    // Writing to a string doesn't fail.
    let _ = write!(
        out,
        "<g><title>{}</title><rect class=\"{}{odd}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
        escape(&part.told(whole)),
        part.class(),
        rect.x,
        rect.y,
        rect.width,
        rect.height
    );
    label(out, part, rect, inner.is_some());
    out.push_str("</g>\n");
    if let Some((field, inner)) = inner {
        draw_parts(out, field, inner, depth + 1, whole);
    }
}

/// Returns true if all parts of a field are members whose rectangles are too small for their names.
fn is_dust(field: &TreeField, within: &Rect) -> bool {
    let largest = field.members.first().map_or(0, |member| member.size);
    #[allow(clippy::cast_precision_loss, reason = "to be drawn")]
    let area = within.area() * largest as f64 / field.size.max(1) as f64;
    by_member(field) && area < LEAST_MEMBER
}

/// Writes the label of a part and, if there is enough space, its size. If the part has further
/// parts (`is_frame`), the size is on the same line, and otherwise on the next line.
fn label(out: &mut String, part: &Part<'_>, rect: Rect, is_frame: bool) {
    if rect.height < LABEL - 3.0 || rect.width < 5.0 * CHARACTER {
        return;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of characters in a picture"
    )]
    let room = ((rect.width - 10.0) / CHARACTER) as usize;
    let much = size::show(part.size());
    let beside = is_frame && room > much.len() + 12;
    let name = fit(
        &part.label(),
        if beside { room - much.len() - 2 } else { room },
    );
    let (x, y) = (rect.x + 5.0, rect.y + 13.5);
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape(&name)
    );
    if beside {
        let end = rect.x + rect.width - 5.0;
        let _ = write!(
            out,
            "<text class=\"much end\" x=\"{end:.1}\" y=\"{y:.1}\">{much}</text>"
        );
    } else if !is_frame && rect.height > 2.0 * LABEL - 2.0 && room >= much.len() {
        let _ = write!(
            out,
            "<text class=\"much\" x=\"{x:.1}\" y=\"{:.1}\">{much}</text>",
            y + 15.0
        );
    }
}

fn legend(out: &mut String) {
    let y = HEIGHT - FOOT + 18.0;
    let mut x = MARGIN;
    for (class, label) in [
        ("bytes", "bytes"),
        ("text", "text"),
        ("number", "numbers"),
        ("message", "messages"),
        ("member", "members"),
        ("rest", "the rest"),
    ] {
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"13\" height=\"13\" rx=\"3\"/><text class=\"much\" x=\"{}\" y=\"{}\">{label}</text>",
            x + 19.0,
            y + 11.0
        );
        x += 105.0;
    }
    out.push('\n');
}

/// Truncates a string to `most` characters, the last of which is then an ellipsis.
fn fit(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}
