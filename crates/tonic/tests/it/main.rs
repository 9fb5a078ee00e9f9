//! Tests over real network connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "code of tests"
)]

mod calls;
mod hostile;
mod resuming;
#[path = "../../examples/shelf/mod.rs"]
mod shelf;
mod support;
mod tls;
