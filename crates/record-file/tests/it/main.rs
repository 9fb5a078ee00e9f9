//! Behaviour through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod appending;
mod codecs;
mod damage;
mod fixtures;
mod flushing;
mod hostile_chunks;
mod hostile_io;
mod large;
mod metadata;
mod mutations;
mod options;
mod padding;
mod parallel;
mod parallel_reading;
mod positions;
mod projection;
mod properties;
mod reading;
mod recovering;
mod seeking;
mod streams;
mod support;
mod targets;
mod transposed_writing;
mod walking;
mod writing;
