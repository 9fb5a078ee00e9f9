//! Generated code for `onnx.ModelProto` and all types it uses, from `proto/onnx/onnx-ml.proto`,
//! which has the names, numbers and types of ONNX 1.23.

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/onnx.rs");

/// Serialized file descriptor set of this module.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the descriptors of `onnx.ModelProto` and all types it uses. They are decoded on the
/// first call. Cloning the pool is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
