//! Message types by name and schema.

use proto_splitter::formats;
use proto_splitter::prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::proto::saved_model::descriptor_pool;
use pyo3::prelude::*;

use crate::error::schema_error;

/// Returns the type with this full name from the given `FileDescriptorSet`, or else a built-in one.
///
/// # Errors
///
/// `SchemaError` if the set can't be read, or there is no type of this name.
pub(crate) fn message_type(
    py: Python<'_>,
    name: &str,
    schema: Option<&[u8]>,
) -> PyResult<MessageDescriptor> {
    let given = schema
        .map(|bytes| {
            DescriptorPool::decode(bytes)
                .map_err(|error| schema_error(py, &format!("schema: {error}")))
        })
        .transpose()?;
    let found = given
        .as_ref()
        .and_then(|pool| pool.get_message_by_name(name))
        .or_else(|| descriptor_pool().get_message_by_name(name))
        .or_else(|| formats::ALL.message(name));
    found.ok_or_else(|| {
        let message =
            format!("no message type {name:?}: give its schema, a serialized FileDescriptorSet");
        schema_error(py, &message)
    })
}
