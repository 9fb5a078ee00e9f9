//! Iterating over the occurrences of a field.

use std::borrow::Cow;

use record_file::ReadAt;

use super::SourceView;
use crate::Result;
use crate::path::FieldRef;
use crate::wire::{Field, FieldNumber, SourceInput, WireCursor, WireType, short_tag};

/// An iterator over the occurrences of a field in a message, each with the index of the message's
/// piece that contains it.
pub(in crate::split) struct Occurrences<'a> {
    pub(super) message: &'a SourceView<'a>,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt>>,
    number: FieldNumber,
    wire_type: WireType,
    /// Index of the message's next piece.
    piece: usize,
}

impl std::fmt::Debug for Occurrences<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Occurrences")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<'a> Occurrences<'a> {
    pub(in crate::split) fn new(message: &'a SourceView<'a>, field: &FieldRef) -> Self {
        let mut cursor = WireCursor::new(message.source.input());
        cursor.set_range(0..0);
        let number = FieldNumber(field.number());
        let wire_type = if field.is_group() {
            WireType::StartGroup
        } else {
            WireType::Len
        };
        Occurrences {
            message,
            cursor,
            number,
            wire_type,
            piece: 0,
        }
    }

    #[inline]
    pub(in crate::split) fn next(&mut self) -> Result<Option<(usize, Field)>> {
        loop {
            let next = self.cursor.next();
            match next.map_err(|error| error.at_path(self.message.display_path()))? {
                Some(field) => {
                    if field.number == self.number && field.wire_type == self.wire_type {
                        return Ok(Some((self.piece - 1, field)));
                    }
                }
                None if self.piece == self.message.piece_count() => return Ok(None),
                None => {
                    self.cursor.set_range(self.message.content(self.piece));
                    self.piece += 1;
                }
            }
        }
    }

    /// Returns the tag of the field; `None` unless it is the one-byte tag of a length-delimited
    /// field.
    pub(super) fn tag(&self) -> Option<u8> {
        short_tag(self.number, self.wire_type)
    }

    /// Continues at another position in the same piece of the message.
    pub(super) fn go_on_at(&mut self, position: u64) {
        let end = self.cursor.end();
        self.cursor.set_range(position..end);
    }

    pub(super) fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// Returns the buffered bytes that follow the most recently returned occurrence, in the same
    /// piece of the message.
    pub(super) fn ahead(&self) -> Cow<'a, [u8]> {
        let rest = self.cursor.position()..self.cursor.end();
        self.cursor.input().ahead(rest)
    }

    pub(super) fn end(&mut self) {
        self.cursor.set_range(0..0);
        self.piece = self.message.piece_count();
    }
}
