//! `tensorflow.proto_splitter`: the trailer of a `.cpb` file, generated from
//! `proto/tensorflow/proto_splitter`.
//!
//! Field numbers below 1000 are TensorFlow's. Fields from number 1000 on are additions of this
//! crate, which TensorFlow's reader skips.

#![allow(missing_docs, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/tensorflow.proto_splitter.rs");

/// The serialized file descriptor set for this module's messages.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the pool with the descriptors of `tensorflow.proto_splitter`, decoded on the first call.
/// Cloning a pool is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
