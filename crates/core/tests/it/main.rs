//! Tests of the library's public interface, in one executable.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "code of tests"
)]

mod merge_support;
// The module is included by path, since the test kit depends on this crate.
#[path = "../../../testkit/src/own_process.rs"]
mod own_process;
mod targets;

mod attacks;
mod canonical_text;
mod composed_source;
mod continuation;
mod damage_first;
mod edits;
mod elements;
mod extended;
mod extended_files;
mod extents;
mod fuzzed;
mod hostile_messages;
mod huge_value;
mod lazy;
mod merge_ambiguous;
mod merge_anything;
mod merge_files;
mod merge_hostile;
mod merge_marked;
mod merge_model;
mod merge_tensorflow;
mod merge_verify;
mod merkle;
mod merkle_forged;
mod presence;
mod reader_limits;
mod remote;
mod salvage;
