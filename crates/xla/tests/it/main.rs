//! Tests with split protos and profiles written by XLA and XProf.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cases;
mod dumps;
mod fixtures;
mod formats;
mod profiles;
mod writing;
