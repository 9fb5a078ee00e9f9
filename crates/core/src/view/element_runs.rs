//! Slices of repeated fields that can be skipped without being read, since the trailer contains
//! their numbers of elements.

use std::ops::Range;

use crate::container::Trailer;
use crate::merge::{MergePlan, chunk_of};
use crate::spans::Span;
use crate::wire::{FieldNumber, Input, WireCursor};

/// A slice (a chunk with consecutive elements of a field) that is contiguous in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementRun {
    /// Range of the slice in the message.
    pub(super) range: Range<u64>,
    pub(super) number: FieldNumber,
    /// Number of elements in the slice.
    pub(super) count: u64,
}

/// Returns the slices with known numbers of elements that a merge plan includes unchanged, in
/// message order.
pub(super) fn element_runs(plan: &MergePlan, trailer: &Trailer) -> Vec<ElementRun> {
    let chunks = &trailer.metadata().chunks;
    let mut counted = vec![None; chunks.len()];
    for (chunk, number, count) in trailer.slices().filter(|(.., count)| *count > 0) {
        counted[chunk] = Some((number, count));
    }
    let run = |span: Span<'_>| {
        let (chunk, range) = chunk_of(&span)?;
        let (number, count) = (*counted.get(chunk)?)?;
        let is_whole = range == (0..chunks.get(chunk)?.size);
        // An element takes at least two bytes: a tag and a length.
        (is_whole && count <= span.len / 2).then(|| ElementRun {
            range: span.range(),
            number,
            count,
        })
    };
    plan.spans().iter().filter_map(run).collect()
}

/// An input that reads a message and has a list of the slices in it.
pub(super) trait ElementRuns: Input {
    /// Returns the first slice that begins within a range and contains elements of the field
    /// `number`.
    fn next_run(&self, within: Range<u64>, number: FieldNumber) -> Option<&ElementRun>;

    /// Returns the bytes at `range`; `None` if they are not in memory.
    fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]>;
}

/// A cursor over the slices of one field, for skipping entire slices while counting elements.
#[derive(Clone, Debug)]
pub(super) struct RunCursor {
    number: FieldNumber,
    next: Option<ElementRun>,
}

impl RunCursor {
    /// Creates a cursor over the slices of the field `number` that begin in the range which is left
    /// for `cursor` to read.
    pub(super) fn new<I: ElementRuns>(cursor: &mut WireCursor<I>, number: FieldNumber) -> Self {
        let left = cursor.position()..cursor.end();
        let next = cursor.input_mut().next_run(left, number).cloned();
        RunCursor { number, next }
    }

    /// Skips consecutive slices that begin at the cursor's position and have at most `most`
    /// elements in total. Returns the number of elements skipped.
    #[inline]
    pub(super) fn pass<I: ElementRuns>(&mut self, cursor: &mut WireCursor<I>, most: u64) -> u64 {
        match &self.next {
            Some(run) if run.range.start <= cursor.position() => self.pass_some(cursor, most),
            _ => 0,
        }
    }

    fn pass_some<I: ElementRuns>(&mut self, cursor: &mut WireCursor<I>, most: u64) -> u64 {
        let (mut passed, end) = (0, cursor.end());
        while let Some(run) = &self.next {
            let position = cursor.position();
            if position < run.range.start {
                break;
            }
            let is_here = position == run.range.start && run.range.end <= end;
            let mut behind = position.max(run.range.start + 1);
            if is_here && run.count <= most - passed {
                passed += run.count;
                behind = run.range.end;
                cursor.set_range(behind..end);
            }
            let next = cursor.input_mut().next_run(behind..end, self.number);
            self.next = next.cloned();
        }
        passed
    }
}
