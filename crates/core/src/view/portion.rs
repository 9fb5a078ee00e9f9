//! As much of a message as a path needs.

use std::ops::Range;

use record_file::ReadAt;

use super::element_runs::{ElementRun, KnowsRuns};
use crate::merge::{MergePlan, PlanInput, RecordStore};
use crate::progress::{Furthest, Progress};
use crate::wire::{FieldNumber, Input, SourceInput};
use crate::{Error, Result};

/// As much of a message as a path needs.
pub(crate) struct Portion<'a, S> {
    bytes: PortionBytes<'a, S>,
    furthest: Furthest,
    /// The slices in it that are counted, in their order.
    runs: Vec<ElementRun>,
}

pub(super) enum PortionBytes<'a, S> {
    Chunked(Box<PlanInput<'a, RecordStore<S>>>),
    Plain(SourceInput<'a, dyn ReadAt + 'a>),
}

impl<'a, S: ReadAt> Portion<'a, S> {
    pub(super) fn new(bytes: PortionBytes<'a, S>, progress: &Progress) -> Self {
        let size = match &bytes {
            PortionBytes::Chunked(input) => input.size(),
            PortionBytes::Plain(input) => input.size(),
        };
        let furthest = Furthest::new(progress.meter(size));
        Portion {
            bytes,
            furthest,
            runs: Vec::new(),
        }
    }

    /// The same, where these slices are counted.
    pub(super) fn with_runs(mut self, runs: Vec<ElementRun>) -> Self {
        self.runs = runs;
        self
    }

    /// The same, for a caller that reports progress itself.
    pub(super) fn unwatched(mut self) -> Self {
        self.furthest = Furthest::new(Progress::default().meter(0));
        self
    }

    pub(super) fn bytes_mut(&mut self) -> &mut PortionBytes<'a, S> {
        &mut self.bytes
    }

    /// An error of one who hopped through it: damage that led to it comes first.
    pub(crate) fn damage_first(&mut self, error: Error) -> Error {
        match &mut self.bytes {
            PortionBytes::Chunked(input) => input.damage_first(error),
            PortionBytes::Plain(_) => error,
        }
    }

    /// Where its bytes come from, if the message is in chunks.
    pub(crate) fn plan(&self) -> Option<&MergePlan> {
        match &self.bytes {
            PortionBytes::Chunked(input) => Some(input.plan()),
            PortionBytes::Plain(_) => None,
        }
    }
}

impl<S: ReadAt> KnowsRuns for Portion<'_, S> {
    fn next_run(&self, position: u64, number: FieldNumber) -> Option<&ElementRun> {
        let from = self.runs.partition_point(|run| run.range.start < position);
        self.runs[from..].iter().find(|run| run.number == number)
    }

    #[inline]
    fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]> {
        match &self.bytes {
            PortionBytes::Chunked(input) => input.part_at_hand(range),
            PortionBytes::Plain(input) => input.part_at_hand(range),
        }
    }
}

impl<S: ReadAt> Input for Portion<'_, S> {
    fn size(&self) -> u64 {
        match &self.bytes {
            PortionBytes::Chunked(input) => input.size(),
            PortionBytes::Plain(input) => input.size(),
        }
    }

    #[inline]
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        self.furthest.reach(position)?;
        match &mut self.bytes {
            PortionBytes::Chunked(input) => input.fetch(position, want),
            PortionBytes::Plain(input) => input.fetch(position, want),
        }
    }
}
