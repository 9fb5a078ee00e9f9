//! Reading a message as a table. Each value that a query selects is a row, and the columns are
//! fields of the value and of the elements that enclose it.

use std::ops::Range;

use super::portion::Portion;
use super::select::Selected;
use crate::path::Select;
use crate::wire::{Field, WireCursor};
use crate::{Error, Result};

impl Selected<'_> {
    /// Returns the start of the most recently returned value, as an offset in the message.
    pub fn start(&self) -> u64 {
        self.last.first().map_or(0, |piece| piece.start)
    }

    /// Returns true if the most recently returned value is contiguous.
    pub fn is_in_one_piece(&self) -> bool {
        self.last.len() < 2
    }

    /// Returns the index or key of the current element at a
    /// [level](crate::path::PathQuery::levels); `None` if there is no such level. Before the first
    /// value is read, the result is unspecified.
    pub fn element(&self, level: usize) -> Option<&Select> {
        self.frames.get(level).map(|frame| &frame.select)
    }

    /// Returns the start of the current element at a level, as an offset in the message; `None` if
    /// there is no such element. The offset is unique within the level.
    pub fn element_start(&self, level: usize) -> Option<u64> {
        let element = &self.frames.get(level)?.element;
        element.first().map(|piece| piece.start)
    }

    /// Adds the start of the most recently returned value to `error` if it has no offset yet. For a
    /// chunked message, the error then has the chunk and the offset in the chunk, and also the
    /// chunk's file if it isn't the file with the trailer. If a chunk that was read is damaged,
    /// returns an error about the damage instead.
    #[must_use]
    pub fn at_fault(&mut self, error: Error) -> Error {
        let start = self.start();
        let portion = self.cursor.input_mut();
        let error = portion.damage_first(error.at_offset(start));
        portion.in_chunk(error)
    }

    /// Appends to `out`, in wire form, all fields for which `keep` returns true, from the most
    /// recently returned value, which must be a message.
    ///
    /// # Errors
    ///
    /// Any error from `keep`; [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) if
    /// the value isn't a message; damage in the chunks that are read.
    pub fn fields_to(
        &mut self,
        keep: impl FnMut(&Field) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let copied = copy_fields(&mut self.cursor, &self.last, keep, out);
        copied.map_err(|error| self.cursor.input_mut().damage_first(error))
    }

    /// Appends to `out`, in wire form, all fields for which `keep` returns true, from the current
    /// element at a [level](crate::path::PathQuery::levels). Appends nothing if there is no such
    /// element.
    ///
    /// # Errors
    ///
    /// The errors of [`fields_to`](Self::fields_to).
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

/// Appends to `out` the fields for which `keep` returns true, from the message whose bytes are at
/// the ranges `pieces`.
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
            cursor.read_pieces(field.start..field.end, |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
        }
    }
    Ok(())
}
