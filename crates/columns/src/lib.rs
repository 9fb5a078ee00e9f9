//! Converting the elements of protobuf messages of any size to columns: Parquet, Arrow and CSV.
//!
//! A [`Table`] has a row for each element that a
//! [`PathQuery`](proto_splitter_core::path::PathQuery) selects in a message, and a column for each
//! requested field. Values are copied from the bytes of the message directly to columns, without
//! building message objects. Only a few row groups are in memory at a time.
//!
//! | type in the schema | type in the table |
//! | --- | --- |
//! | `int32`, `sint64`, `fixed32` and other integers | integers of the same size and sign |
//! | `float`, `double`, `bool`, `string` | the same type |
//! | `bytes` | binary |
//! | an enum | a dictionary of names; a number without a name has its digits as a name |
//! | a message | a struct |
//! | a repeated field or a map | a list or a map; empty if it has no elements |
//! | a field with presence (`optional`, in a `oneof`, a message, or proto2) | null if absent |
//! | `google.protobuf.Timestamp` | a timestamp in UTC, in nanoseconds or [another unit] |
//! | `google.protobuf.Duration` | a duration, in nanoseconds or [another unit] |
//! | a wrapper such as `google.protobuf.Int64Value` | the wrapped value, or null |
//! | a message without fields | true, or null |
//!
//! A column can be a nested field, such as `args.key`. If `args` is repeated, each value of the
//! column is a list of keys.
//!
//! [another unit]: TableOptions::time_unit
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod column;
mod csv;
mod fields;
mod flat;
mod ipc;
mod leaf;
mod names;
mod options;
mod parquet;
mod pending;
mod plan;
mod repeats;
mod shape;
mod source;
mod stream;
mod table;
mod time;
mod unit;

pub use options::TableOptions;
pub use stream::TableStream;
pub use table::Table;
/// The crates whose types are in the signatures of this crate's functions.
#[doc(no_inline)]
pub use {arrow_array, arrow_schema};
