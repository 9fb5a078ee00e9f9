//! As much of a message as a path needs.

use std::ops::Range;

use super::element_runs::{ElementRun, KnowsRuns};
use crate::merge::{ChunkStore, MergePlan, PlanInput};
use crate::progress::{Furthest, Progress};
use crate::wire::{FieldNumber, Input};
use crate::{Error, Result};

/// As much of a message as a path needs.
pub(crate) struct Portion<'a> {
    input: PlanInput<'a, dyn ChunkStore + 'a>,
    furthest: Furthest,
    /// The slices in it that are counted, in their order.
    runs: Vec<ElementRun>,
}

impl<'a> Portion<'a> {
    pub(super) fn new(
        input: PlanInput<'a, dyn ChunkStore + 'a>,
        runs: Vec<ElementRun>,
        progress: &Progress,
    ) -> Self {
        let furthest = Furthest::new(progress.meter(input.size()));
        Portion {
            input,
            furthest,
            runs,
        }
    }

    /// The same, for a caller that reports progress itself.
    pub(super) fn unwatched(mut self) -> Self {
        self.furthest = Furthest::new(Progress::default().meter(0));
        self
    }

    /// Reads what is left of the chunks that were looked into, so that they were checked.
    pub(super) fn check(&mut self) -> Result<()> {
        self.input.check()
    }

    /// An error of one who hopped through it: damage that led to it comes first.
    pub(crate) fn damage_first(&mut self, error: Error) -> Error {
        self.input.damage_first(error)
    }

    /// Where its bytes come from.
    pub(super) fn plan(&self) -> &MergePlan {
        self.input.plan()
    }

    /// Where its bytes come from, if the message is in chunks.
    pub(crate) fn plan_of_chunks(&self) -> Option<&MergePlan> {
        self.input.plan_of_chunks()
    }
}

impl KnowsRuns for Portion<'_> {
    fn next_run(&self, position: u64, number: FieldNumber) -> Option<&ElementRun> {
        let from = self.runs.partition_point(|run| run.range.start < position);
        self.runs[from..].iter().find(|run| run.number == number)
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
