//! The type of the message in a plan, for merges that depend on the type.

use crate::proto::MessageType;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::part_work::{describe_type, schema_in};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Returns the message type in these options, in the form that plans contain.
pub(super) fn message_type(options: &ReadOptions) -> MessageType {
    let descriptor = options.get_descriptor();
    let schema = descriptor.map(|descriptor| describe_type(descriptor, true).serialize());
    MessageType {
        name: descriptor.map_or(String::new(), |descriptor| {
            descriptor.full_name().to_owned()
        }),
        schema: schema.unwrap_or_default().into(),
        assume_plain: options.get_assume_plain(),
    }
}

/// Returns `options` with the message type `known` of a plan; unchanged if `known` is `None`.
pub(super) fn apply(known: Option<&MessageType>, options: ReadOptions) -> Result<ReadOptions> {
    let Some(known) = known else {
        return Ok(options);
    };
    let options = options.assume_plain(known.assume_plain);
    if known.name.is_empty() {
        return Ok(options);
    }
    let pool = schema_in(&known.schema)?;
    let descriptor = pool.and_then(|pool| pool.get_message_by_name(&known.name));
    let missing = || {
        let message = format!(
            "the plan's schema lacks the type of its message, {}",
            known.name
        );
        Error::new(ErrorKind::InvalidSchema, message)
    };
    Ok(options.descriptor(descriptor.ok_or_else(missing)?))
}
