//! The part of a message that is needed to look up a path.

use std::io::Write;
use std::ops::Range;

use super::element_runs::{ElementRun, ElementRuns};
use crate::merge::{ChunkStore, MergePlan, PlanReader};
use crate::progress::{HighWaterMark, Progress};
use crate::wire::{FieldNumber, Input, WireCursor};
use crate::{Error, Result};

/// An input with the part of a message that is needed to look up a path.
pub(crate) struct Portion<'a> {
    input: PlanReader<'a, dyn ChunkStore + 'a>,
    furthest: HighWaterMark,
    /// Slices in this part of the message, in order, for which the number of elements is known.
    runs: Vec<ElementRun>,
}

impl<'a> Portion<'a> {
    pub(super) fn new(
        input: PlanReader<'a, dyn ChunkStore + 'a>,
        runs: Vec<ElementRun>,
        progress: &Progress,
    ) -> Self {
        let furthest = HighWaterMark::new(progress.meter(input.size()));
        Portion {
            input,
            furthest,
            runs,
        }
    }

    /// Disables progress reporting, for callers that report their own progress.
    pub(super) fn unwatched(mut self) -> Self {
        self.furthest = HighWaterMark::new(Progress::default().meter(0));
        self
    }

    /// Reads all accessed chunks to their ends, and thereby checks the chunks for damage.
    pub(super) fn check(&mut self) -> Result<()> {
        self.input.check()
    }

    /// Returns the error to report after reading this part of the message failed with `error`.
    /// Damage in an accessed chunk takes precedence.
    pub(crate) fn damage_first(&mut self, error: Error) -> Error {
        self.input.damage_first(error)
    }

    /// Converts an error at an offset in this part of the message to an error at an offset in a
    /// chunk, and adds the name of the chunk's file.
    pub(super) fn in_chunk(&self, error: Error) -> Error {
        self.input.in_chunk(error)
    }

    /// Returns the merge plan for this part of the message.
    pub(super) fn plan(&self) -> &MergePlan {
        self.input.plan()
    }

    /// Returns the merge plan for this part of the message; `None` if the message isn't chunked.
    pub(crate) fn plan_of_chunks(&self) -> Option<&MergePlan> {
        self.input.plan_of_chunks()
    }
}

impl ElementRuns for Portion<'_> {
    fn next_run(&self, within: Range<u64>, number: FieldNumber) -> Option<&ElementRun> {
        let from = self
            .runs
            .partition_point(|run| run.range.start < within.start);
        let mut runs = self.runs[from..]
            .iter()
            .take_while(|run| run.range.start < within.end);
        runs.find(|run| run.number == number)
    }

    #[inline]
    fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.input.part_at_hand(range)
    }
}

impl Input for Portion<'_> {
    fn size(&self) -> u64 {
        self.input.size()
    }

    #[inline]
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        self.furthest.reach(position)?;
        self.input.fetch(position, want)
    }
}

/// Writes the bytes at these ranges of a part of a message to `sink`.
pub(super) fn copy_ranges(
    cursor: &mut WireCursor<Portion<'_>>,
    ranges: &[Range<u64>],
    sink: &mut impl Write,
) -> Result<()> {
    for range in ranges {
        let copied = cursor.read_pieces(range.clone(), |bytes| Ok(sink.write_all(bytes)?));
        copied.map_err(|error| cursor.input_mut().damage_first(error))?;
    }
    Ok(())
}
