//! Code generated from `shelf.proto`. A test checks that it is up to date.

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
