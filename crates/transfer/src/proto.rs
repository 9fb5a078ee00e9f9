//! Code generated from `proto/proto_splitter/transfer/transfer.proto`, for the frames of a
//! transfer.

#![allow(missing_docs, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/proto_splitter.transfer.rs");

/// Serialized file descriptor set of the package `proto_splitter.transfer`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the descriptors of the package `proto_splitter.transfer`. They are decoded on the first
/// call. Cloning a pool is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
