//! Resolving paths with descriptors.

use prost_reflect::{Kind, MessageDescriptor};

use super::expected::Expected;
use super::field_path::{FieldPath, Select, Step};
use super::field_ref::{FieldRef, key_fits};
use super::query::{PathQuery, Pick};
use crate::wire::{WireType, wire_type};
use crate::{Error, ErrorKind, Result};

/// The target of a path, according to a descriptor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathTarget {
    /// Kind of the value.
    pub kind: TargetKind,
    /// True for a whole repeated or map field, false for one value.
    pub whole_field: bool,
}

/// The kind of value at the end of a path.
#[derive(Clone, PartialEq)]
pub enum TargetKind {
    /// A message of this type, length-delimited.
    Message(MessageDescriptor),
    /// A message of this type, encoded as a group.
    Group(MessageDescriptor),
    /// A value that is not a message.
    Scalar(Kind),
}

impl TargetKind {
    /// Returns the type of the message, which may be length-delimited or a group; `None` for a
    /// value that is not a message.
    pub fn message(&self) -> Option<&MessageDescriptor> {
        match self {
            TargetKind::Message(message) | TargetKind::Group(message) => Some(message),
            TargetKind::Scalar(_) => None,
        }
    }

    /// Returns the wire type of the value.
    pub(crate) fn wire_type(&self) -> WireType {
        match self {
            TargetKind::Message(_) => WireType::Len,
            TargetKind::Group(_) => WireType::StartGroup,
            TargetKind::Scalar(kind) => wire_type(kind, false),
        }
    }

    /// Encodes the value that a string denotes, without tag and length: a number, `true` or
    /// `false`, the name or number of an enum value, or the string itself for strings and bytes.
    /// Returns `None` for a message, and for a string that is invalid for the kind.
    ///
    /// ```
    /// use prost_reflect::Kind;
    /// use proto_splitter_core::path::TargetKind;
    ///
    /// assert_eq!(TargetKind::Scalar(Kind::Int32).encode("300"), Some(vec![0xac, 0x02]));
    /// assert_eq!(TargetKind::Scalar(Kind::Bytes).encode("relu"), Some(b"relu".to_vec()));
    /// assert_eq!(TargetKind::Scalar(Kind::Bool).encode("5"), None);
    /// ```
    pub fn encode(&self, text: &str) -> Option<Vec<u8>> {
        let TargetKind::Scalar(kind) = self else {
            return None;
        };
        Some(Expected::parse(text, false, kind, false)?.into_wire(kind))
    }
}

// Implemented manually: a descriptor's `Debug` recurses endlessly for a type that contains itself.
impl std::fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TargetKind::Message(message) => f
                .debug_tuple("Message")
                .field(&message.full_name())
                .finish(),
            TargetKind::Group(message) => {
                f.debug_tuple("Group").field(&message.full_name()).finish()
            }
            TargetKind::Scalar(kind) => match kind {
                Kind::Enum(kind) => f.debug_tuple("Scalar").field(&kind.full_name()).finish(),
                kind => f.debug_tuple("Scalar").field(kind).finish(),
            },
        }
    }
}

impl FieldPath {
    /// Returns the target of this path in a message of type `root`.
    ///
    /// ```
    /// use prost_reflect::{Kind, ReflectMessage};
    /// use proto_splitter_core::path::{FieldPath, TargetKind};
    ///
    /// let root = prost_reflect::prost_types::FileDescriptorProto::default().descriptor();
    /// let names = FieldPath::parse("dependency", &root)?.resolve(&root)?;
    /// assert!(names.whole_field && matches!(names.kind, TargetKind::Scalar(Kind::String)));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the path is impossible: a field doesn't exist, or an index or
    /// key doesn't apply or is missing.
    pub fn resolve(&self, root: &MessageDescriptor) -> Result<PathTarget> {
        let mut target = PathTarget {
            kind: TargetKind::Message(root.clone()),
            whole_field: false,
        };
        for (at, step) in self.steps.iter().enumerate() {
            target = resolve_step(&target, step).map_err(|error| {
                let until: FieldPath = self.steps[..=at].iter().cloned().collect();
                error.at_path(until.display(Some(root)))
            })?;
        }
        Ok(target)
    }
}

fn resolve_step(target: &PathTarget, step: &Step) -> Result<PathTarget> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidPath, message));
    let Some(message) = target.kind.message() else {
        return invalid("the path continues below a value that is not a message".into());
    };
    if target.whole_field {
        return invalid(
            "the path continues below a repeated or map field without an index or key".into(),
        );
    }
    Ok(step_in(message, step)?.1)
}

/// Returns the field of a step in a message of this type, and the target of the step.
pub(crate) fn step_in(message: &MessageDescriptor, step: &Step) -> Result<(FieldRef, PathTarget)> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidPath, message));
    let Some(field) = FieldRef::by_number(message, step.field.0) else {
        let (number, name) = (step.field, message.full_name());
        return invalid(format!("field {number} not found in {name}"));
    };
    let name = field.name();
    let kind = match (&step.select, field.kind()) {
        (Select::Field, kind) => kind,
        (Select::Index(_), kind) if field.is_list() => kind,
        (Select::Key(key), Kind::Message(entry)) if field.is_map() => {
            let expected = entry.map_entry_key_field().kind();
            if !key_fits(key, &expected) {
                let message = format!("the key {key} is not of the map's type, {expected:?}");
                return invalid(message);
            }
            entry.map_entry_value_field().kind()
        }
        (Select::Index(_), _) if field.is_map() => {
            return invalid(format!("{name} is a map, but the path has an index for it"));
        }
        (Select::Index(_), _) => {
            return invalid(format!(
                "the path has an index for {name}, which is not repeated"
            ));
        }
        (Select::Key(_), _) => {
            return invalid(format!(
                "the path has a map key for {name}, which is not a map"
            ));
        }
    };
    let whole_field = step.select == Select::Field && (field.is_list() || field.is_map());
    let kind = match kind {
        Kind::Message(message) if field.is_group() => TargetKind::Group(message),
        Kind::Message(message) => TargetKind::Message(message),
        kind => TargetKind::Scalar(kind),
    };
    Ok((field, PathTarget { kind, whole_field }))
}

impl PathQuery {
    /// Returns the target of this query in a message of type `root`. If the query selects several
    /// values, this is the target for each of them.
    ///
    /// # Errors
    ///
    /// The same errors as [`FieldPath::resolve`].
    pub fn resolve(&self, root: &MessageDescriptor) -> Result<PathTarget> {
        let mut target = PathTarget {
            kind: TargetKind::Message(root.clone()),
            whole_field: false,
        };
        for query in self.steps() {
            // Any other query selects elements or map values: the whole field is resolved here, and
            // `picked` returns the target of one of them.
            let select = match &query.pick {
                Pick::One(select) => select.clone(),
                _ => Select::Field,
            };
            let step = Step {
                field: query.field,
                select,
            };
            let found = resolve_step(&target, &step);
            target = found.map_err(|error| error.at_path(self.as_str()))?;
            if !matches!(query.pick, Pick::One(_)) {
                target = picked(target);
            }
        }
        Ok(target)
    }
}

/// Returns the target of one element, or of one map entry's value, given the target of the whole
/// repeated or map field.
fn picked(target: PathTarget) -> PathTarget {
    let value = match target.kind.message() {
        Some(entry) if entry.is_map_entry() => Some(entry.map_entry_value_field().kind()),
        _ => None,
    };
    PathTarget {
        kind: match value {
            Some(Kind::Message(message)) => TargetKind::Message(message),
            Some(kind) => TargetKind::Scalar(kind),
            None => target.kind,
        },
        whole_field: false,
    }
}

/// Returns true if an absent value at a path counts as 0 or empty, since its field doesn't track
/// presence.
pub(crate) fn is_implicit(path: &FieldPath, root: &MessageDescriptor) -> bool {
    let mut above = path.clone();
    let Some(step) = above.pop() else {
        return false;
    };
    let message = above.resolve(root).ok();
    let message = message.as_ref().and_then(|target| target.kind.message());
    let field = message.and_then(|message| FieldRef::by_number(message, step.field.0));
    field.is_some_and(|field| step.select == Select::Field && !field.has_presence())
}
