//! Executing a plan: in memory, to one file or several, or to a stream.

pub(super) mod beside;
pub(super) mod chunk_file;
pub(super) mod chunk_pieces;
pub(super) mod chunk_reader;
pub(super) mod commit;
pub(super) mod dedup;
pub(super) mod file;
pub(super) mod in_memory;
pub(super) mod merkle;
pub(super) mod multi_file;
pub(super) mod one_by_one;
pub(super) mod parallel;
pub(super) mod part;
pub(super) mod probe;
pub(super) mod records;
pub(super) mod sink;
pub(super) mod stream;
pub(super) mod trailer;
pub(super) mod written;
