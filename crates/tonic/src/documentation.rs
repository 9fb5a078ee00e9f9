//! The page about gRPC from the folder `docs`. The page's Rust examples are run as tests.

#[doc = include_str!("../../../docs/grpc.md")]
pub mod grpc {}
