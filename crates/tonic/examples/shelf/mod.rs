//! The code generated from `shelf.proto`, which a test keeps up to date.

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
