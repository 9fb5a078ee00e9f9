//! Descriptors of the message types in split protos and profiles.

use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

/// Serialized `google.protobuf.FileDescriptorSet` with the descriptors of all types.
static SCHEMA: &[u8] = include_bytes!("schema.binpb");

/// Returns the descriptors of the types that XLA splits, the types of profiles, and all types that
/// these use.
///
/// ```
/// let pool = proto_splitter_xla::descriptor_pool();
/// assert!(pool.get_message_by_name("xla.HloProto").is_some());
/// assert!(pool.get_message_by_name("tensorflow.profiler.XSpace").is_some());
/// ```
pub fn descriptor_pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    // A test checks that the schema can be decoded.
    POOL.get_or_init(|| DescriptorPool::decode(SCHEMA).unwrap_or_default())
}

/// Returns the descriptor of the message type with this full name.
pub(crate) fn message(full_name: &str) -> Option<MessageDescriptor> {
    descriptor_pool().get_message_by_name(full_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read_and_has_what_is_split() {
        let pool = DescriptorPool::decode(SCHEMA).unwrap();
        for name in [
            crate::HLO_PROTO,
            crate::GPU_EXECUTABLE,
            crate::EXECUTABLE_AND_OPTIONS,
        ] {
            assert!(pool.get_message_by_name(name).is_some(), "{name}");
        }
    }
}
