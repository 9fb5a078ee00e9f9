//! Tests of the crate's public interface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation
)]

mod editing;
mod entries;
mod errors;
mod flips;
mod format;
mod hostile;
mod memory;
mod properties;
mod reads;
mod schema;
mod support;
