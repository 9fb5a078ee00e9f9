//! Executing a plan: to a stream in order, or to a buffer or file on several threads.

pub(super) mod buffer;
pub(super) mod checksum_pass;
pub(super) mod chunk_cache;
pub(super) mod execute;
pub(super) mod in_order;
mod jobs;
pub(super) mod parallel;
mod place;
pub(super) mod plan_reader;
pub(super) mod shared;
#[cfg(test)]
mod test_store;
mod unpacked_chunks;
pub(super) mod whole_chunks;
pub(super) mod whole_file;
pub(super) mod whole_sum;
