//! Reading a file that contains a sequence of protobuf messages as one message of any size, and
//! writing such files.
//!
//! A log or a trace often isn't a single message, but a *sequence* of messages. Each of them is
//! preceded by its length, as written by `writeDelimitedTo` in protobuf's libraries, or is a record
//! in a Riegeli file. A [`Sequence`] presents such a file as one message with a repeated field that
//! contains the messages, so that all functions for messages can read it. [`Elements`] writes the
//! elements of a repeated field as a sequence. [`SequenceFormat`] does both in a registry of
//! formats.
//!
//! Reading neither copies the file nor builds message objects. The elements stay in the file. The
//! tag of the repeated field is inserted before each element while reading.
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
