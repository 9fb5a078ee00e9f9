//! Suggestions for names that weren't found.

use std::borrow::Cow;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use proto_splitter::path::PathQuery;
use proto_splitter::size_tree::TreePlace;

/// Maximum depth at which to search for a field that the user named without the path to it.
const DEEPEST: usize = 4;

/// Maximum number of message fields to visit in the search for a field that the user named without
/// the path to it.
const MOST_VISITED: usize = 2000;

/// Maximum length of a mistyped name, in bytes. For longer names, no similar name is suggested,
/// since the time for comparing two names is proportional to the product of their lengths.
const LONGEST: usize = 1000;

/// Returns the candidate that is most similar to a mistyped name, ignoring case and packages.
/// Returns `None` if no candidate is similar, or the name has more than [`LONGEST`] bytes.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.to_lowercase();
    let farthest = 1 + name.len() / 5;
    let distance = |candidate: &str| {
        let full = candidate.to_lowercase();
        let short = full.rsplit('.').next().unwrap_or(&full);
        [full.as_str(), short]
            .into_iter()
            // The distance between two names is at least the difference between their lengths.
            .filter(|other| {
                let lengths = [wanted.as_str(), *other].map(|name| name.chars().count());
                lengths[0].abs_diff(lengths[1]) <= farthest
            })
            .map(|other| strsim::osa_distance(&wanted, other))
            .min()
    };
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(candidate)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= farthest)
        .map(|(_, candidate)| candidate)
}

/// Returns a valid path that is similar to an invalid one. Names are corrected, and missing indices
/// are added. If a field was named without the path to it, the path is added. Returns `None` if
/// `typed` is already valid for the type, even if the message has no value there.
pub(crate) fn path(typed: &str, root: &MessageDescriptor) -> Option<String> {
    let is_sound = |path: &str| PathQuery::parse(path, Some(root)).is_ok();
    if is_sound(typed) {
        return None;
    }
    mended(typed, root).filter(|mended| is_sound(mended))
}

/// Returns a valid path in a size tree that is similar to the invalid path `typed`. In such paths,
/// `[*]` means all elements.
pub(crate) fn place(typed: &str, root: &MessageDescriptor) -> Option<String> {
    mended(typed, root).filter(|mended| TreePlace::parse(mended, Some(root)).is_ok())
}

fn mended(typed: &str, root: &MessageDescriptor) -> Option<String> {
    let steps = steps(typed)?;
    let mended = mend(&steps, root, String::new()).or_else(|| {
        let way = way_to(steps[0].0, root)?;
        mend(&steps, &way.1, way.0)
    })?;
    (mended != typed).then_some(mended)
}

/// Splits a path into its steps. Each step is a field name and the text in brackets that follows
/// the name, if any.
fn steps(typed: &str) -> Option<Vec<(&str, Option<&str>)>> {
    let (mut steps, mut rest) = (Vec::new(), typed);
    while !rest.is_empty() {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        let mut select = None;
        if let Some(inner) = rest.strip_prefix('[') {
            let end = match inner.chars().next() {
                Some(quote @ ('"' | '\'')) => closing_quote(&inner[1..], quote)? + 2,
                _ => value_end(inner)?,
            };
            select = Some(inner.get(..end)?);
            rest = inner.get(end..)?.strip_prefix(']')?;
        }
        steps.push((name, select));
        rest = match rest.strip_prefix('.') {
            Some(after) => after,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    (!steps.is_empty()).then_some(steps)
}

/// Returns the position in `inner` of the bracket that closes an index, a range or conditions. A
/// key in quotes is handled by the caller.
fn value_end(inner: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += inner[at..].find([']', '"', '\''])?;
        let found = inner[at..].chars().next()?;
        if found == ']' {
            return Some(at);
        }
        at += 2 + closing_quote(&inner[at + 1..], found)?;
    }
}

fn closing_quote(key: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    key.char_indices()
        .find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        })
        .map(|(at, _)| at)
}

/// Replaces the field name in each step with the most similar one, starting in `message`, and
/// returns the path. Returns `None` if no field has a similar name.
fn mend(
    steps: &[(&str, Option<&str>)],
    message: &MessageDescriptor,
    mut path: String,
) -> Option<String> {
    let mut message = Some(message.clone());
    for (at, (name, select)) in steps.iter().enumerate() {
        let here = message.take()?;
        let field = match name.parse() {
            Ok(number) => here.get_field(number),
            Err(_) => here.get_field_by_name(name),
        };
        let field = match field {
            Some(field) => field,
            None => {
                let fields: Vec<_> = here.fields().collect();
                let names = fields.iter().map(FieldDescriptor::name);
                let name = nearest(name, names)?.to_owned();
                here.get_field_by_name(&name)?
            }
        };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(field.name());
        let is_last = at + 1 == steps.len();
        match select {
            Some(select) if field.is_list() || field.is_map() => {
                let select = mend_select(select, &field)?;
                if needs_quotes(&field.kind(), &select) {
                    path.push_str(&format!("[\"{select}\"]"));
                } else {
                    path.push_str(&format!("[{select}]"));
                }
            }
            // The suggested path omits the index of a field that isn't repeated.
            Some(_) => {}
            None if field.is_list() && !is_last => path.push_str("[0]"),
            None if field.is_map() && !is_last => return None,
            None => {}
        }
        message = below(&field.kind(), field.is_map());
    }
    Some(path)
}

/// Corrects the path at the start of a condition in brackets, such as `name` in `[name="x"]`. Other
/// text in brackets is returned unchanged.
fn mend_select<'a>(select: &'a str, field: &FieldDescriptor) -> Option<Cow<'a, str>> {
    let operator = select.find(['=', '!', '<', '>', '~']);
    let parts = operator.map(|at| select.split_at(at));
    match (parts, below(&field.kind(), field.is_map())) {
        (Some((inner, value)), Some(message))
            if field.is_list() && !inner.starts_with(['"', '\'']) =>
        {
            let inner = mend(&steps(inner.trim())?, &message, String::new())?;
            Some(format!("{inner}{value}").into())
        }
        _ => Some(select.into()),
    }
}

/// Returns true if the field is a map with string keys, and the user typed the key without quotes.
fn needs_quotes(kind: &Kind, select: &str) -> bool {
    match kind {
        Kind::Message(entry) if entry.is_map_entry() => {
            entry.map_entry_key_field().kind() == Kind::String
                && !select.starts_with(['"', '\''])
                && select != "*"
        }
        _ => false,
    }
}

fn below(kind: &Kind, is_map: bool) -> Option<MessageDescriptor> {
    match kind {
        Kind::Message(entry) if is_map => match entry.map_entry_value_field().kind() {
            Kind::Message(message) => Some(message),
            _ => None,
        },
        Kind::Message(message) => Some(message.clone()),
        _ => None,
    }
}

/// Returns the shortest path from `root` to a message with a field of this name. Also returns the
/// message's type. Maps are skipped, since their keys are unknown.
fn way_to(name: &str, root: &MessageDescriptor) -> Option<(String, MessageDescriptor)> {
    let mut level = vec![(String::new(), root.clone())];
    let mut visited = 0;
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for (path, message) in level {
            for field in message.fields().filter(|field| !field.is_map()) {
                let Kind::Message(below) = field.kind() else {
                    continue;
                };
                visited += 1;
                if visited > MOST_VISITED {
                    return None;
                }
                let dot = if path.is_empty() { "" } else { "." };
                let index = if field.is_list() { "[0]" } else { "" };
                let way = format!("{path}{dot}{}{index}", field.name());
                if below.get_field_by_name(name).is_some() {
                    return Some((way, below));
                }
                next.push((way, below));
            }
        }
        level = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_path_is_answered_with_the_one_that_was_meant() {
        let root = crate::types::built_in("tensorflow.SavedModel").unwrap();
        for (typed, meant) in [
            ("meta_graph[0].graph_def", "meta_graphs[0].graph_def"),
            ("meta_graphs.graph_def", "meta_graphs[0].graph_def"),
            ("graph_def", "meta_graphs[0].graph_def"),
            (
                "graph_def.nodes[7].name",
                "meta_graphs[0].graph_def.node[7].name",
            ),
            (
                "meta_graphs[0].graph_def[0].node[1]",
                "meta_graphs[0].graph_def.node[1]",
            ),
            (
                "meta_graphs[0].signature_def[serving_default]",
                "meta_graphs[0].signature_def[\"serving_default\"]",
            ),
            ("Meta_Graphs[0]", "meta_graphs[0]"),
            (
                "meta_graph[0].signature_def['a.\"b']",
                "meta_graphs[0].signature_def['a.\"b']",
            ),
            (
                "meta_graphs[*].graph_def.node[-1].nam",
                "meta_graphs[*].graph_def.node[-1].name",
            ),
            (
                "graph_def.node[nam='a]b'].op",
                "meta_graphs[0].graph_def.node[name='a]b'].op",
            ),
            (
                "graph_def.nodes[nam~'a', op!='b'].op",
                "meta_graphs[0].graph_def.node[name~'a', op!='b'].op",
            ),
            (
                "meta_graphs[meta_info_def.tensorflow_versio=\"2\"]",
                "meta_graphs[meta_info_def.tensorflow_version=\"2\"]",
            ),
        ] {
            assert_eq!(path(typed, &root).as_deref(), Some(meant), "{typed}");
        }
    }

    #[test]
    fn what_is_near_to_nothing_is_not_guessed_at() {
        let root = crate::types::built_in("tensorflow.SavedModel").unwrap();
        for typed in ["", "xyzzy", "meta_graphs[0", "a[\"b]"] {
            assert_eq!(path(typed, &root), None, "{typed}");
        }
        // These paths are valid, although a suggestion would write them differently.
        for typed in ["2[0].2.1[3]", "metaGraphs[0]", "2[0].collection_def['a']"] {
            assert_eq!(path(typed, &root), None, "{typed}");
        }
        assert_eq!(nearest("onnx.ModelProto", ["tensorflow.GraphDef"]), None);
        // Without the limit on the length of names, comparing these would take minutes.
        let long = "n".repeat(200_000);
        assert_eq!(nearest(&long, [&long[1..]]), None);
        assert_eq!(nearest("n", [&long[..]]), None);
        assert_eq!(
            nearest("Graphdef", ["tensorflow.GraphDef", "tensorflow.OpDef"]),
            Some("tensorflow.GraphDef")
        );
    }
}
