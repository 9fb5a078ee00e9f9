//! Riegeli/records files: checksummed, compressed, seekable sequences of byte records.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
