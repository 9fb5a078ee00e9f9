//! Cutting a message with millions of alternating fields into continuations, in source order.
//!
//! A slice contains elements of one field. If other fields are between these elements, a merge
//! needs the position of each element, and millions of positions don't fit in a trailer. A
//! continuation, which the trailer calls a tail, contains any fields: a merge appends it to the
//! bytes before it.

use std::cell::Cell;
use std::collections::HashSet;

use super::cuts::Cuts;
use crate::path::{FieldPath, check_field};
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::wire::{Field, WireCursor};
use crate::{Error, ErrorKind, Result};

/// Maximum number of runs in a message that isn't cut in source order. A run consists of
/// consecutive fields with the same number.
pub(in crate::split) const MOST_RUNS: u64 = 1 << 20;

/// Number of fields between two checks for cancellation.
const CHECK_EVERY: u64 = 1 << 16;

/// Maximum number of pairs of a field number and a wire type to remember as already checked against
/// the message's type.
const MOST_KNOWN: usize = 1 << 10;

/// A limit on the number of runs in messages that are cut into slices. A run consists of
/// consecutive fields with the same number, and takes up memory.
#[derive(Debug)]
pub(in crate::split) struct RunBudget {
    left: Cell<u64>,
    exceeded: Cell<bool>,
}

impl RunBudget {
    pub(super) fn new(most: u64) -> Self {
        RunBudget {
            left: Cell::new(most),
            exceeded: Cell::new(false),
        }
    }

    /// Counts one more run. Fails if there are too many.
    pub(super) fn take(&self) -> Result<()> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.exceeded.set(true);
                let message = "fields alternate too often for each to be listed";
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
        }
    }

    /// Returns true if there were too many runs.
    pub(super) fn are_exceeded(&self) -> bool {
        self.exceeded.get()
    }
}

/// Returns the cuts that divide a message into continuations; `None` unless the message exceeds the
/// maximum chunk size, and its top-level fields alternate too often.
pub(super) fn cut_in_order_if_needed(
    source: &Source,
    options: &SplitOptions,
) -> Result<Option<Cuts>> {
    if source.size() <= options.effective_max_chunk_size() {
        return Ok(None);
    }
    let (marks, runs) = cuts_and_runs(source, options)?;
    Ok(Some(marks).filter(|_| runs > MOST_RUNS))
}

/// Returns the cuts that divide a message into continuations, whatever its content. Merging
/// continuations is always byte-exact.
pub(super) fn cut_in_order(source: &Source, options: &SplitOptions) -> Result<Cuts> {
    Ok(cuts_and_runs(source, options)?.0)
}

/// Returns the cuts that divide a message into continuations, and the number of runs at the
/// message's top level. A run consists of consecutive fields with the same number.
fn cuts_and_runs(source: &Source, options: &SplitOptions) -> Result<(Cuts, u64)> {
    let max = options.effective_max_chunk_size();
    let most = options.effective_max_slice_size();
    let mut marks = Cuts::default();
    let mut cursor = WireCursor::new(source.input());
    let mut known = HashSet::new();
    let (mut runs, mut steps, mut start, mut previous) = (0u64, 0u64, 0, None);
    // Bytes before the first continuation stay in the base.
    let tail = |marks: &mut Cuts, start: u64, end: u64| {
        if start > 0 && start < end {
            marks.tail(start..end, false);
        }
    };
    while let Some(field) = cursor.next()? {
        steps += 1;
        if steps % CHECK_EVERY == 1 {
            options.progress.check()?;
        }
        if previous != Some((field.number, field.wire_type)) {
            let kind = (field.number, field.wire_type);
            runs += u64::from(previous.is_none_or(|(number, _)| number != field.number));
            previous = Some(kind);
            if !known.contains(&kind) {
                check(source, &field)?;
                if known.len() < MOST_KNOWN {
                    known.insert(kind);
                }
            }
        }
        if field.end - field.start > max {
            tail(&mut marks, start, field.start);
            cut_within(&mut marks, &field, most);
            start = field.end;
        } else if field.end - start > most && field.start > start {
            tail(&mut marks, start, field.start);
            start = field.start;
        }
    }
    tail(&mut marks, start, source.size());
    Ok((marks, runs))
}

/// Divides a field that is too large for a chunk into continuations, at arbitrary positions.
fn cut_within(marks: &mut Cuts, field: &Field, most: u64) {
    let mut start = field.start;
    while start < field.end {
        let end = field.end.min(start.saturating_add(most.max(1)));
        marks.tail(start..end, start > field.start);
        start = end;
    }
}

/// Fails if the wire type of `field`, a field of the root message, differs from the one that the
/// message type declares.
fn check(source: &Source, field: &Field) -> Result<()> {
    let root = Some(source.descriptor());
    check_field(source.descriptor(), field)
        .map_err(|error| error.at_path(FieldPath::root().display(root)))
}
