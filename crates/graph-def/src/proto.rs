//! Generated code for `tensorflow.GraphDef` and all types that it uses, from
//! `proto/tensorflow/core/framework`.

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/tensorflow.rs");

/// Serialized file descriptor set of the messages in this module.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the descriptors of `tensorflow.GraphDef` and all types that it uses. The pool is decoded
/// on the first call; cloning it is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
