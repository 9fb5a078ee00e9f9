//! Splitter for tensorflow.SavedModel, and SavedModel directories.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod proto;
