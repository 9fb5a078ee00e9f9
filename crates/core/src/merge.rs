//! Merging chunks into the message they were cut from.
//!
//! A [`MergePlan`] lists the origin of every byte of the output; a [`Merger`] executes the plan.
//! Planning reads only the chunks that other chunks are spliced into, as streams, and keeps up to
//! 32 MiB of them for the merge.
//!
//! Two kinds of files are supported. Marked files have a placeholder for each value that was cut,
//! and need no schema. All other files follow the semantics of TensorFlow's Merger: a BYTES chunk
//! sets its field, a MESSAGE chunk is merged into the existing value, and missing parts of its path
//! are created. Where TensorFlow's Merger aborts, reads out of bounds, truncates a key or fails
//! silently, this crate either merges the file as intended, or returns an error that explains the
//! obstacle.

mod against_root;
mod chunk_merger;
mod open;
mod options;
mod placement;
mod plan;
mod read;
mod read_options;
mod verify;
mod write;

#[doc(hidden)]
pub use against_root::chunk_leaves;
pub(crate) use against_root::{check_against_root, check_chunk_against_root};
pub use chunk_merger::ChunkMerger;
#[doc(hidden)]
pub use open::{no_way_to_others, open_path_as, open_sources, open_sources_with};
pub(crate) use open::{open_given, open_path, open_path_with, read_trailer};
pub use options::MergeOptions;
pub use placement::Placement;
pub use plan::build::plan;
pub(crate) use plan::build::plan_part;
pub use plan::merge_plan::MergePlan;
pub(crate) use plan::merge_plan::chunk_of;
pub(crate) use read::chunk_store::OnePiece;
pub use read::chunk_store::{ChunkStore, Places};
pub(crate) use read::embedded_schema::read_schema;
pub use read::file_source::FileSource;
#[doc(hidden)]
pub use read::record_store::RecordStore;
pub use read::summary::{ChunkSummary, SharedWith};
pub(crate) use read::summary::{listed, summaries};
pub use read_options::ReadOptions;
pub(crate) use verify::verify;
pub use verify::{MergeCheck, SourceCheck, Verification};
#[doc(hidden)]
pub use verify::{PartVerification, verify_part, verify_parts_together};
pub(crate) use write::buffer::Buffer;
#[doc(hidden)]
pub use write::chunk_cache::{ChunkCache, with_plan};
pub use write::execute::Merged;
pub(crate) use write::execute::{check_chunk, execute_into, to_bytes};
#[doc(hidden)]
pub use write::execute::{check_size, compared};
#[doc(hidden)]
pub use write::in_order::write;
pub(crate) use write::in_order::{copy_exactly, write_around, write_summed};
pub use write::parallel::FilePlace;
#[doc(hidden)]
pub use write::parallel::write_at;
pub(crate) use write::parallel::{gather, scatter};
pub(crate) use write::plan_reader::PlanReader;
pub use write::shared::shared_pieces;
pub(crate) use write::whole_file::{merge_to_file, merge_to_sink};
pub(crate) use write::whole_sum::WholeSum;

pub use crate::container::{
    DEFAULT_LEAST_MAX_MERGED_SIZE, DEFAULT_MAX_CACHED_SIZE, DEFAULT_MAX_FILES,
    DEFAULT_MAX_MESSAGE_DEPTH, DEFAULT_MAX_NESTING, DEFAULT_MAX_TRAILER_LEVELS,
    DEFAULT_MAX_TRAILER_MEMORY, DEFAULT_MAX_TRAILER_SIZE, LARGEST_EXPANSION, Limits,
};
pub use crate::message::Merger;
