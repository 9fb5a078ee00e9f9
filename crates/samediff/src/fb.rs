//! FlatBuffers: tables with the schemas in `schemas/`, read on demand and written in one pass.
//!
//! The code that `planus` and `flatc` generate needs `unsafe`, and the whole buffer in memory.
//! Instead, this module treats the schema as data: [`schema`] is generated from the `.fbs` files,
//! and interpreted by one reader and one writer. Thus, a 2 GiB classic file can be read while its
//! arrays stay in the file.
//!
//! ```text
//! buffer   u32 offset of the root table
//! table    i32 distance back to its vtable, then its fields
//! vtable   u16 own length, u16 the table's length, u16 offset of each field in the table (0: absent)
//! field    a number, or a u32: distance forward to a table, string or vector
//! vector   u32 count, then the elements; a string is a vector of bytes
//! ```

mod object;
mod read;
#[rustfmt::skip]
#[allow(clippy::module_inception, reason = "the table FlatGraph is in the namespace flat_graph")]
pub(crate) mod schema;
mod write;

pub(crate) use object::{Object, Span, Value};
pub(crate) use read::{Unknown, read};
pub(crate) use write::{MAX_BUFFER_LEN, write};

/// A table type in a schema.
#[derive(Debug)]
pub(crate) struct TableType {
    pub(crate) name: &'static str,
    /// Fields of the table. A field's index is its slot in the vtable.
    pub(crate) fields: &'static [FieldType],
}

/// A field in a schema.
#[derive(Debug)]
pub(crate) struct FieldType {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// Type of a field. Enumerations and `bool` are [`I8`](Kind::I8).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    I8,
    I32,
    I64,
    String,
    Table(&'static TableType),
    /// The bytes of an array, which stay in the buffer when the table is read.
    Payload,
    I8s,
    I32s,
    I64s,
    F64s,
    Strings,
    Tables(&'static TableType),
}
