//! Reading fields of a [`DynamicMessage`] by number, for types without a Rust struct.

use prost_reflect::{DynamicMessage, Value};

use crate::{Error, ErrorKind};

pub(super) fn text(message: &DynamicMessage, number: u32) -> String {
    let value = message.get_field_by_number(number);
    let text = value.as_deref().and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cold]
pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidSchema, message)
}

/// Field numbers of `google.protobuf.FileDescriptorSet` and `FileDescriptorProto`.
pub(super) mod number {
    pub(in crate::schema) const FILE: u32 = 1;
    pub(in crate::schema) const NAME: u32 = 1;
    pub(in crate::schema) const DEPENDENCY: u32 = 3;
    pub(in crate::schema) const SYNTAX: u32 = 12;
}
