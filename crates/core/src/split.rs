//! Splitting: from a message to the plan of its chunks, and to a file.
//!
//! A [`Source`] is the message, a [`ComposableSplitter`] decides what leaves it, and what it
//! decided is a [`SplitPlan`], which reads tags and lengths only. Executed in memory it gives a
//! [`Split`], to a file what is [`Written`], and to a pipe or a connection a [`WrittenStream`].
//!
//! ```
//! use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, Source, SplitOptions};
//! use prost_reflect::prost_types::FileDescriptorProto;
//!
//! let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
//! let source = Source::from(&file);
//! let options = SplitOptions::new().max_chunk_size(1000);
//!
//! let plan = SizeSplitter.plan(&source, &options)?;
//! assert_eq!(plan.to_string(), "0 MESSAGE 2 B\n1 BYTES 5000 B name\n");
//! let split = SizeSplitter.split_with(&source, &options)?;
//! assert_eq!(split.chunks[1].bytes, file.name());
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod compression;
mod context;
mod emit;
mod entry;
mod file;
mod fill;
mod fits;
mod marks;
mod metadata;
mod options;
pub(crate) mod parts;
mod pieces;
mod plan;
mod recent;
mod records;
mod same;
mod size;
mod source;
mod splitter;
mod stream;
mod trailer;
mod view;
mod write;

pub use compression::{AUTO_LEAST_SAVING, ChunkCompression, DEFAULT_CHUNK_COMPRESSION};
pub use context::{AddedChunk, SplitContext};
pub use file::{Written, WrittenChunk, WrittenFile};
pub(crate) use options::check_max_file_size;
pub use options::{
    DEFAULT_DEPTH_LIMIT, DEFAULT_MAX_CHUNK_SIZE, DEFAULT_VALUE_CHUNK_SIZE, LARGEST_DEPTH_LIMIT,
    LARGEST_MAX_CHUNK_SIZE, LEAST_MAX_FILE_SIZE, Profile, SizeRules, SplitOptions,
};
pub use parts::parts_beside;
pub use plan::{PlannedChunk, Segment, SplitPlan};
pub use source::Source;
pub use splitter::{ComposableSplitter, SizeSplitter};
pub use stream::WrittenStream;
pub use view::{View, ViewKind};
pub use write::{Chunk, Split};
