//! The type of the message that represents a sequence, which has a repeated field for the elements.

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use proto_splitter_core::formats::OpenOptions;
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Full name of the type that represents a sequence by default. A caller can use another type with
/// a repeated field for the elements instead.
pub const SEQUENCE: &str = "proto_splitter.Sequence";

/// Name of the only field in a [`SEQUENCE`], which is repeated and contains the elements.
const FIELD: &str = "message";

/// Name of the setting that names the repeated field with the elements. The setting applies to
/// opening and to converting.
pub(crate) const SETTING: &str = "field";

/// Number of the only field in a [`SEQUENCE`].
const NUMBER: FieldNumber = FieldNumber(1);

/// Returns the type of a sequence with elements of the given type. Its full name is [`SEQUENCE`],
/// and its repeated field `message` contains the elements.
///
/// ```
/// use proto_splitter_sequences::sequence_of;
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// let root = sequence_of(&FileDescriptorProto::default().descriptor())?;
/// let field = root.get_field_by_name("message").unwrap();
/// assert!(field.is_list() && field.number() == 1);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the schema of the elements already defines another type with the
/// name [`SEQUENCE`].
pub fn sequence_of(element: &MessageDescriptor) -> Result<MessageDescriptor> {
    let mut pool = element.parent_pool().clone();
    let field = FieldDescriptorProto {
        name: Some(FIELD.to_owned()),
        number: Some(NUMBER.0.cast_signed()),
        label: Some(Label::Repeated.into()),
        r#type: Some(Type::Message.into()),
        type_name: Some(format!(".{}", element.full_name())),
        ..FieldDescriptorProto::default()
    };
    let (package, name) = SEQUENCE.split_once('.').unwrap_or_default();
    let file = FileDescriptorProto {
        name: Some("proto_splitter/sequence.proto".to_owned()),
        package: Some(package.to_owned()),
        dependency: vec![element.parent_file().name().to_owned()],
        message_type: vec![DescriptorProto {
            name: Some(name.to_owned()),
            field: vec![field],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    let failed = |why: String| {
        let message = format!(
            "{}: can't make a sequence of this type: {why}",
            element.full_name()
        );
        Error::new(ErrorKind::InvalidConfig, message)
    };
    pool.add_file_descriptor_proto(file)
        .map_err(|error| failed(error.to_string()))?;
    pool.get_message_by_name(SEQUENCE)
        .ok_or_else(|| failed("its schema is incomplete".to_owned()))
}

/// The type of the message that represents a sequence, and the number of the repeated field that
/// contains the elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    descriptor: Option<MessageDescriptor>,
    number: FieldNumber,
}

impl Root {
    /// Returns the root of a sequence with elements of unknown type. The elements are in field 1.
    pub fn untyped() -> Root {
        Root {
            descriptor: None,
            number: NUMBER,
        }
    }

    /// Finds a root by name. The name of a message type means a [sequence](sequence_of) with
    /// elements of this type. The name of a repeated field, such as `perfetto.protos.Trace.packet`,
    /// means the type that declares the field.
    ///
    /// ```
    /// use proto_splitter_sequences::Root;
    /// use prost_reflect::DescriptorPool;
    ///
    /// let pool = DescriptorPool::global();
    /// let log = Root::named(&pool, "google.protobuf.FileDescriptorProto")?;
    /// assert_eq!(log.descriptor().unwrap().full_name(), "proto_splitter.Sequence");
    /// let set = Root::named(&pool, "google.protobuf.FileDescriptorSet.file")?;
    /// assert_eq!(set.descriptor().unwrap().full_name(), "google.protobuf.FileDescriptorSet");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if `pool` has no type or field with this name, or the field
    /// isn't a repeated field of messages.
    pub fn named(pool: &DescriptorPool, name: &str) -> Result<Root> {
        Root::find(name, |name| pool.get_message_by_name(name))
    }

    /// Finds a root by name, as [`named`](Self::named) does. `known` looks up a message type by its
    /// full name.
    ///
    /// # Errors
    ///
    /// The errors of [`named`](Self::named).
    pub fn find(name: &str, known: impl Fn(&str) -> Option<MessageDescriptor>) -> Result<Root> {
        if let Some(element) = known(name) {
            return Root::of_elements(&element);
        }
        if let Some((parent, field)) = name.rsplit_once('.')
            && let Some(parent) = known(parent)
        {
            return Root::of_field(&parent, Some(field));
        }
        let message =
            format!("the schema has no type {name:?}, and no repeated field of that name");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// Returns `options` with this root added, for opening a file with a
    /// [`SequenceFormat`](crate::SequenceFormat).
    pub fn opening(&self, options: OpenOptions) -> OpenOptions {
        let options = options.descriptor(self.descriptor.clone());
        match self.field() {
            Some(field) => options.setting(SETTING, field.name()),
            None => options,
        }
    }

    /// Returns the root of a sequence with elements of the given type.
    ///
    /// # Errors
    ///
    /// The errors of [`sequence_of`].
    pub fn of_elements(element: &MessageDescriptor) -> Result<Root> {
        Root::of_field(&sequence_of(element)?, Some(FIELD))
    }

    /// Returns the root for a message type that contains the elements in the repeated field with
    /// the given name. If the name is `None`, the field is the type's only repeated field of
    /// messages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there is no such field or, without a name, there are
    /// several.
    pub fn of_field(descriptor: &MessageDescriptor, field: Option<&str>) -> Result<Root> {
        let field = repeated_field(descriptor, field)?;
        Ok(Root {
            descriptor: Some(descriptor.clone()),
            number: FieldNumber(field.number()),
        })
    }

    /// Returns the type of the message that represents the sequence; `None` if it is unknown.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.descriptor.as_ref()
    }

    /// Returns the repeated field that contains the elements; `None` if the root's type is unknown.
    pub fn field(&self) -> Option<FieldDescriptor> {
        self.descriptor.as_ref()?.get_field(self.number.0)
    }

    /// Returns the number of the repeated field that contains the elements.
    pub fn number(&self) -> FieldNumber {
        self.number
    }

    /// Returns the encoded tag that precedes each element in the message.
    pub(crate) fn tag(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, tag(self.number, WireType::Len));
        bytes
    }
}

/// Returns the field of a type with the given name or, without a name, the type's only repeated
/// field of messages.
pub(crate) fn repeated_field(
    descriptor: &MessageDescriptor,
    name: Option<&str>,
) -> Result<FieldDescriptor> {
    let is_sequence = |field: &FieldDescriptor| {
        field.is_list() && matches!(field.kind(), Kind::Message(_)) && !field.is_group()
    };
    let owner = descriptor.full_name();
    let wrong = |message: String| Error::new(ErrorKind::InvalidConfig, message);
    if let Some(name) = name {
        let known = descriptor.get_field_by_name(name);
        let field = known.ok_or_else(|| wrong(format!("{owner} has no field {name:?}")))?;
        return if is_sequence(&field) {
            Ok(field)
        } else {
            Err(wrong(format!("{owner}.{name} isn't a repeated message")))
        };
    }
    let fields: Vec<FieldDescriptor> = descriptor.fields().filter(is_sequence).collect();
    match &fields[..] {
        [only] => Ok(only.clone()),
        [] => Err(wrong(format!("{owner} has no repeated message"))),
        several => {
            let names: Vec<&str> = several.iter().map(FieldDescriptor::name).collect();
            let names = names.join(", ");
            Err(wrong(format!(
                "{owner} has several repeated messages: name one of {names}"
            )))
        }
    }
}
