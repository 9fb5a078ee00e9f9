//! Reading files that contain many protobuf messages as a single message of any size, and writing
//! them.
//!
//! A log or a trace is often a *sequence* of messages rather than a single one. Each message is
//! preceded by its length, as written by `writeDelimitedTo` in protobuf's libraries, or is a record
//! in a Riegeli file. A [`Sequence`] reads a file like these as a message that has the sequence in
//! a repeated field, so that all functions for messages support it. [`Elements`] does the reverse,
//! and writes the elements of a repeated field as a sequence. [`SequenceFormat`] supports both in a
//! registry of formats.
//!
//! Reading copies nothing and builds no message object. Every element stays in the file. Its tag,
//! with the number of the repeated field, is inserted while reading.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod elements;
mod format;
mod group;
mod recent;
mod records;
mod root;
mod sequence;

pub use elements::Elements;
pub use format::SequenceFormat;
pub use records::{Found, Records};
pub use root::{Root, SEQUENCE, sequence_of};
pub use sequence::Sequence;
