//! Generators of messages, checks of splits and merges, and hostile inputs, for this workspace's
//! tests.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test kit fails tests by panicking"
)]

pub mod bombs;
pub mod compiled;
pub mod cores;
pub mod fixtures;
pub mod generate;
pub mod memory;
pub mod models;
#[cfg(target_os = "linux")]
pub mod opens;
pub mod own_process;
pub mod reference;
pub mod runnable;
pub mod schemas;
pub mod scratch;
pub mod sources;
pub mod splits;
pub mod traces;
pub mod turns;
pub mod workloads;
