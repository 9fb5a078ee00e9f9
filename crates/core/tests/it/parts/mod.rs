//! Splits, merges and verifications in parts: whatever becomes of the hosts, the result is right or
//! the commit says what is missing.

mod hostile;
mod merging;
mod mutations;
mod schedules;
mod shards;
mod splitting;
mod support;
mod verifying;
