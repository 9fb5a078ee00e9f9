//! The `.cpb` container: chunks as records in a record file, followed by the trailer as the last
//! record.
//!
//! ```text
//! | signature | record: chunk 0 | record: chunk 1 | ... | record: the trailer, a ChunkMetadata |
//! ```
//!
//! In files with join version 1, the trailer itself may be in chunks, and chunks may be in other
//! files. Each of these other files is a record file whose last record identifies the file.
//!
//! Parsing a [`Trailer`] checks that the bytes are a trailer, that this reader supports the
//! trailer's version, and that every index and path is in range. [`ChunkedFile`] checks the trailer
//! against the records.

mod chunk_tree;
mod embedded_schema;
mod kind;
mod largest;
mod limits;
mod merkle;
mod profile;
mod source_layout;
mod trailer;
mod trailer_memory;
mod unknown_fields;

pub(crate) use chunk_tree::{ChunkRef, ChunkTree, NodeId};
#[doc(hidden)]
pub use embedded_schema::{describe_type, schema_in};
pub use kind::ChunkKind;
pub(crate) use largest::with_largest_chunks;
pub use limits::{
    DEFAULT_LEAST_MAX_MERGED_SIZE, DEFAULT_MAX_CACHED_SIZE, DEFAULT_MAX_FILES,
    DEFAULT_MAX_MESSAGE_DEPTH, DEFAULT_MAX_NESTING, DEFAULT_MAX_TRAILER_LEVELS,
    DEFAULT_MAX_TRAILER_MEMORY, DEFAULT_MAX_TRAILER_SIZE, LARGEST_DEPTH_LIMIT, LARGEST_EXPANSION,
    Limits,
};
pub use merkle::MerkleRoot;
#[doc(hidden)]
pub use merkle::check_hashing;
pub(crate) use merkle::{
    HASH_LEN, Hash, Hashing, KnownNodes, LeafHasher, Levels, Node, hash_of, hex, nodes_above,
    subtrees,
};
pub use profile::Profile;
pub(crate) use profile::key_is_addressable;
pub(crate) use source_layout::{LayoutReader, LayoutWriter, Run};
pub(crate) use trailer::check_version;
pub use trailer::{ChunkPlace, MAX_JOIN_VERSION, Trailer, TrailerUse};
pub(crate) use trailer_memory::check as check_trailer_memory;

pub use crate::error::ChunkIndex;
pub use crate::io::detect::is_chunked;
pub use crate::io::file_names::{
    CHUNKED_EXTENSION, PLAIN_EXTENSION, is_named_chunked, prefix_of, with_extension,
};
pub use crate::merge::{ChunkSummary, SharedWith};
pub use crate::message::ChunkedFile;
