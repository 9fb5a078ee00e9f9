//! Reading scalar fields as Rust types.

use bytes::Bytes;
use prost_reflect::Kind;

use super::MessageView;
use crate::path::{FieldPath, TargetKind};
use crate::wire::{decode_varint, unzigzag};
use crate::{Error, ErrorKind, Result};

/// A value of a scalar field, according to its type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScalarValue {
    /// A signed integer of any protobuf type, or the number of an enum value.
    Signed(i64),
    /// An unsigned integer of any protobuf type.
    Unsigned(u64),
    /// A `double`.
    Double(f64),
    /// A `float`.
    Float(f32),
    /// A `bool`.
    Bool(bool),
    /// A `string`.
    String(String),
    /// A `bytes` value.
    Bytes(Bytes),
}

impl ScalarValue {
    /// Decodes a value from its wire encoding; `None` if it is invalid for this kind.
    fn decode(kind: &Kind, bytes: Bytes) -> Option<ScalarValue> {
        let varint = || {
            let (value, len) = decode_varint(&bytes)?;
            (len == bytes.len()).then_some(value)
        };
        let four = || <[u8; 4]>::try_from(&bytes[..]).ok();
        let eight = || <[u8; 8]>::try_from(&bytes[..]).ok();
        Some(match kind {
            Kind::Int64 => ScalarValue::Signed(varint()?.cast_signed()),
            // Truncated to 32 bits, as every reader does.
            Kind::Int32 | Kind::Enum(_) => ScalarValue::Signed(low(varint()?).cast_signed().into()),
            Kind::Sint64 => ScalarValue::Signed(unzigzag(varint()?)),
            Kind::Sint32 => ScalarValue::Signed(unzigzag(low(varint()?).into())),
            Kind::Sfixed64 => ScalarValue::Signed(i64::from_le_bytes(eight()?)),
            Kind::Sfixed32 => ScalarValue::Signed(i32::from_le_bytes(four()?).into()),
            Kind::Uint64 => ScalarValue::Unsigned(varint()?),
            Kind::Uint32 => ScalarValue::Unsigned(low(varint()?).into()),
            Kind::Fixed64 => ScalarValue::Unsigned(u64::from_le_bytes(eight()?)),
            Kind::Fixed32 => ScalarValue::Unsigned(u32::from_le_bytes(four()?).into()),
            Kind::Double => ScalarValue::Double(f64::from_le_bytes(eight()?)),
            Kind::Float => ScalarValue::Float(f32::from_le_bytes(four()?)),
            Kind::Bool => ScalarValue::Bool(varint()? != 0),
            Kind::String => ScalarValue::String(String::from_utf8(bytes.into()).ok()?),
            Kind::Bytes => ScalarValue::Bytes(bytes),
            Kind::Message(_) => return None,
        })
    }

    const fn name(&self) -> &'static str {
        match self {
            ScalarValue::Signed(_) => "a signed integer",
            ScalarValue::Unsigned(_) => "an unsigned integer",
            ScalarValue::Double(_) => "a double",
            ScalarValue::Float(_) => "a float",
            ScalarValue::Bool(_) => "a bool",
            ScalarValue::String(_) => "a string",
            ScalarValue::Bytes(_) => "bytes",
        }
    }
}

/// Returns the low 32 bits.
fn low(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A Rust type as which values of scalar fields can be read: see [`MessageView::get_as`].
pub trait FromScalar: Sized {
    /// Converts the value; `None` if it is of another kind, or out of range.
    fn from_scalar(value: &ScalarValue) -> Option<Self>;
}

impl FromScalar for ScalarValue {
    fn from_scalar(value: &ScalarValue) -> Option<Self> {
        Some(value.clone())
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromScalar for $type {
            fn from_scalar(value: &ScalarValue) -> Option<Self> {
                match *value {
                    ScalarValue::Signed(number) => number.try_into().ok(),
                    ScalarValue::Unsigned(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers!(i32, i64, u32, u64, usize);

macro_rules! others {
    ($($type:ty: $($pattern:pat => $value:expr),*;)*) => {$(
        impl FromScalar for $type {
            fn from_scalar(value: &ScalarValue) -> Option<Self> {
                match value {
                    $($pattern => Some($value),)*
                    _ => None,
                }
            }
        }
    )*};
}

others! {
    f64: ScalarValue::Double(number) => *number, ScalarValue::Float(number) => (*number).into();
    f32: ScalarValue::Float(number) => *number;
    bool: ScalarValue::Bool(is_set) => *is_set;
    String: ScalarValue::String(text) => text.clone();
    Bytes: ScalarValue::Bytes(bytes) => bytes.clone();
    Vec<u8>: ScalarValue::Bytes(bytes) => bytes.to_vec();
}

impl MessageView<'_> {
    /// Returns the value at a path as a Rust type: for example, a number as a number, and not as
    /// its wire encoding.
    ///
    /// ```
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::view::MessageView;
    /// use prost_reflect::{ReflectMessage, prost_types::Timestamp};
    ///
    /// let descriptor = Timestamp::default().descriptor();
    /// let message = b"\x08\x96\x01".to_vec();
    /// let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(descriptor))?;
    /// let seconds: i64 = view.get_as(&"1".parse()?)?;
    /// assert_eq!(seconds, 150);
    /// assert!(view.get_as::<bool>(&"1".parse()?).is_err());
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`ErrorKind::SchemaNeeded`] if the message's type is unknown;
    /// [`ErrorKind::InvalidPath`] if the path leads to a message, or to a value of another kind or
    /// out of the range of `T`; [`ErrorKind::InvalidMessage`] if the bytes aren't valid for the
    /// field's type.
    pub fn get_as<T: FromScalar>(&self, path: &FieldPath) -> Result<T> {
        let at = |kind, message: String| Error::new(kind, message).at_path(self.show(path));
        let kind = match self.kind(path)? {
            Some(TargetKind::Scalar(kind)) => kind,
            Some(_) => {
                let message = "the path leads to a message, not to a single value";
                return Err(at(ErrorKind::InvalidPath, message.into()));
            }
            None => {
                let message = "no type is known for the message";
                return Err(at(ErrorKind::SchemaNeeded, message.into()));
            }
        };
        let value = ScalarValue::decode(&kind, self.get(path)?).ok_or_else(|| {
            let message = "the bytes there are not a value of the field's type";
            at(ErrorKind::InvalidMessage, message.into())
        })?;
        T::from_scalar(&value).ok_or_else(|| {
            let (name, wanted) = (value.name(), std::any::type_name::<T>());
            let message = format!("found {name}, which can't be read as {wanted}");
            at(ErrorKind::InvalidPath, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::ReflectMessage;
    use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};

    use super::*;
    use crate::merge::ReadOptions;

    #[test]
    fn bytes_on_the_wire_are_values_of_their_kinds() {
        use ScalarValue::{Bool, Double, Float, Signed, Unsigned};
        let ones: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let cases: [(Kind, &[u8], Option<ScalarValue>); 17] = [
            (Kind::Int64, ones, Some(Signed(-1))),
            (Kind::Int32, ones, Some(Signed(-1))),
            (Kind::Int32, b"\x80\x80\x80\x80\x10", Some(Signed(0))),
            (Kind::Uint64, ones, Some(Unsigned(u64::MAX))),
            (Kind::Uint32, ones, Some(Unsigned(u32::MAX.into()))),
            (Kind::Sint64, ones, Some(Signed(i64::MIN))),
            (Kind::Sint32, b"\x03", Some(Signed(-2))),
            (Kind::Sfixed32, b"\xff\xff\xff\xff", Some(Signed(-1))),
            (Kind::Sfixed64, &[0xff; 8], Some(Signed(-1))),
            (Kind::Fixed32, b"\x01\0\0\0", Some(Unsigned(1))),
            (Kind::Fixed64, &[0xff; 8], Some(Unsigned(u64::MAX))),
            (Kind::Float, b"\0\0\x80\x3f", Some(Float(1.0))),
            (Kind::Double, b"\0\0\0\0\0\0\xf0\x3f", Some(Double(1.0))),
            (Kind::Bool, b"\x02", Some(Bool(true))),
            (Kind::Bool, b"", None),
            (Kind::Fixed32, b"\x01\0\0", None),
            (Kind::String, b"\xff", None),
        ];
        for (kind, bytes, expected) in cases {
            let found = ScalarValue::decode(&kind, Bytes::from_static(bytes));
            assert_eq!(found, expected, "{kind:?} {bytes:?}");
        }
    }

    #[test]
    fn a_value_that_a_type_cannot_have_is_refused() {
        use ScalarValue::{Double, Signed, Unsigned};
        assert_eq!(u32::from_scalar(&Signed(-1)), None);
        assert_eq!(i64::from_scalar(&Unsigned(u64::MAX)), None);
        assert_eq!(i64::from_scalar(&Unsigned(7)), Some(7));
        assert_eq!(f32::from_scalar(&Double(1.0)), None);
        assert_eq!(bool::from_scalar(&Signed(1)), None);
    }

    #[test]
    fn values_are_read_by_path_and_refused_where_there_is_no_type() {
        let file = FileDescriptorProto {
            name: Some("a name".into()),
            public_dependency: vec![7, -2],
            message_type: vec![DescriptorProto::default()],
            ..Default::default()
        };
        let bytes = prost::Message::encode_to_vec(&file);
        let view = |options| MessageView::of_plain(&bytes, options).unwrap();
        let typed = view(ReadOptions::new().descriptor(file.descriptor()));
        let name = FieldPath::parse("name", &file.descriptor()).unwrap();
        assert_eq!(typed.get_as::<String>(&name).unwrap(), "a name");
        let error = typed.get_as::<i64>(&name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
        assert_eq!(
            error.to_string(),
            "name: found a string, which can't be read as i64"
        );
        let message = FieldPath::parse("message_type[0]", &file.descriptor()).unwrap();
        let error = typed.get_as::<String>(&message).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
        let untyped = view(ReadOptions::new());
        let error = untyped.get_as::<String>(&name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaNeeded);
    }
}
