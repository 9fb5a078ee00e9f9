//! The page of the folder `docs` about gRPC. Its Rust examples are tests.

#[doc = include_str!("../../../docs/grpc.md")]
pub mod grpc {}
