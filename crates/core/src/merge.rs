//! Merging: from chunks and where they belong to the message.
//!
//! A [`MergePlan`] says where every byte of the output comes from; [`Merger`] executes one.
//! Planning reads only the chunks that others are spliced into, as streams. A merge that goes on
//! from there keeps the small ones of them, up to 32 MiB.
//!
//! Two kinds of files are read. Those with our marker have a placeholder wherever something was
//! cut, and need no schema. For all others the semantics are those of TensorFlow's Merger: a BYTES
//! chunk sets its field, a MESSAGE chunk is merged into what is there, parts of its path that are
//! missing are created. Where TensorFlow's Merger aborts, reads out of bounds, truncates a key or
//! stays silent, this one does what was meant, or says why it can't.

mod ahead;
mod arriving;
mod entries;
mod execute;
mod input;
mod keys;
mod marked;
mod memory;
mod merger;
mod options;
mod parallel;
mod pass;
mod peek;
mod plan;
mod planner;
mod rope;
mod scalar;
mod schema;
mod sink;
mod state;
mod store;
mod tree;
mod unmarked;
mod verify;
mod walk;
mod walked;
mod whole;
mod write;

pub use arriving::ChunkMerger;
pub use execute::Merged;
pub use merger::Merger;
pub use options::{
    DEFAULT_MAX_CACHED_SIZE, DEFAULT_MAX_FILES, DEFAULT_MAX_MESSAGE_DEPTH, DEFAULT_MAX_NESTING,
    DEFAULT_MAX_TRAILER_LEVELS, DEFAULT_MAX_TRAILER_MESSAGES, DEFAULT_MAX_TRAILER_SIZE, Limits,
    MergeOptions,
};
pub use plan::{MergePlan, Segment, SegmentSource};
pub use store::{ChunkStore, Places};
pub use verify::{MergeCheck, SourceCheck, Verification};

pub(crate) use input::PlanInput;
pub(crate) use keys::{EntryKey, KeyCodec, KeyForm, is_key};
pub(crate) use memory::Memory;
pub(crate) use parallel::fill;
pub(crate) use planner::{Layout, plan};
pub(crate) use schema::wire_type;
pub(crate) use store::{read_stream, read_to_place};
pub(crate) use tree::{PathTree, TreeOptions};
pub(crate) use write::write;
