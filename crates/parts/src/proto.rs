//! `proto_splitter.parts`: plans of work in parts and the reports of parts, as generated from
//! `proto/proto_splitter/parts/parts.proto`.

#![allow(missing_docs, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/proto_splitter.parts.rs");

/// The file descriptor set behind this module, serialized.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// The descriptors of `proto_splitter.parts`. Decoded at the first call; cloning a pool is
/// cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
