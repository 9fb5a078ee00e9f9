//! Generated code for Paddle's `ProgramDesc` and this crate's `Model`, from `proto/paddle` and
//! `proto/proto_splitter/paddle`.

#![allow(missing_docs, clippy::large_enum_variant, reason = "generated")]
#![allow(
    clippy::expect_used,
    reason = "derived: each message's own name is in the pool"
)]

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

pub use self::paddle::framework::proto as framework;
pub use self::proto_splitter::paddle as model;

// Generated code refers to other packages by relative module paths.
mod paddle {
    pub(super) mod framework {
        /// Package `paddle.framework.proto`: programs, blocks, variables, ops.
        pub mod proto {
            include!("proto/paddle.framework.proto.rs");
        }
    }
}

mod proto_splitter {
    /// Package `proto_splitter.paddle`: a program and its parameters as one message.
    pub mod paddle {
        include!("proto/proto_splitter.paddle.rs");
    }
}

/// Serialized file descriptor set of the packages in this module.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("proto/descriptors.binpb");

static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("a test keeps the descriptors valid")
});

/// Returns the descriptors of `ProgramDesc`, `Model` and all types that they use. They are decoded
/// on the first call. Cloning a pool is cheap.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &DESCRIPTOR_POOL
}
