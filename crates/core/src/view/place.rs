//! The location of a value in a message, with the fields that enclose the value.

use std::ops::Range;

use crate::merge::{MergePlan, chunk_of};
use crate::path::TargetKind;
use crate::wire::{Field, Input, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The location of a value in a message.
pub(crate) struct Place {
    /// Range of the value in the message.
    pub(crate) value: Range<u64>,
    /// The field that contains the value.
    pub(crate) field: Field,
    /// The kind of value; `None` if the type is unknown.
    pub(crate) kind: Option<TargetKind>,
    /// Merge plan for the chunks along the path; `None` if the message isn't chunked.
    pub(crate) plan: Option<MergePlan>,
}

impl Place {
    /// Returns the chunk that contains the value's tag, and the tag's offset in that chunk.
    pub(crate) fn in_chunk(&self) -> Result<(usize, u64)> {
        let at = self.field.start;
        let span = self.plan.as_ref().and_then(|plan| plan.spans().locate(at));
        let found = span.and_then(|span| chunk_of(&span));
        found
            .map(|(chunk, range)| (chunk, range.start))
            .ok_or_else(|| {
                let message = "the value's tag is in no chunk";
                Error::new(ErrorKind::InvalidTrailer, message)
            })
    }
}

/// Returns the fields that enclose a value, from the outermost to the value's own field. `is_it`
/// must return true for the value's own field, and `contains` for the fields that enclose it.
pub(crate) fn enclosing<I: Input>(
    cursor: &mut WireCursor<I>,
    is_it: impl Fn(&Field) -> bool,
    contains: impl Fn(&Field) -> bool,
) -> Result<Vec<Field>> {
    let mut chain = Vec::new();
    while let Some(field) = cursor.next()? {
        if is_it(&field) {
            chain.push(field);
            return Ok(chain);
        }
        let is_message = matches!(field.wire_type, WireType::Len | WireType::StartGroup);
        if is_message && contains(&field) {
            cursor.set_range(field.value.clone());
            chain.push(field);
        }
    }
    let message = "the value is not where it was found";
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

/// Returns the fields that enclose the value at a range in a message, from the outermost to the
/// value's own field.
pub(crate) fn enclosing_range<I: Input>(
    cursor: &mut WireCursor<I>,
    value: &Range<u64>,
) -> Result<Vec<Field>> {
    let contains = |field: &Field| field.value.start <= value.start && value.end <= field.value.end;
    enclosing(cursor, |field| field.value == *value, contains)
}
