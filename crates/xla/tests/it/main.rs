//! Split protos and profiles of XLA, as XLA and XProf wrote them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cases;
mod dumps;
mod fixtures;
mod formats;
mod profiles;
mod writing;
