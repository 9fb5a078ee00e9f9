//! The chunks for a merge: in memory, or as records in open files.

pub(super) mod checked_stream;
pub(super) mod chunk_store;
pub(super) mod embedded_schema;
pub(super) mod file_source;
pub(super) mod first_field;
mod locate;
pub(super) mod prefetch;
mod proven_chunks;
pub(super) mod record_cache;
mod record_lookup;
pub(super) mod record_store;
pub(super) mod records;
pub(super) mod required_root;
pub(super) mod summary;
