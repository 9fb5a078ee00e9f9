//! Generators, round trips and hostile inputs for the tests of this workspace.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
