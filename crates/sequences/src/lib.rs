//! Reading files of many protobuf messages as one message of any size, and writing them.
//!
//! A log or a trace is often not one message but a *sequence* of messages: each preceded by its
//! length, as written by `writeDelimitedTo` of protobuf's libraries, or each in a record of a
//! Riegeli file. A [`Sequence`] reads such a file as the message that has the sequence as a
//! repeated field, so that everything that works on a message works on it. [`Elements`] does the
//! reverse: it writes the elements of a repeated field as a sequence. [`SequenceFormat`] does both
//! for a registry of formats.
//!
//! Nothing is copied, and no message object is built: every element stays in the file, and the tag
//! of the repeated field is inserted before it while reading.
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
