//! The levels of a query: the fields whose elements it iterates over.

use prost_reflect::{Kind, MessageDescriptor};

use super::field_ref::{FieldRef, key_kind, message_below};
use super::query::{PathQuery, Pick};
use super::resolve::TargetKind;
use crate::Result;

/// A field whose elements a [`PathQuery`] iterates over. Every `[*]` in a query makes one level,
/// and so does any other selection that depends on the message's content.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryLevel {
    /// Names of the fields from the root to this field, joined by dots, without bracketed
    /// selections.
    pub path: String,
    /// Kind of an element, or of a map entry's value.
    pub element: TargetKind,
    /// Kind of the map's keys; `None` if the field isn't a map.
    pub key: Option<Kind>,
    /// True if the query continues below the elements: to further levels, or to a value in each
    /// element.
    pub goes_on: bool,
}

impl PathQuery {
    /// Returns the fields whose elements this query iterates over in a message of type `root`,
    /// outermost first.
    ///
    /// ```
    /// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    /// use proto_splitter_core::path::PathQuery;
    ///
    /// let root = FileDescriptorProto::default().descriptor();
    /// let query = PathQuery::parse("message_type[*].field[*].name", Some(&root))?;
    /// let levels = query.levels(&root)?;
    /// let paths: Vec<_> = levels.iter().map(|level| level.path.as_str()).collect();
    /// assert_eq!(paths, ["message_type", "message_type.field"]);
    /// assert!(levels[1].goes_on);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the query can't match anything
    /// in such a message.
    pub fn levels(&self, root: &MessageDescriptor) -> Result<Vec<QueryLevel>> {
        let mut levels = Vec::new();
        let mut message = Some(root.clone());
        let mut path = String::new();
        for (at, step) in self.steps().iter().enumerate() {
            let Some(within) = message.take() else { break };
            let Some(field) = FieldRef::by_number(&within, step.field.0) else {
                break;
            };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&field.name());
            let below = message_below(&field);
            if !matches!(step.pick, Pick::One(_)) {
                let element = match (&below, field.kind()) {
                    (Some(message), _) if field.is_group() => TargetKind::Group(message.clone()),
                    (Some(message), _) => TargetKind::Message(message.clone()),
                    (None, Kind::Message(entry)) => {
                        TargetKind::Scalar(entry.map_entry_value_field().kind())
                    }
                    (None, kind) => TargetKind::Scalar(kind),
                };
                levels.push(QueryLevel {
                    path: path.clone(),
                    element,
                    key: key_kind(&field),
                    goes_on: at + 1 < self.steps().len(),
                });
            }
            message = below;
        }
        self.resolve(root)?;
        Ok(levels)
    }
}
