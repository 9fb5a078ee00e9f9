//! `proto_splitter.parts`: plans for work in parts and the parts' reports, generated from
//! `proto/proto_splitter/parts/parts.proto`.

#![allow(missing_docs, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/proto_splitter.parts.rs");

/// The serialized file descriptor set of this module.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the descriptors of `proto_splitter.parts`, decoded on the first call. Cloning a pool is
/// cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
