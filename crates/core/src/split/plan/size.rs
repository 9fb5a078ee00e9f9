//! The size engine: decides, from sizes and descriptors alone, which parts must become separate
//! chunks so that every MESSAGE chunk is within the maximum.
//!
//! A [`Node`] is a message that may have to be cut. A scan groups its fields by number into
//! [`Group`]s, without reading the values; only the large members of a group are kept as
//! [`Child`]ren. Reducing a node moves parts of it into chunks, those with the largest gain first.
//! A part is the value of a member, or the last elements of a repeated field, which become slices.

mod children;
mod engine;
mod reduce;
mod scan;
mod skip_index;
mod slicing;
mod tree;

pub(in crate::split) use engine::Engine;
