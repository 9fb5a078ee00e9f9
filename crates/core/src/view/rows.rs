//! Reading a query's values as rows of a table: selected fields of each value and its enclosing
//! elements.

use std::ops::Range;

use super::portion::Portion;
use super::select::Selected;
use crate::Result;
use crate::path::Select;
use crate::wire::{Field, Input, WireCursor, WireType, alike};

/// Number of bytes of a field to copy at a time.
const COPY_LEN: u64 = 64 << 10;

/// Bounds on a run of elements, for [`Selected::copy_run`].
#[derive(Clone, Copy, Debug)]
pub struct RunSize {
    /// Maximum number of elements.
    pub elements: usize,
    /// Number of bytes after which the run ends.
    pub bytes: usize,
    /// Size in bytes of the first element that isn't part of the run.
    pub large: u64,
}

impl Selected<'_> {
    /// Copies the elements that follow the last value returned to `out`, with their tags and
    /// lengths, as long as all of them are selected, adjacent, and in memory already. Calls `met`
    /// for each with its start in the message and the range of its value in `out`. May copy none,
    /// also where elements follow, which [`next`](Iterator::next) returns.
    ///
    /// The last element copied is then the last value returned.
    pub fn copy_run(
        &mut self,
        size: RunSize,
        out: &mut Vec<u8>,
        mut met: impl FnMut(u64, Range<usize>),
    ) {
        let is_deepest = self.frames.len() == self.levels.len();
        let level = self
            .levels
            .last()
            .filter(|level| is_deepest && level.takes_all());
        let (Some(tag), Some(frame)) = (level.and_then(|level| level.tag), self.frames.last_mut())
        else {
            return;
        };
        if !frame.picked.contains(&frame.next) || frame.left.is_empty() {
            return;
        }
        let start = frame.left.start;
        // Whatever is wrong, the next value is the error.
        let Ok(bytes) = self.cursor.input_mut().fetch(start, 1) else {
            return;
        };
        let left = usize::try_from(frame.left.end - start).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(left)];
        let picked = usize::try_from(frame.picked.end - frame.next).unwrap_or(usize::MAX);
        let most = size.elements.min(picked);
        let (begin, mut at, mut count) = (out.len(), 0, 0);
        let (mut field, mut value) = (0, 0);
        while count < most
            && at < size.bytes
            && let Some((head, len)) = alike(&bytes[at..], tag)
            && (len as u64) < size.large
        {
            (field, value) = (at, at + head);
            at = value + len;
            met(start + value as u64, begin + value..begin + at);
            count += 1;
        }
        if count == 0 {
            return;
        }
        out.extend_from_slice(&bytes[..at]);
        let end = start + at as u64;
        frame.left.start = end;
        frame.next += count as u64;
        frame.select = Select::Index(frame.next - 1);
        frame.element.clear();
        frame.element.push(start + value as u64..end);
        self.last.clone_from(&frame.element);
        self.met = start + field as u64..end;
        self.wire = Some(WireType::Len);
    }

    /// Returns the start of the last value returned, in the message.
    pub fn start(&self) -> u64 {
        self.last.first().map_or(0, |piece| piece.start)
    }

    /// Returns true if all of the last value returned is contiguous from its start.
    pub fn is_in_one_piece(&self) -> bool {
        self.last.len() < 2
    }

    /// Returns the index or key of the current element at a
    /// [level](crate::path::PathQuery::levels); `None` before the first value.
    pub fn element(&self, level: usize) -> Option<&Select> {
        self.frames.get(level).map(|frame| &frame.select)
    }

    /// Returns the start of that element in the message, which is unique within its level.
    pub fn element_start(&self, level: usize) -> Option<u64> {
        let element = &self.frames.get(level)?.element;
        element.first().map(|piece| piece.start)
    }

    /// Appends to `out` the fields of the last message returned for which `keep` returns true, in
    /// wire form. Skips the others.
    ///
    /// # Errors
    ///
    /// Any error of `keep`; [`ErrorKind::InvalidMessage`](crate::ErrorKind::InvalidMessage) if the
    /// value isn't a message; damage in the chunks that are read.
    pub fn fields_to(
        &mut self,
        keep: impl FnMut(&Field) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let copied = copy_fields(&mut self.cursor, &self.last, keep, out);
        copied.map_err(|error| self.cursor.input_mut().damage_first(error))
    }

    /// Appends to `out` the fields of the current element at a level, as
    /// [`fields_to`](Self::fields_to) does for the value.
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

/// Copies some fields of a message with these pieces.
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
