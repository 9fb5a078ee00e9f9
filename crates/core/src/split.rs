//! Splitting a message: planning its chunks, and writing them to a file.
//!
//! A [`Source`] is the message to split, and a [`ComposableSplitter`] decides which parts of it
//! become chunks. The result is a [`SplitPlan`], made by reading only tags and lengths. Executing
//! the plan in memory returns a [`Split`], executing it to a file returns a [`Written`], and
//! executing it to a pipe or a connection returns a [`WrittenStream`].
//!
//! ```
//! use proto_splitter_core::split::{SplitExt, SizeSplitter, Source, SplitOptions};
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
mod file_sizes;
mod options;
mod plan;
mod read;
mod split_ext;
mod split_input;
mod write;

pub use compression::{AUTO_LEAST_SAVING, ChunkCompression, DEFAULT_CHUNK_COMPRESSION};
#[doc(hidden)]
pub use file_sizes::{most_of_trailer, most_stored};
pub(crate) use options::check_max_file_size;
pub use options::{
    DEFAULT_DEPTH_LIMIT, DEFAULT_MAX_CHUNK_SIZE, DEFAULT_MAX_SLICE_SIZE, DEFAULT_VALUE_CHUNK_SIZE,
    LARGEST_MAX_CHUNK_SIZE, LEAST_MAX_FILE_SIZE, SizeRules, SplitOptions,
};
pub use plan::decisions::AddedChunk;
#[doc(hidden)]
pub use plan::metadata::{draft_trailer, extended_trailer, part_trailer};
pub use plan::size_splitter::SizeSplitter;
pub use plan::split_plan::{PlannedChunk, SplitPlan};
pub use plan::splitter::{ComposableSplitter, SplitContext};
pub use read::source::Source;
pub use read::source_view::elements::{Element, Elements};
pub use read::source_view::entries::Entries;
pub use read::source_view::repeated_keys::MAP_KEYS_HELD;
pub use read::source_view::{SourceView, ViewKind};
pub use split_ext::SplitExt;
pub use split_input::SplitInput;
#[doc(hidden)]
pub use write::beside::parts_beside;
#[doc(hidden)]
pub use write::beside::{DonePart, stem_beside};
#[doc(hidden)]
pub use write::chunk_file::ChunkFile;
pub use write::chunk_pieces::{ChunkPiece, ChunkPieces};
#[doc(hidden)]
pub use write::commit::{Commit, Removed, Sibling};
pub use write::in_memory::{ChunkBytes, Split};
pub(crate) use write::merkle::most_of_tree;
pub(crate) use write::multi_file::ChunkFiles;
#[doc(hidden)]
pub use write::part::{PartFile, crc32c_of_runs, runs, write_base, write_main, write_part};
pub(crate) use write::probe::decide_stream;
#[doc(hidden)]
pub use write::sink::Record;
pub use write::stream::WrittenStream;
pub use write::written::{Written, WrittenChunk, WrittenFile};

pub use crate::container::{LARGEST_DEPTH_LIMIT, Profile};
