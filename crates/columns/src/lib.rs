//! Elements of protobuf messages of any size as columns: Parquet, Arrow and CSV.
//!
//! A [`Table`] has one row for each element that a
//! [`PathQuery`](proto_splitter_core::path::PathQuery) selects in a message, and one column for
//! each requested field. Values are copied directly from the bytes of the message into columns,
//! without building message objects. Only a few row groups are in memory at a time.
//!
//! | in the schema | in the table |
//! | --- | --- |
//! | `int32`, `int64`, `uint32`, `uint64` and their other forms | integers of the same size and
//! sign |
//! | `float`, `double`, `bool`, `string` | the same |
//! | `bytes` | binary |
//! | an enum | a dictionary of names; a number without a name becomes its digits |
//! | a message | a struct |
//! | a repeated field, a map | a list, a map; empty if it has no elements |
//! | a field with presence: `optional`, in a `oneof`, a message, any of proto2 | null if absent |
//! | `google.protobuf.Timestamp` and `Duration` | a timestamp in UTC, a duration, in nanoseconds
//! unless the options set another unit |
//! | `google.protobuf.Int64Value` and the like | the value, or null |
//! | a message without fields | true, or null |
//!
//! A column can be nested, such as `args.key`. If `args` is repeated, the column holds lists of
//! keys.
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
/// The crates whose types appear in the signatures of this crate.
#[doc(no_inline)]
pub use {arrow_array, arrow_schema};
