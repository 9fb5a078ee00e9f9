//! The size engine: decides, from sizes and descriptors alone, which parts must become separate
//! chunks so that every MESSAGE chunk is within the maximum.
//!
//! A [`Node`] is a message that is large enough to matter. A scan skips over its fields, and groups
//! them by number into [`Group`]s; only the large members of a group are kept as [`Child`]ren.
//! Reducing a node moves out its own fields, largest gain first: a member's value, or the last
//! elements of a repeated field in slices.

mod children;
mod engine;
mod reduce;
mod scan;
mod skip_index;
mod slicing;
mod tree;

pub(in crate::split) use engine::Engine;
