//! Comparing two messages without loading either into memory.
//!
//! Both messages are walked side by side. The comparison ignores the order of different fields, the
//! order of map entries, whether numbers are packed, superseded values, and whether a field without
//! presence is written if it has its default value. Floats are compared by their bits. Unknown
//! fields are compared by field number in wire form, and so are all fields of a message of unknown
//! type.
//!
//! Elements of a repeated field are matched by a field that looks like a name, if every element has
//! a name and the names are unique. Otherwise they are matched by content, so that one inserted
//! element is one difference.
//!
//! A comparison uses memory for the keys of each compared map, the bytes of messages up to 1 MiB,
//! 32 bytes for each list element from the first difference on, and 16 bytes for each run of
//! adjacent fields with the same number.
//!
//! ```
//! use proto_splitter_core::compare::{Comparison, compare};
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//!
//! // The fields 1 and 2, and the same in reverse order.
//! let (a, b) = (b"\x08\x05\x12\x01x".to_vec(), b"\x12\x01x\x08\x05".to_vec());
//! let view = |bytes| MessageView::of_plain(bytes, ReadOptions::new());
//! assert_eq!(compare(&view(&a)?, &view(&b)?, 10)?, Comparison::Equal);
//! let c = b"\x12\x01y\x08\x05".to_vec();
//! let Comparison::Different(differences) = compare(&view(&a)?, &view(&c)?, 10)? else {
//!     return Err("they differ".into());
//! };
//! assert_eq!(differences[0].path, "2".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod difference;
mod elements;
mod lists;
mod matching;
mod walk;

use crate::Result;
use crate::view::MessageView;
use crate::wire::{Input, WireCursor};
pub use difference::{Comparison, Difference, DifferenceKind};
use walk::{Sides, Walk, first_byte};

/// Compares two messages, and reports at most `limit` differences. A limit of 0 counts as 1. The
/// type of the first view applies to both messages.
///
/// # Errors
///
/// Damage in the chunks or bytes of either message;
/// [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) if a compared message breaks the
/// wire format, or a map has a key that isn't UTF-8;
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) if messages nest deeper than the
/// first view's [`max_message_depth`](crate::merge::Limits::max_message_depth).
pub fn compare(
    first: &MessageView<'_>,
    second: &MessageView<'_>,
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

fn compare_sides<I: Input, J: Input>(
    sides: &mut Sides<I, J>,
    first: &MessageView<'_>,
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
