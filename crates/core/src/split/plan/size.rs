//! The size engine: from sizes and descriptors alone, what must leave so that every MESSAGE chunk
//! is within the maximum.
//!
//! A [`Node`] is a message that is large enough to matter. It is scanned by hopping over its
//! fields, which are put in [`Group`]s by number; of a group only the members that are large are
//! held as [`Child`]ren. Reducing a node works on its own fields, largest gain first: a member's
//! value leaves, or the tail of a repeated field leaves in slices.

mod children;
mod engine;
mod reduce;
mod scan;
mod skip_index;
mod slicing;
mod tree;

pub(in crate::split) use engine::Engine;
