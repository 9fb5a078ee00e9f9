//! Paths against descriptors.

use std::fmt::Write;

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::{FieldPath, MapKey, Select, Step, parse};
use crate::wire::WireType;
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

/// A field or an extension: prost-reflect has two types for what a path treats alike.
#[derive(Clone, Debug)]
pub(crate) enum FieldRef {
    Field(FieldDescriptor),
    Extension(ExtensionDescriptor),
}

impl FieldRef {
    pub(crate) fn by_number(message: &MessageDescriptor, number: u32) -> Option<FieldRef> {
        message
            .get_field(number)
            .map(FieldRef::Field)
            .or_else(|| message.get_extension(number).map(FieldRef::Extension))
    }

    pub(crate) fn by_text(message: &MessageDescriptor, text: &str) -> Option<FieldRef> {
        field_by_text(message, text)
    }

    pub(crate) fn number(&self) -> u32 {
        match self {
            FieldRef::Field(field) => field.number(),
            FieldRef::Extension(field) => field.number(),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            FieldRef::Field(field) => field.name().to_owned(),
            FieldRef::Extension(field) => format!("({})", field.full_name()),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            FieldRef::Field(field) => field.kind(),
            FieldRef::Extension(field) => field.kind(),
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_list(),
            FieldRef::Extension(field) => field.is_list(),
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_map(),
            FieldRef::Extension(field) => field.is_map(),
        }
    }

    pub(crate) fn is_group(&self) -> bool {
        match self {
            FieldRef::Field(field) => field.is_group(),
            FieldRef::Extension(field) => field.is_group(),
        }
    }

    /// Whether a value of this field may be written so; repeated numbers may be packed or not.
    pub(crate) fn takes(&self, wire: WireType) -> bool {
        let single = match self.kind() {
            Kind::Message(_) if self.is_group() => WireType::StartGroup,
            Kind::Message(_) | Kind::String | Kind::Bytes => WireType::Len,
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::Fixed64,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::Fixed32,
            _ => WireType::Varint,
        };
        let packable = self.is_list() && single != WireType::StartGroup;
        wire == single || (packable && wire == WireType::Len)
    }

    /// The name and number of the oneof the field is in, if it is in one that it shares.
    pub(crate) fn oneof(&self) -> Option<prost_reflect::OneofDescriptor> {
        match self {
            FieldRef::Field(field) => field.containing_oneof(),
            FieldRef::Extension(_) => None,
        }
    }
}

pub(super) fn field_by_text(message: &MessageDescriptor, text: &str) -> Option<FieldRef> {
    if let Some(name) = text
        .strip_prefix('(')
        .and_then(|name| name.strip_suffix(')'))
    {
        return message
            .extensions()
            .find(|extension| extension.full_name() == name)
            .map(FieldRef::Extension);
    }
    match text.parse() {
        Ok(number) => FieldRef::by_number(message, number),
        Err(_) => message
            .get_field_by_name(text)
            .or_else(|| message.get_field_by_json_name(text))
            .map(FieldRef::Field),
    }
}

/// The message in which a path goes on below a value of this field.
pub(crate) fn message_below(field: &FieldRef) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => match entry.map_entry_value_field().kind() {
            Kind::Message(message) => Some(message),
            _ => None,
        },
        Kind::Message(message) => Some(message),
        _ => None,
    }
}

pub(super) fn key_kind(field: &FieldRef) -> Option<Kind> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => Some(entry.map_entry_key_field().kind()),
        _ => None,
    }
}

pub(crate) fn key_fits(key: &MapKey, kind: &Kind) -> bool {
    matches!(
        (key, kind),
        (MapKey::String(_), Kind::String)
            | (MapKey::Bool(_), Kind::Bool)
            | (MapKey::U32(_), Kind::Uint32 | Kind::Fixed32)
            | (MapKey::U64(_), Kind::Uint64 | Kind::Fixed64)
            | (MapKey::I32(_), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32)
            | (MapKey::I64(_), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64)
    )
}

pub(super) fn display(path: &FieldPath, root: Option<&MessageDescriptor>) -> String {
    let mut out = String::new();
    let mut message = root.cloned();
    for step in path.steps() {
        if !out.is_empty() {
            out.push('.');
        }
        let field = message
            .as_ref()
            .and_then(|message| FieldRef::by_number(message, step.field.0));
        match &field {
            Some(field) => out.push_str(&field.name()),
            None => out.push_str(&step.field.to_string()),
        }
        message = field.as_ref().and_then(message_below);
        match &step.select {
            Select::Field => {}
            Select::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
            Select::Key(MapKey::String(key)) => {
                out.push('[');
                let _ = parse::write_quoted(&mut out, key);
                out.push(']');
            }
            Select::Key(key) => {
                let _ = write!(out, "[{key}]");
            }
        }
    }
    out
}
