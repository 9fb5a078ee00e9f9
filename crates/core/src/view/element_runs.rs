//! Passing over slices whose elements are counted in the trailer, without reading them.

use std::ops::Range;

use crate::container::Trailer;
use crate::merge::{MergePlan, chunk_of};
use crate::spans::Span;
use crate::wire::{FieldNumber, Input, WireCursor};

/// A slice that stands in a message in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementRun {
    /// Its bytes in the message.
    pub(super) range: Range<u64>,
    pub(super) number: FieldNumber,
    /// How many elements it has.
    pub(super) count: u64,
}

/// The slices that a plan takes as they are, in the order of the message.
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
        // An element takes a tag and a length at least.
        (is_whole && count <= span.len / 2).then(|| ElementRun {
            range: span.range(),
            number,
            count,
        })
    };
    plan.spans().iter().filter_map(run).collect()
}

/// What knows of slices in the message that a cursor hops over.
pub(super) trait KnowsRuns: Input {
    /// The first slice of a field that begins at `position` or behind it.
    fn next_run(&self, position: u64, number: FieldNumber) -> Option<&ElementRun>;

    /// The bytes at `range`, if they are in memory.
    fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]>;
}

/// Where the next slice of a field is, for one who counts its elements.
#[derive(Clone, Debug)]
pub(super) struct Passing {
    number: FieldNumber,
    next: Option<ElementRun>,
}

impl Passing {
    /// For the elements with this number from where the cursor is.
    pub(super) fn new<I: KnowsRuns>(cursor: &mut WireCursor<I>, number: FieldNumber) -> Self {
        let position = cursor.position();
        let next = cursor.input_mut().next_run(position, number).cloned();
        Passing { number, next }
    }

    /// Passes over the slices that begin where the cursor is, as far as they have at most `most`
    /// elements together; gives how many those are.
    #[inline]
    pub(super) fn pass<I: KnowsRuns>(&mut self, cursor: &mut WireCursor<I>, most: u64) -> u64 {
        match &self.next {
            Some(run) if run.range.start <= cursor.position() => self.pass_some(cursor, most),
            _ => 0,
        }
    }

    fn pass_some<I: KnowsRuns>(&mut self, cursor: &mut WireCursor<I>, most: u64) -> u64 {
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
            self.next = cursor.input_mut().next_run(behind, self.number).cloned();
        }
        passed
    }
}
