//! Generated code for the messages in a bundle's index, from
//! `proto/tensorflow/core/protobuf/tensor_bundle.proto`.
//!
//! The types for shapes and data types are in [`proto_splitter_graph_def::proto`].

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

include!("proto/tensorflow.rs");

/// Serialized file descriptor set of this module, without the files that are in the set of
/// [`proto_splitter_graph_def::proto`].
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = proto_splitter_graph_def::proto::descriptor_pool().clone();
    pool.decode_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .expect("a test keeps the descriptors valid");
    pool
});

/// Returns the descriptors of the messages in a bundle's index, and of all types that they use. The
/// pool is built on the first call; cloning it is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
