//! Keys of maps, in the form that paths use.

use std::fmt::{self, Write};

/// The key of a map entry, in one of the types that a `FieldIndex` can carry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapKey {
    /// A string key.
    String(String),
    /// A bool key.
    Bool(bool),
    /// A uint32 or fixed32 key.
    U32(u32),
    /// A uint64 or fixed64 key.
    U64(u64),
    /// An int32, sint32 or sfixed32 key.
    I32(i32),
    /// An int64, sint64 or sfixed64 key.
    I64(i64),
}

impl fmt::Display for MapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapKey::String(key) => write_quoted(f, key),
            MapKey::Bool(key) => key.fmt(f),
            MapKey::U32(key) => key.fmt(f),
            MapKey::U64(key) => key.fmt(f),
            MapKey::I32(key) => key.fmt(f),
            MapKey::I64(key) => key.fmt(f),
        }
    }
}

pub(super) fn write_quoted(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
