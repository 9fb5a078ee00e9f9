//! Behaviour through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod damage;
mod fixtures;
mod hostile_chunks;
mod hostile_io;
mod metadata;
mod options;
mod positions;
mod properties;
mod reading;
mod seeking;
mod streams;
mod support;
mod transposed_writing;
mod writing;
