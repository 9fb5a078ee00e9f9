//! Features of editions that prost-reflect doesn't know.
//!
//! A schema with an edition is translated to proto2, in which these features can't be expressed.
//! Their values are stored in the options of the fields and enums that they apply to, in fields that
//! protobuf's libraries don't know.

use prost::bytes::Buf;
use prost::encoding::uint32;
use prost::{DecodeError, Message};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage, Syntax, Value,
};

/// A feature whose value is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feature {
    /// `enum_type`, in the options of an enum.
    EnumType,
    /// `field_presence`, in the options of a field.
    FieldPresence,
    /// `utf8_validation`, in the options of a field.
    Utf8Validation,
}

/// Numbers of the values of features, as in `google.protobuf.FeatureSet`.
pub(crate) mod value {
    pub(crate) const IMPLICIT: u8 = 2;
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const CLOSED: u8 = 2;
    pub(crate) const VERIFY: u8 = 2;
}

impl Feature {
    /// Returns the number of the field in `EnumOptions` or `FieldOptions` that only this crate
    /// knows. It is below the numbers of extensions.
    fn number(self) -> u32 {
        match self {
            Feature::EnumType => 998,
            Feature::FieldPresence => 997,
            Feature::Utf8Validation => 996,
        }
    }

    /// Stores a value of this feature in the options of a field or an enum.
    pub(crate) fn store(self, options: &mut DynamicMessage, value: u8) -> Result<(), DecodeError> {
        let mut stored = Vec::new();
        uint32::encode(self.number(), &value.into(), &mut stored);
        options.merge(stored.as_slice())
    }

    /// Returns the value of this feature that is stored in the options of a field or an enum.
    fn stored(self, options: &DynamicMessage) -> Option<u8> {
        let mut stored = Vec::new();
        for unknown in options.unknown_fields() {
            if unknown.number() == self.number() {
                unknown.encode(&mut stored);
            }
        }
        // The last byte is the value.
        stored.last().copied()
    }

    /// Returns the value of this feature that is stored in the options of a field.
    fn of_field(self, field: &FieldDescriptor) -> Option<u8> {
        // Options are decoded at each call, and most fields have none.
        field.field_descriptor_proto().options.as_ref()?;
        self.stored(&field.options())
    }
}

/// Returns true if an enum is closed: protobuf parsers put a number that it doesn't declare among
/// the unknown fields. The enums of proto2 are closed, those of proto3 are open, and those of an
/// edition are open unless the feature `enum_type` says otherwise.
///
/// Only schemas that were read by [`schema`](crate::schema) have the features of an edition.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use proto_splitter_core::schema::is_closed_enum;
///
/// let pool = DescriptorPool::global();
/// let is_closed = |name| pool.get_enum_by_name(name).map(|values| is_closed_enum(&values));
/// // descriptor.proto is in proto2, and struct.proto in proto3.
/// assert_eq!(is_closed("google.protobuf.FieldDescriptorProto.Type"), Some(true));
/// assert_eq!(is_closed("google.protobuf.NullValue"), Some(false));
/// ```
pub fn is_closed_enum(values: &EnumDescriptor) -> bool {
    match Feature::EnumType.stored(&values.options()) {
        Some(openness) => openness == value::CLOSED,
        None => values.parent_file().syntax() == Syntax::Proto2,
    }
}

/// Returns true if a field has presence: a message without the field differs from a message in
/// which the field is 0 or empty. Serializers omit a field without presence if it is 0 or empty.
///
/// Singular fields have presence, except for those in proto3 without the label `optional`, and those
/// of an edition whose feature `field_presence` is `IMPLICIT`. Messages, members of oneofs and
/// extensions always have presence, unless they are repeated. Repeated fields and maps have none.
///
/// Only schemas that were read by [`schema`](crate::schema) have the features of an edition.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use proto_splitter_core::schema::has_presence;
///
/// let pool = DescriptorPool::global();
/// let has = |message: &str, field: &str| {
///     let field = pool.get_message_by_name(message)?.get_field_by_name(field)?;
///     Some(has_presence(&field))
/// };
/// // descriptor.proto is in proto2, and type.proto in proto3.
/// assert_eq!(has("google.protobuf.FileDescriptorProto", "package"), Some(true));
/// assert_eq!(has("google.protobuf.Field", "packed"), Some(false));
/// ```
pub fn has_presence(field: &FieldDescriptor) -> bool {
    // A field without presence is never a message, a member of a oneof or an extension.
    field.supports_presence() && Feature::FieldPresence.of_field(field) != Some(value::IMPLICIT)
}

/// Returns true if protobuf parsers refuse a message in which a value of the field isn't UTF-8. They
/// do so for strings of proto3, and for strings of an edition unless the feature `utf8_validation`
/// says otherwise.
///
/// Only schemas that were read by [`schema`](crate::schema) have the features of an edition.
pub fn verifies_utf8(field: &FieldDescriptor) -> bool {
    let is_stored = || Feature::Utf8Validation.of_field(field) == Some(value::VERIFY);
    field.kind() == Kind::String && (field.parent_file().syntax() == Syntax::Proto3 || is_stored())
}

/// Returns true if protobuf parsers refuse a message in which a value of the extension isn't UTF-8,
/// like [`verifies_utf8`].
pub fn extension_verifies_utf8(extension: &ExtensionDescriptor) -> bool {
    let is_stored = || Feature::Utf8Validation.stored(&extension.options()) == Some(value::VERIFY);
    extension.kind() == Kind::String
        && (extension.parent_file().syntax() == Syntax::Proto3 || is_stored())
}

/// Decodes a message, without values that are 0 or empty in fields without
/// [presence](has_presence). [`DynamicMessage::decode`] omits them only in proto3.
///
/// # Errors
///
/// The same errors as [`DynamicMessage::decode`].
pub fn decode_dynamic(
    descriptor: MessageDescriptor,
    bytes: impl Buf,
) -> Result<DynamicMessage, DecodeError> {
    let mut message = DynamicMessage::decode(descriptor, bytes)?;
    clear(&mut message, 0);
    Ok(message)
}

/// Removes values that are 0 or empty in fields without [presence](has_presence) from a message, and
/// from the messages in it. Also removes them from the encoded message in a `google.protobuf.Any`
/// whose type is known, unless it is in 16 others or more.
pub fn clear_defaults(message: &mut DynamicMessage) {
    clear(message, DEEPEST_ANY);
}

/// Maximum nesting of `google.protobuf.Any`s whose messages are decoded. The limit is low since each
/// is decoded recursively. No `Any` is larger than the `Any` around it, so the limit also bounds the
/// work.
pub(crate) const DEEPEST_ANY: u32 = 16;

/// Removes values from a message, and from messages in `Any`s that are in fewer than `anys` others.
/// Returns true if there were such values.
fn clear(message: &mut DynamicMessage, anys: u32) -> bool {
    let mut defaults = Vec::new();
    let mut cleared = false;
    for (field, value) in message.fields_mut() {
        cleared |= clear_in(value, anys);
        if is_default(value) && !has_presence(&field) {
            defaults.push(field);
        }
    }
    for (_, value) in message.extensions_mut() {
        cleared |= clear_in(value, anys);
    }
    for field in &defaults {
        message.clear_field(field);
    }
    cleared |= !defaults.is_empty();
    if anys > 0 && message.descriptor().full_name() == "google.protobuf.Any" {
        cleared |= clear_any(message, anys - 1).is_some();
    }
    cleared
}

/// Removes values from the messages in a value. Recursion is safe, since decoders limit the nesting.
fn clear_in(value: &mut Value, anys: u32) -> bool {
    let all = |messages: &mut dyn Iterator<Item = &mut Value>| {
        messages
            .filter_map(Value::as_message_mut)
            .fold(false, |cleared, message| clear(message, anys) | cleared)
    };
    match value {
        Value::Message(message) => clear(message, anys),
        Value::List(list) => all(&mut list.iter_mut()),
        Value::Map(entries) => all(&mut entries.values_mut()),
        _ => false,
    }
}

/// Removes values from the encoded message in an `Any`. Returns `None` if there are none, or the
/// message can't be decoded.
fn clear_any(any: &mut DynamicMessage, anys: u32) -> Option<()> {
    let url = any.get_field_by_number(1)?;
    let (_, name) = url.as_str()?.rsplit_once('/')?;
    let descriptor = any.descriptor().parent_pool().get_message_by_name(name)?;
    let encoded = any.get_field_by_number(2)?.as_bytes()?.clone();
    let mut message = DynamicMessage::decode(descriptor, encoded).ok()?;
    if clear(&mut message, anys) {
        any.set_field_by_number(2, Value::Bytes(message.encode_to_vec().into()));
        return Some(());
    }
    None
}

/// Returns true if a value is 0 or empty. A floating-point number is 0 only if all its bits are, as
/// in protobuf's C++ library.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::I32(value) | Value::EnumNumber(value) => *value == 0,
        Value::I64(value) => *value == 0,
        Value::U32(value) => *value == 0,
        Value::U64(value) => *value == 0,
        Value::F32(value) => value.to_bits() == 0,
        Value::F64(value) => value.to_bits() == 0,
        Value::String(value) => value.is_empty(),
        Value::Bytes(value) => value.is_empty(),
        Value::Message(_) | Value::List(_) | Value::Map(_) => false,
    }
}
