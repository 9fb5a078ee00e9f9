//! The `.cpb` container: chunks as records of a record file, and behind them, as its last record,
//! the trailer.
//!
//! ```text
//! | signature | record: chunk 0 | record: chunk 1 | ... | record: the trailer, a ChunkMetadata |
//! ```
//!
//! In files of join version 1 the trailer itself may be in chunks, and chunks may lie in other
//! files, each a record file with a last record of its own that tells whether it is the one that is
//! meant.
//!
//! A [`Trailer`] is believed only as far as it has been checked: that it is one, that this reader
//! knows its version, that every index and path in it is in range. [`ChunkedFile`] checks it
//! against the records.

mod cache;
mod checked;
mod file;
mod form;
mod locate;
mod parts;
mod schema;
mod siblings;
mod store;
mod summary;
mod trailer;
mod unknown;

pub use file::ChunkedFile;
pub(crate) use file::open_file;
pub use form::is_chunked;
pub(crate) use schema::describe_type;
pub use summary::{ChunkSummary, SharedWith};
pub use trailer::{ChunkPlace, MAX_JOIN_VERSION, Trailer, TrailerUse};

/// The kind of a chunk, as `ChunkInfo.Type` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// A serialized message, or fields of one.
    Message,
    /// The value of a bytes or string field.
    Bytes,
}

impl std::fmt::Display for ChunkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            ChunkKind::Message => "MESSAGE",
            ChunkKind::Bytes => "BYTES",
        })
    }
}
