//! Tests of splits, merges and verifications in parts. Whatever happens to the hosts, either the
//! result is correct, or the commit fails and names the missing parts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "code of tests"
)]

mod compat;
mod hostile;
mod merging;
mod merkle_root;
mod mutations;
mod plan_file;
mod schedules;
mod shards;
mod splitting;
mod support;
mod verifying;
