//! Tests with split protos and profiles that XLA and XProf wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cases;
mod dumps;
mod fixtures;
mod formats;
mod profiles;
mod writing;
