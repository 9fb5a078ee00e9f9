//! Elements of protobuf messages of any size as columns: Parquet, Arrow and CSV.
//!
//! A [`Table`] has one row for each element that a [`PathQuery`](proto_splitter_core::path::PathQuery)
//! finds in a message, and one column for each of its fields that is asked for. Values go straight from
//! the bytes of the message into the columns; no message object is built, and no more of the message is
//! in memory than a few row groups.
//!
//! | in the schema | in the table |
//! | --- | --- |
//! | `int32`, `int64`, `uint32`, `uint64` and their other forms | integers of the same size and sign |
//! | `float`, `double`, `bool`, `string` | the same |
//! | `bytes` | binary |
//! | an enum | a dictionary of names; of a number without one, its digits |
//! | a message | a struct |
//! | a repeated field, a map | a list, a map; empty if nothing is there |
//! | a field with presence: `optional`, in a `oneof`, a message, all of proto2 | null if it isn't there |
//! | `google.protobuf.Timestamp` and `Duration` | a timestamp in UTC, a duration, in nanoseconds unless another unit is asked for |
//! | `google.protobuf.Int64Value` and the like | the value, or null |
//! | a message without fields | true, or null |
//!
//! A column may lead into a message, as `args.key`; where `args` is repeated, the column holds lists of
//! keys.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod column;
mod csv;
mod fields;
mod ipc;
mod names;
mod options;
mod parquet;
mod plan;
mod shape;
mod source;
mod stream;
mod table;
mod time;
mod unit;

pub use options::TableOptions;
pub use stream::TableStream;
pub use table::Table;
/// The crates whose types are in signatures of this one, in the versions that they are of.
#[doc(no_inline)]
pub use {arrow_array, arrow_schema};
