//! Whether two messages are equal, and where they differ, without either being in memory.
//!
//! Both are walked side by side, hopping. The order of different fields doesn't count, nor do the
//! order of map entries, how numbers are packed, superseded values, or whether a value without
//! presence is written when it is the default; floats are compared by their bits. What a type
//! doesn't know is compared as it is written, field number by field number; so is everything where
//! no type is known.
//!
//! The elements of a list are matched by a field that sounds like a name, where all have one and no
//! two the same; else by what they hold, so that one that was inserted is one difference.
//!
//! In memory are the keys of a map that is compared, the bytes of a message of up to 1 MiB, 32 bytes
//! for each element of a list from the first on that differs, and of the fields of a message where they are: 16 bytes for each stretch of the same field.
//!
//! ```
//! use proto_splitter_core::compare::{Comparison, compare};
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//!
//! // The fields 1 and 2, and the other way round.
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

/// Compares two messages, and tells at most `limit` differences, at least one; the type is that of
/// the first view.
///
/// # Errors
///
/// What is wrong with the chunks or the bytes of either;
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
