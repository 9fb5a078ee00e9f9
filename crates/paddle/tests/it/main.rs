//! Tests with files written by Paddle, files written by this crate, and invalid files.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod appending;
mod conversions;
mod descriptions;
mod hostile;
mod large_programs;
mod lookups;
mod manifest;
mod reading;
mod replacing;
mod schema;
mod streams;
mod support;
mod target;
