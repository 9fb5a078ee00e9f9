//! Values of a query as rows of a table: what of them is copied, and what they are in.

use std::ops::Range;

use super::portion::Portion;
use super::select::Selected;
use crate::Result;
use crate::path::Select;
use crate::wire::{Field, WireCursor};

/// How much of a field is copied at a time.
const COPY_LEN: u64 = 64 << 10;

impl Selected<'_> {
    /// Returns where the value that was given last begins in the message.
    pub fn start(&self) -> u64 {
        self.last.first().map_or(0, |piece| piece.start)
    }

    /// Returns true if all of the value that was given last stands in one piece from there on.
    pub fn is_in_one_piece(&self) -> bool {
        self.last.len() < 2
    }

    /// Returns the index or key of the element that is gone through at a
    /// [level](crate::path::PathQuery::levels); `None` if nothing was given yet.
    pub fn element(&self, level: usize) -> Option<&Select> {
        self.frames.get(level).map(|frame| &frame.select)
    }

    /// Returns where that element begins in the message, which tells it from all others of its level.
    pub fn element_start(&self, level: usize) -> Option<u64> {
        let element = &self.frames.get(level)?.element;
        element.first().map(|piece| piece.start)
    }

    /// Appends to `out` the fields of the message that was given last that `keep` says yes to, as they
    /// stand there. The others are hopped over.
    ///
    /// # Errors
    ///
    /// What `keep` fails with; [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) if it
    /// isn't a message; what is wrong with the chunks that are read.
    pub fn fields_to(
        &mut self,
        keep: impl FnMut(&Field) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let copied = copy_fields(&mut self.cursor, &self.last, keep, out);
        copied.map_err(|error| self.cursor.input_mut().damage_first(error))
    }

    /// Appends to `out` the fields of the element that is gone through at a level, as
    /// [`fields_to`](Self::fields_to) those of the value.
    ///
    /// # Errors
    ///
    /// As [`fields_to`](Self::fields_to).
    pub fn element_fields_to(
        &mut self,
        level: usize,
        keep: impl FnMut(&Field) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(frame) = self.frames.get(level) else {
            return Ok(());
        };
        let copied = copy_fields(&mut self.cursor, &frame.element, keep, out);
        copied.map_err(|error| self.cursor.input_mut().damage_first(error))
    }
}

/// Copies some fields of a message that stands in these pieces.
fn copy_fields(
    cursor: &mut WireCursor<Portion<'_>>,
    pieces: &[Range<u64>],
    mut keep: impl FnMut(&Field) -> Result<bool>,
    out: &mut Vec<u8>,
) -> Result<()> {
    for piece in pieces {
        cursor.set_range(piece.clone());
        while let Some(field) = cursor.next()? {
            if !keep(&field)? {
                continue;
            }
            let mut at = field.start;
            while at < field.end {
                let end = field.end.min(at + COPY_LEN);
                out.extend_from_slice(cursor.bytes(at..end)?);
                at = end;
            }
        }
    }
    Ok(())
}
