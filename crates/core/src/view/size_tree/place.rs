//! Parsing the path of a part of a tree.

use prost_reflect::MessageDescriptor;

use super::node::SizeTree;
use crate::path::FieldPath;
use crate::{Error, ErrorKind, Result};

/// The part of a message that a tree shows: one value, or the sum of all values of a field that is
/// inside a repeated field.
///
/// ```
/// use proto_splitter_core::view::size_tree::TreePlace;
///
/// let place = TreePlace::parse("2[0].2.1[*].5", None)?;
/// assert_eq!(place.path.to_string(), "2[0].2");
/// assert_eq!(place.below, ["1", "5"]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreePlace {
    /// Path of the value to measure.
    pub path: FieldPath,
    /// Names of the fields that lead from the value at `path` to the field to sum up; empty to show
    /// the value itself.
    pub below: Vec<String>,
}

impl TreePlace {
    /// Parses a path in the form in which a tree displays it: `[*]` follows a field whose values
    /// are summed up. A path without `[*]` leads to one value, or to a whole repeated field.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the text is not a path, the type has no such path, or an index
    /// or key follows a `[*]`.
    pub fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<TreePlace> {
        let steps = steps(text);
        let summed = steps.iter().position(|step| step.ends_with("[*]"));
        let (front, rest) = steps.split_at(summed.unwrap_or(steps.len()));
        let mut path = parse_path(&front.join("."), root)?;
        let mut below: Vec<String> = Vec::new();
        if let Some(root) = root
            && !path.is_root()
            && rest.is_empty()
            && path.resolve(root)?.whole_field
        {
            path.pop();
            below.push(steps[steps.len() - 1].to_owned());
        }
        for step in rest {
            let name = step.strip_suffix("[*]").unwrap_or(step);
            if name.contains('[') {
                let message = format!("{step} is one value, but comes after a [*]");
                return Err(Error::new(ErrorKind::InvalidPath, message).at_path(text));
            }
            below.push(name.to_owned());
        }
        Ok(TreePlace { path, below })
    }
}

fn parse_path(text: &str, root: Option<&MessageDescriptor>) -> Result<FieldPath> {
    match root {
        Some(root) => FieldPath::parse(text, root),
        None => text.parse(),
    }
}

/// Splits a path into steps at its dots, except dots in keys and in names of extensions.
fn steps(text: &str) -> Vec<&str> {
    let (mut steps, mut start) = (Vec::new(), 0);
    let (mut quote, mut escaped, mut open) = (None, false, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote.is_some() => escaped = true,
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' if open > 0 => quote = Some(c),
            '(' | '[' => open += 1,
            ')' | ']' => open = open.saturating_sub(1),
            '.' if open == 0 => {
                steps.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() || !steps.is_empty() {
        steps.push(&text[start..]);
    }
    steps
}

impl SizeTree {
    /// Returns the subtree at these field names, which lead down from the root.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if a message has no field with such a name. The error lists the
    /// message's fields.
    pub fn focus(mut self, below: &[String]) -> Result<SizeTree> {
        for name in below {
            let path = match self.root.name.as_str() {
                "" => String::new(),
                path => format!("{path}."),
            };
            let known = self.root.children.iter().map(|child| child.name.as_str());
            let known: Vec<&str> = known.take(10).collect();
            let known = known.join(", ");
            let field = self
                .root
                .children
                .into_iter()
                .find(|child| child.name == *name);
            let Some(field) = field else {
                let message = format!("the message has no {name} there; it has {known}");
                return Err(Error::new(ErrorKind::InvalidPath, message).at_path(path + name));
            };
            let label = field.label();
            self.root = field;
            self.root.name = path + &label;
            self.root.repeated = false;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_keys_and_extensions_part_no_steps() {
        for (text, expected) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a[*].b", vec!["a[*]", "b"]),
            (r#"a["x.\"y]."].b"#, vec![r#"a["x.\"y]."]"#, "b"]),
            (r#"a['x"y'].b.c"#, vec![r#"a['x"y']"#, "b", "c"]),
            ("(pkg.ext).b", vec!["(pkg.ext)", "b"]),
            ("a.", vec!["a", ""]),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
    }

    #[test]
    fn one_value_behind_a_sum_is_refused() {
        let error = TreePlace::parse("1[*].2[3]", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1[*].2[3]: 2[3] is one value, but comes after a [*]"
        );
    }
}
