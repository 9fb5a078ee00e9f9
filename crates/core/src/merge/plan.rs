//! Making a [`MergePlan`](merge_plan::MergePlan) from the chunks and their places in the message.

pub(super) mod build;
pub(super) mod layout;
pub(super) mod map_entries;
pub(super) mod map_keys;
pub(super) mod merge_plan;
pub(super) mod node_state;
pub(super) mod node_types;
pub(super) mod placeholders;
pub(super) mod planner;
pub(super) mod scalar_text;
pub(super) mod segment_list;
pub(super) mod states;
pub(super) mod tensorflow;
pub(super) mod walk;
