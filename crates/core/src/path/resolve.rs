//! Paths against descriptors.

use prost_reflect::{Kind, MessageDescriptor};

use super::field_path::{FieldPath, Select, Step};
use super::field_ref::{FieldRef, key_fits};
use crate::{Error, ErrorKind, Result};

/// What a path leads to, according to a descriptor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Target {
    /// What stands there.
    pub kind: TargetKind,
    /// Whether it is a whole repeated or map field rather than one value.
    pub whole_field: bool,
}

/// The kind of value a path leads to.
#[derive(Clone, PartialEq)]
pub enum TargetKind {
    /// A message of this type, length-delimited.
    Message(MessageDescriptor),
    /// A message of this type, written as a group.
    Group(MessageDescriptor),
    /// A value that is no message.
    Scalar(Kind),
}

impl TargetKind {
    /// The type of the message, however it is written; `None` for a value that is no message.
    pub fn message(&self) -> Option<&MessageDescriptor> {
        match self {
            TargetKind::Message(message) | TargetKind::Group(message) => Some(message),
            TargetKind::Scalar(_) => None,
        }
    }
}

// By hand: the `Debug` of a descriptor doesn't end for a type that contains itself.
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
    /// What this path leads to in a message of the type `root`.
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
    /// [`ErrorKind::InvalidPath`] if it leads nowhere: no such field, an index or key that the
    /// field doesn't take or lacks.
    pub fn resolve(&self, root: &MessageDescriptor) -> Result<Target> {
        let mut target = Target {
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

fn resolve_step(target: &Target, step: &Step) -> Result<Target> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidPath, message));
    let Some(message) = target.kind.message() else {
        return invalid("the path goes on below a value that is no message".into());
    };
    if target.whole_field {
        return invalid(
            "the path goes on below a repeated or map field without an index or key".into(),
        );
    }
    let Some(field) = FieldRef::by_number(message, step.field.0) else {
        return invalid(format!(
            "field {} not found in {}",
            step.field,
            message.full_name()
        ));
    };
    let kind = match (&step.select, field.is_list(), field.is_map()) {
        (Select::Index(_), true, _) | (Select::Field, ..) => field.kind(),
        (Select::Key(key), _, true) => {
            let Kind::Message(entry) = field.kind() else {
                return invalid("a map without entries".into());
            };
            let expected = entry.map_entry_key_field().kind();
            if !key_fits(key, &expected) {
                return invalid(format!(
                    "the key {key} is not of the map's type, {expected:?}"
                ));
            }
            entry.map_entry_value_field().kind()
        }
        (Select::Index(_), ..) => {
            return invalid(format!(
                "an index on {}, which is not repeated",
                field.name()
            ));
        }
        (Select::Key(_), ..) => {
            return invalid(format!("a map key on {}, which is no map", field.name()));
        }
    };
    let whole_field = step.select == Select::Field && (field.is_list() || field.is_map());
    let kind = match kind {
        Kind::Message(message) if field.is_group() => TargetKind::Group(message),
        Kind::Message(message) => TargetKind::Message(message),
        kind => TargetKind::Scalar(kind),
    };
    Ok(Target { kind, whole_field })
}

/// Whether the value at a path that isn't there counts as 0 or empty.
pub(super) fn is_implicit(path: &FieldPath, root: &MessageDescriptor) -> bool {
    let mut above = path.clone();
    let Some(step) = above.pop() else {
        return false;
    };
    let message = above.resolve(root).ok();
    let message = message.as_ref().and_then(|target| target.kind.message());
    let field = message.and_then(|message| message.get_field(step.field.0));
    field.is_some_and(|field| step.select == Select::Field && !field.supports_presence())
}
