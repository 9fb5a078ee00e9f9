//! Copying several adjacent elements that a query selects at once.

use std::ops::Range;

use super::select::Selected;
use crate::path::Select;
use crate::wire::{Input, WireType, alike};

/// Limits of a run of elements, for [`Selected::copy_run`].
#[derive(Clone, Copy, Debug)]
pub struct RunSize {
    /// Maximum number of elements in a run.
    pub elements: usize,
    /// Size in bytes at which a run accepts no more elements.
    pub bytes: usize,
    /// Minimum size of an element that ends the run instead of being copied, in bytes.
    pub large: u64,
}

impl Selected<'_> {
    /// Copies the elements that follow the most recently returned value, with their tags and
    /// lengths, to `out`, as long as they are selected, adjacent and in memory already. For each
    /// element, calls `met` with the start of its value in the message and the range of its value
    /// in `out`. May copy fewer elements than it could, or none; [`next`](Iterator::next) then
    /// returns the others.
    ///
    /// Afterwards, the last copied element counts as the most recently returned value.
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
        // An error ends the run; the next call of `next` reports it.
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
}
