//! The source of a split, and the values in it.

pub(super) mod page_cache;
pub(super) mod segmented_input;
pub(super) mod source;
pub(super) mod source_view;
pub(super) mod superseded;
