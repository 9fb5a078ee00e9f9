//! Field paths: sequences of steps from a message to a value inside it.

use super::map_key::MapKey;
use crate::wire::FieldNumber;

/// A choice of the whole field, or of one of its values.
///
/// The order of selections is the order in which values are merged: whole fields, then indices,
/// then keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Select {
    /// The field itself.
    Field,
    /// The element of a repeated field at this index, counted from 0.
    Index(u64),
    /// The value of the map entry with this key.
    Key(MapKey),
}

/// One step of a path: a field, and the choice of the whole field or of one of the field's values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// Field number.
    pub field: FieldNumber,
    /// Choice of the whole field, or of one of the field's values.
    pub select: Select,
}

impl Step {
    /// Creates the step to a singular field.
    pub fn field(number: u32) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Field,
        }
    }

    /// Creates the step to an element of a repeated field.
    pub fn index(number: u32, index: u64) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Index(index),
        }
    }

    /// Creates the step to the value of a map entry.
    pub fn key(number: u32, key: MapKey) -> Step {
        Step {
            field: FieldNumber(number),
            select: Select::Key(key),
        }
    }
}

/// A place in a message: the sequence of steps from the root. The root itself is the empty path.
///
/// The order of paths is the order in which chunks are merged. Paths are compared step by step: by
/// field number, then by index or key. A path precedes every longer path that starts with it.
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
    /// Returns the empty path: the message itself.
    pub fn root() -> Self {
        FieldPath::default()
    }

    /// Returns the steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns true if the path is empty. The empty path denotes the message itself.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// Appends a step.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Removes and returns the last step; `None` if this is the root.
    pub fn pop(&mut self) -> Option<Step> {
        self.steps.pop()
    }

    /// Returns this path followed by a step.
    #[must_use]
    pub fn join(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.push(step);
        path
    }

    /// Returns this path followed by `other`.
    #[must_use]
    pub fn concat(&self, other: &FieldPath) -> Self {
        self.steps.iter().chain(&other.steps).cloned().collect()
    }

    /// Returns the remainder of this path after `prefix`; `None` if the path doesn't start with it.
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
