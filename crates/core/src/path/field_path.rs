//! A path: the row of steps to a place in a message.

use super::map_key::MapKey;
use crate::wire::FieldNumber;

/// What picks one value of a field that has several.
///
/// The order is that of merging: nothing, then indices, then keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Select {
    /// The field itself.
    Field,
    /// An element of a repeated field, counted from 0.
    Index(u64),
    /// The value of a map entry.
    Key(MapKey),
}

/// One step of a path: a field, and which of its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The field's number.
    pub field: FieldNumber,
    /// Which of the field's values.
    pub select: Select,
}

impl Step {
    /// A singular field.
    pub fn field(number: u32) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Field,
        }
    }

    /// An element of a repeated field.
    pub fn index(number: u32, index: u64) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Index(index),
        }
    }

    /// The value of a map entry.
    pub fn key(number: u32, key: MapKey) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Key(key),
        }
    }
}

/// A place in a message: the row of steps from the root to it. The root itself is the empty path.
///
/// Paths order as chunks are merged: by field number, index and key, shorter first.
///
/// ```
/// use proto_splitter_core::path::{FieldPath, MapKey, Step};
///
/// let path: FieldPath = r#"1[7].5["value"].8"#.parse()?;
/// assert_eq!(path.steps()[0], Step::index(1, 7));
/// assert_eq!(path.steps()[1], Step::key(5, MapKey::String("value".into())));
/// assert_eq!(path.to_string(), r#"1[7].5["value"].8"#);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    pub(super) steps: Vec<Step>,
}

impl FieldPath {
    /// The empty path: the message itself.
    pub fn root() -> Self {
        FieldPath::default()
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether this is the message itself.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// Goes one step further down.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Goes one step back up; `None` at the root.
    pub fn pop(&mut self) -> Option<Step> {
        self.steps.pop()
    }

    /// This path, one step further down.
    #[must_use]
    pub fn join(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.push(step);
        path
    }

    /// This path, and then all of `other`.
    #[must_use]
    pub fn concat(&self, other: &FieldPath) -> Self {
        self.steps.iter().chain(&other.steps).cloned().collect()
    }

    /// What is left of this path below `prefix`; `None` if it doesn't lie there.
    pub fn strip_prefix(&self, prefix: &FieldPath) -> Option<FieldPath> {
        let rest = self.steps.strip_prefix(prefix.steps.as_slice())?;
        Some(rest.iter().cloned().collect())
    }
}

impl FromIterator<Step> for FieldPath {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        FieldPath {
            steps: steps.into_iter().collect(),
        }
    }
}
