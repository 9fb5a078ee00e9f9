//! Splitting and merging protobuf messages of any size at the level of bytes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod proto;
