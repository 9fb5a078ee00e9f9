//! The code that `shelf.proto` gives; a test keeps it fresh.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::return_self_not_must_use,
    reason = "generated"
)]

const DESCRIPTORS: &[u8] = include_bytes!("shelf.binpb");

include!("shelf.rs");
