//! Looking up message types by name.

use proto_splitter::formats;
use proto_splitter::prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::proto::saved_model::descriptor_pool;
use proto_splitter::schema::decode_descriptor_set;
use proto_splitter::sequences::Root;
use pyo3::prelude::*;

use crate::error::schema_error;

/// The message types that can be looked up by name: those of an optional `FileDescriptorSet` from
/// the caller, followed by the built-in types.
struct Types(Option<DescriptorPool>);

impl Types {
    fn new(py: Python<'_>, schema: Option<&[u8]>) -> PyResult<Types> {
        let given = schema.map(decode_descriptor_set).transpose();
        let given = given.map_err(|error| schema_error(py, &format!("schema: {error}")))?;
        Ok(Types(given))
    }

    fn get(&self, name: &str) -> Option<MessageDescriptor> {
        let given = self
            .0
            .as_ref()
            .and_then(|pool| pool.get_message_by_name(name));
        given
            .or_else(|| descriptor_pool().get_message_by_name(name))
            .or_else(|| formats::ALL.message(name))
    }
}

/// Returns the message type with this full name. Looks it up in `schema`, a serialized
/// `FileDescriptorSet`, and then in the built-in types.
///
/// # Errors
///
/// `SchemaError` if `schema` can't be read, or there is no type with this name.
pub(crate) fn message_type(
    py: Python<'_>,
    name: &str,
    schema: Option<&[u8]>,
) -> PyResult<MessageDescriptor> {
    Types::new(py, schema)?.get(name).ok_or_else(|| {
        let message =
            format!("no message type {name:?}: give its schema, a serialized FileDescriptorSet");
        schema_error(py, &message)
    })
}

/// Returns the root type for a sequence of messages. `name` is the full name of the messages' type,
/// or of the repeated field that contains the messages. The name is looked up as in
/// [`message_type`].
///
/// # Errors
///
/// The errors of [`message_type`]; `SchemaError` if the field isn't a repeated field of messages.
pub(crate) fn sequence_root(py: Python<'_>, name: &str, schema: Option<&[u8]>) -> PyResult<Root> {
    let types = Types::new(py, schema)?;
    Root::find(name, |name| types.get(name))
        .map_err(|error| schema_error(py, &format!("delimited: {error}")))
}
