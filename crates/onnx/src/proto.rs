//! `onnx.ModelProto` and everything it reaches, as generated from `proto/onnx/onnx-ml.proto`, which
//! has the names, numbers and types of ONNX 1.23.

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/onnx.rs");

/// The file descriptor set behind this module, serialized.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// The descriptors of `onnx.ModelProto` and everything it reaches. Decoded at the first call;
/// cloning a pool is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
