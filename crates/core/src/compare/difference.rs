//! The results of a comparison.

use std::fmt;

use crate::path::{FieldPath, FieldRef};

/// The result of comparing two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The messages have the same bytes.
    Identical,
    /// The messages are equal, although their bytes differ.
    Equal,
    /// The messages differ. Contains the first differences, ordered by field number and index.
    Different(Vec<Difference>),
}

/// A place where two messages differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Path of the differing value in the first message, or in the second message if only the
    /// second has the value.
    pub path: FieldPath,
    /// Name of the list element at `path`; `None` if the value isn't a list element, or has no
    /// name.
    pub name: Option<String>,
    /// The kind of difference.
    pub how: DifferenceKind,
}

/// The kind of difference between two values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Only the first message has the value.
    OnlyInFirst,
    /// Only the second message has the value.
    OnlyInSecond,
    /// Numbers of elements of a repeated field in the first and in the second message. Differences
    /// between elements with the same index are reported separately.
    Counts(u64, u64),
    /// Indices of a list element in the first and in the second message. The element's position
    /// relative to the other elements that are in both messages differs.
    Moved(u64, u64),
    /// Values of a number or a short string in the first and in the second message, as text.
    Values(String, String),
    /// Different strings, bytes or unknown fields.
    Bytes {
        /// Size in the first message, in bytes.
        first: u64,
        /// Size in the second message, in bytes.
        second: u64,
        /// Offset of the first byte that differs, from the start of the compared bytes.
        at: u64,
    },
}

impl DifferenceKind {
    /// Returns a description of the difference, in which `first` and `second` are the names of the
    /// two messages.
    pub fn said<'a>(&'a self, first: &'a str, second: &'a str) -> impl fmt::Display + 'a {
        Description {
            how: self,
            first,
            second,
        }
    }
}

/// Returns true if the field has no presence, so that an absent field equals one with the default
/// value.
pub(super) fn is_implicit(field: &FieldRef) -> bool {
    !field.has_presence()
}

struct Description<'a> {
    how: &'a DifferenceKind,
    first: &'a str,
    second: &'a str,
}

impl fmt::Display for Description<'_> {
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
