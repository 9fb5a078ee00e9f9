//! Splits, merges and verifications in parts: whatever becomes of the hosts, the result is right or
//! the commit says what is missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "code of tests"
)]

mod hostile;
mod merging;
mod mutations;
mod schedules;
mod shards;
mod splitting;
mod support;
mod verifying;
