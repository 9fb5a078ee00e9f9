//! Whether two messages are equal, and where they differ, without either being in memory.
//!
//! Both are walked side by side, hopping. The order of different fields doesn't count, nor do the
//! order of map entries, how numbers are packed, superseded values, or whether a value without
//! presence is written when it is the default; floats are compared by their bits. What a type
//! doesn't know is compared as it is written, field number by field number; so is everything where
//! no type is known.
//!
//! In memory are the keys of a map that is compared, the bytes of a message of up to 1 MiB, and of
//! the fields of a message where they are: 16 bytes for each stretch of the same field.
//!
//! ```
//! use proto_splitter_core::compare::{Comparison, compare};
//! use proto_splitter_core::lazy::MessageView;
//! use proto_splitter_core::merge::MergeOptions;
//!
//! // The fields 1 and 2, and the other way round.
//! let (a, b) = (b"\x08\x05\x12\x01x".to_vec(), b"\x12\x01x\x08\x05".to_vec());
//! let view = |bytes| MessageView::of_plain(bytes, MergeOptions::new());
//! assert_eq!(compare(&view(&a)?, &view(&b)?, 10)?, Comparison::Equal);
//! let c = b"\x12\x01y\x08\x05".to_vec();
//! let Comparison::Different(differences) = compare(&view(&a)?, &view(&c)?, 10)? else {
//!     return Err("they differ".into());
//! };
//! assert_eq!(differences[0].path, "2".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod elements;
mod walk;

use std::fmt;

use record_file::ReadAt;

use crate::Result;
use crate::lazy::MessageView;
use crate::path::{FieldPath, FieldRef};
use crate::wire::{Input, WireCursor};
use walk::{Sides, Walk, first_byte};

/// How two messages compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Their bytes are the same.
    Identical,
    /// They are equal as messages; their bytes differ.
    Equal,
    /// They differ: here are the first differences, by field number and index.
    Different(Vec<Difference>),
}

/// A place where two messages differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The place.
    pub path: FieldPath,
    /// What is different.
    pub how: How,
}

/// What is different about two values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// Only the first message has one.
    OnlyInFirst,
    /// Only the second message has one.
    OnlyInSecond,
    /// A repeated field, equal as far as both have it, has so many elements.
    Counts(u64, u64),
    /// Numbers or short strings, as text.
    Values(String, String),
    /// Strings, bytes, or what the type doesn't know.
    Bytes {
        /// Bytes of the first.
        first: u64,
        /// Bytes of the second.
        second: u64,
        /// The first that differs.
        at: u64,
    },
}

impl How {
    /// What is different, in words that call the two messages so.
    pub fn said<'a>(&'a self, first: &'a str, second: &'a str) -> impl fmt::Display + 'a {
        Said {
            how: self,
            first,
            second,
        }
    }
}

struct Said<'a> {
    how: &'a How,
    first: &'a str,
    second: &'a str,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (self.first, self.second);
        match self.how {
            How::OnlyInFirst => write!(f, "only in {a}"),
            How::OnlyInSecond => write!(f, "only in {b}"),
            How::Counts(x, y) => write!(f, "{x} elements in {a}, {y} in {b}"),
            How::Values(x, y) => write!(f, "{x} in {a}, {y} in {b}"),
            How::Bytes { first, second, at } => write!(
                f,
                "{first} byte{} in {a}, {second} in {b}, different from byte {at} on",
                if *first == 1 { "" } else { "s" }
            ),
        }
    }
}

/// Compares two messages, and tells at most `limit` differences, at least one; the type is that of
/// the first view.
///
/// # Errors
///
/// What is wrong with the chunks or the bytes of either;
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) if messages nest deeper than the
/// first view's [`max_message_depth`](crate::merge::Limits::max_message_depth).
pub fn compare<S: ReadAt, T: ReadAt>(
    first: &MessageView<'_, S>,
    second: &MessageView<'_, T>,
    limit: usize,
) -> Result<Comparison> {
    let mut sides = Sides {
        a: WireCursor::new(first.unwatched()?),
        b: WireCursor::new(second.unwatched()?),
    };
    compare_sides(&mut sides, first, limit).map_err(|error| {
        let error = sides.a.into_input().damage_first(error);
        sides.b.into_input().damage_first(error)
    })
}

fn compare_sides<S: ReadAt, I: Input, J: Input>(
    sides: &mut Sides<I, J>,
    first: &MessageView<'_, S>,
    limit: usize,
) -> Result<Comparison> {
    let whole = (0..sides.a.end(), 0..sides.b.end());
    let progress = first.progress();
    let size = whole.0.end;
    let span = tracing::debug_span!("compare bytes", bytes = size).entered();
    let meter = progress.meter(size);
    if whole.0 == whole.1 && first_byte(sides, &whole.0, &whole.1, Some(&meter))?.is_none() {
        return Ok(Comparison::Identical);
    }
    drop(span);
    let _span = tracing::debug_span!("compare fields", bytes = size).entered();
    let meter = progress.meter(size);
    let mut walk = Walk::new(limit.max(1), first.walked_depth(), &meter);
    let message = first.descriptor().cloned();
    walk.messages(sides, &[whole.0], &[whole.1], message.as_ref(), 0)?;
    Ok(match walk.into_found() {
        found if found.is_empty() => Comparison::Equal,
        found => Comparison::Different(found),
    })
}

/// Whether a field that is absent says the same as one with its default.
fn is_implicit(field: &FieldRef) -> bool {
    match field {
        FieldRef::Field(field) => !field.supports_presence(),
        FieldRef::Extension(field) => !field.supports_presence(),
    }
}
