//! Splitting: from a message to the plan of its chunks, and to a file.

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
mod pieces;
mod plan;
mod recent;
mod records;
mod same;
mod size;
mod source;
mod splitter;
mod trailer;
mod view;
mod volumes;
mod write;

pub use compression::{AUTO_LEAST_SAVING, ChunkCompression};
pub use context::{AddedChunk, SplitContext};
pub use file::{Written, WrittenChunk, WrittenFile};
pub use options::{
    DEFAULT_DEPTH_LIMIT, DEFAULT_MAX_CHUNK_SIZE, DEFAULT_VALUE_CHUNK_SIZE, LARGEST_DEPTH_LIMIT,
    LARGEST_MAX_CHUNK_SIZE, LEAST_MAX_FILE_SIZE, Profile, SizeRules, SplitOptions,
};
pub use plan::{PlannedChunk, Segment, SplitPlan};
pub use source::Source;
pub use splitter::{ComposableSplitter, SizeSplitter};
pub use view::{View, ViewKind};
pub use write::{Chunk, Split};
