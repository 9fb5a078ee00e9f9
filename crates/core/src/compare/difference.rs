//! What a comparison finds.

use std::fmt;

use crate::path::{FieldPath, FieldRef};

/// How two messages compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Their bytes are the same.
    Identical,
    /// They are equal as messages; their bytes differ.
    Equal,
    /// They differ: here are the first differences, by field number and index.
    Different(Vec<Difference>),
}

/// A place where two messages differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The place in the first message; of what only the second has, in that.
    pub path: FieldPath,
    /// What the element is called, of a list whose elements have names.
    pub name: Option<String>,
    /// What is different.
    pub how: DifferenceKind,
}

/// What is different about two values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Only the first message has one.
    OnlyInFirst,
    /// Only the second message has one.
    OnlyInSecond,
    /// A repeated field, equal as far as both have it, has this many elements.
    Counts(u64, u64),
    /// An element has this index in the first and that in the second, where others that both have
    /// stand the other way round.
    Moved(u64, u64),
    /// Numbers or short strings, as text.
    Values(String, String),
    /// Strings, bytes, or what the type doesn't know.
    Bytes {
        /// Bytes of the first.
        first: u64,
        /// Bytes of the second.
        second: u64,
        /// The first that differs.
        at: u64,
    },
}

impl DifferenceKind {
    /// What is different, in words that call the two messages so.
    pub fn said<'a>(&'a self, first: &'a str, second: &'a str) -> impl fmt::Display + 'a {
        Said {
            how: self,
            first,
            second,
        }
    }
}

/// Whether a field that is absent says the same as one with its default.
pub(super) fn is_implicit(field: &FieldRef) -> bool {
    match field {
        FieldRef::Field(field) => !field.supports_presence(),
        FieldRef::Extension(field) => !field.supports_presence(),
    }
}

struct Said<'a> {
    how: &'a DifferenceKind,
    first: &'a str,
    second: &'a str,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (self.first, self.second);
        match self.how {
            DifferenceKind::OnlyInFirst => write!(f, "only in {a}"),
            DifferenceKind::OnlyInSecond => write!(f, "only in {b}"),
            DifferenceKind::Counts(x, y) => write!(f, "{x} elements in {a}, {y} in {b}"),
            DifferenceKind::Moved(x, y) => write!(f, "element {x} in {a}, {y} in {b}"),
            DifferenceKind::Values(x, y) => write!(f, "{x} in {a}, {y} in {b}"),
            DifferenceKind::Bytes { first, second, at } => write!(
                f,
                "{first} byte{} in {a}, {second} in {b}, different from byte {at} on",
                if *first == 1 { "" } else { "s" }
            ),
        }
    }
}
