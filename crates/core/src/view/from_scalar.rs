//! Conversion of scalar values to Rust types.

use bytes::Bytes;

use super::MessageView;
pub use crate::path::ScalarValue;
use crate::path::{FieldPath, TargetKind};
use crate::{Error, ErrorKind, Result};

/// A Rust type to which scalar values can be converted: see [`MessageView::get_as`].
pub trait FromScalar: Sized {
    /// Converts the value to this type; `None` if values of this kind don't convert to the type, or
    /// the value is out of the type's range.
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
    /// Returns the scalar value at a path, converted from its wire encoding to a Rust type.
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
    /// The errors of [`get`](Self::get); [`ErrorKind::SchemaNeeded`] if the message's type is
    /// unknown; [`ErrorKind::InvalidPath`] if the path leads to a message, or to a value that is of
    /// another kind or out of the range of `T`; [`ErrorKind::InvalidMessage`] if the bytes aren't
    /// valid for the field's type.
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
