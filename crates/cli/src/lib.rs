//! The protosplit command: split, merge, verify and describe protobuf messages of any size.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
