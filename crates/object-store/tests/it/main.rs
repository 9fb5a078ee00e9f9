//! Tests with stores that respond slowly, wrongly or not at all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub
)]

mod chunked;
mod folders;
mod parts;
mod reading;
mod retries;
mod server;
mod writing;
