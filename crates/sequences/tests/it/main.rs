//! Tests that compare sequences of messages with the same elements concatenated in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod format;
mod made;
mod reading;
mod writing;
