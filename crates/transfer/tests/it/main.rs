//! Tests of transfers through the public API.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "code of tests"
)]

mod fuzzed;
mod hostile;
mod resuming;
mod round_trips;
mod support;
mod targets;
