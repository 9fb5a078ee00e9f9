//! Field paths: `meta_graphs[0].graph_def.node[7].attr["value"].tensor`, as text, as numbers, and
//! as `FieldIndex` tags.
//!
//! A path is a sequence of [`Step`]s. A step is a field, with an index for a repeated field, or a
//! key for a map. A [`PathQuery`] is a path that may also select elements in other ways:
//!
//! ```text
//! path  = step *( "." step )
//! step  = field [ "[" ( index | key ) "]" ]
//! field = name | number | "(" extension name ")"
//! key   = "true" | "false" | integer | quoted      quoted as in JSON: "say \"hi\"\n", or in '
//!
//! query = pick *( "." pick )
//! pick  = step | field "[" ( "*" | "-" index | [ place ] ":" [ place ] | quoted | where *( "," where ) ) "]"
//! where = path ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" ) value
//! place = [ "-" ] index
//! value = quoted | text without ] or ,
//! ```
//!
//! With a message's descriptor, names are resolved, and keys get the key type of their map. Without
//! a descriptor, fields are given by number, and an unquoted integer in brackets is an index. A
//! negative integer is a key in a [`FieldPath`], and counts from the end in a [`PathQuery`].

mod condition;
mod display;
mod expected;
mod field_path;
mod field_ref;
mod key_codec;
mod levels;
mod map_entry;
mod map_key;
mod parse;
mod query;
mod resolve;
mod scalar;
mod tags;

pub(crate) use condition::Condition;
pub(crate) use expected::NumberForm;
pub use field_path::{FieldPath, Select, Step};
#[doc(hidden)]
pub use field_ref::FieldRef;
pub(crate) use field_ref::{check_field, kind_name, message_below, value_kind, value_message};
pub(crate) use key_codec::{
    CanonicalKey, EntryKey, KeyCodec, KeyForm, canonical_key, entry_key, is_key,
};
pub use levels::QueryLevel;
pub(crate) use map_entry::{
    LARGEST_HELD_ENTRY, MapEntry, is_closed, key_codec, parse_entry, valid_key, with_key,
};
pub use map_key::MapKey;
pub use query::PathQuery;
pub(crate) use query::{Pick, Place};
pub use resolve::{PathTarget, TargetKind};
pub(crate) use resolve::{is_implicit, step_in};
pub use scalar::ScalarValue;

#[cfg(test)]
mod tests;
