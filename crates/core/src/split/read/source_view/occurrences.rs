//! Going through whatever a field occurs as.

use std::borrow::Cow;

use record_file::ReadAt;

use super::SourceView;
use crate::Result;
use crate::path::FieldRef;
use crate::wire::{Field, FieldNumber, SourceInput, WireCursor, WireType, short_tag};

/// The appearances of a field in a message, with the piece of the message that each is in.
pub(in crate::split) struct Occurrences<'a> {
    pub(super) message: &'a SourceView<'a>,
    cursor: WireCursor<SourceInput<'a, dyn ReadAt>>,
    number: FieldNumber,
    wire_type: WireType,
    /// The piece that comes next.
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

    /// The tag, if it is one byte and of what is length-delimited.
    pub(super) fn tag(&self) -> Option<u8> {
        short_tag(self.number, self.wire_type)
    }

    /// Goes on at another place of the same piece.
    pub(super) fn go_on_at(&mut self, position: u64) {
        let end = self.cursor.end();
        self.cursor.set_range(position..end);
    }

    pub(super) fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// What is at hand of the piece behind what was found last.
    pub(super) fn ahead(&self) -> Cow<'a, [u8]> {
        let rest = self.cursor.position()..self.cursor.end();
        self.cursor.input().ahead(rest)
    }

    pub(super) fn end(&mut self) {
        self.cursor.set_range(0..0);
        self.piece = self.message.piece_count();
    }
}
