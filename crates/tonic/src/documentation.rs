//! The page about gRPC in the folder `docs`. Its Rust examples are tests.

#[doc = include_str!("../../../docs/grpc.md")]
pub mod grpc {}
