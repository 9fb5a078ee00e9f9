//! Creating a [`SplitPlan`](split_plan::SplitPlan) from the decisions of splitters.

pub(super) mod added_places;
pub(super) mod chunk_layout;
pub(super) mod continuation;
pub(super) mod cuts;
pub(super) mod decisions;
pub(super) mod metadata;
pub(super) mod planner;
pub(super) mod reader_limits;
pub(super) mod size;
pub(super) mod size_requests;
pub(super) mod size_splitter;
pub(super) mod slice_requests;
pub(super) mod source_layout;
pub(super) mod split_plan;
pub(super) mod splitter;
