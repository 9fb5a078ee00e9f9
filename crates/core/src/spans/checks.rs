//! Checks on the files in a message of spans. Each runs once all spans of its file have been read.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use record_file::ReadAt;

use super::{SourceId, SpanList};
use crate::progress::Progress;
use crate::{Error, ErrorKind, Result};

/// A function that reads a file from start to end, and fails if its content is wrong.
pub(super) type Check = Box<dyn Fn(&dyn ReadAt, &Progress) -> Result<()> + Send + Sync>;

/// The check for one file, and the progress of reading its spans.
pub(super) struct FileCheck {
    check: Check,
    state: Mutex<State>,
}

enum State {
    /// Ranges of the file that are in the message and haven't been read: a map from start to end.
    Unread(BTreeMap<u64, u64>),
    Sound,
    /// The kind and message of the check's error, for later reads of the file.
    Refused(ErrorKind, String),
}

/// The checks of the files in a message of spans.
#[derive(Default)]
pub(super) struct Checks(BTreeMap<SourceId, FileCheck>);

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Checks {
    /// Sets the check for a file, replacing any earlier check.
    pub(super) fn set(&mut self, file: SourceId, check: Check) {
        let state = Mutex::new(State::Unread(BTreeMap::new()));
        self.0.insert(file, FileCheck { check, state });
    }

    /// Marks all spans of a finished message as unread.
    pub(super) fn begin(&mut self, list: &SpanList) {
        if self.0.is_empty() {
            return;
        }
        for (file, range) in list.iter().filter_map(|span| span.stored()) {
            let Some(file) = self.0.get_mut(&file) else {
                continue;
            };
            let state = file.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let State::Unread(unread) = state {
                insert(unread, range);
            }
        }
    }

    pub(super) fn get(&self, file: SourceId) -> Option<&FileCheck> {
        self.0.get(&file)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SourceId, &FileCheck)> {
        self.0.iter().map(|(file, check)| (*file, check))
    }
}

impl FileCheck {
    /// Records that `range` of the file was read. Runs the check once no range is left unread. If
    /// the check fails, so does this read.
    pub(super) fn was_read(&self, range: Range<u64>, file: &dyn ReadAt) -> Result<()> {
        let mut state = self.state();
        if let State::Unread(unread) = &mut *state {
            remove(unread, range);
            if !unread.is_empty() {
                return Ok(());
            }
        }
        self.settle(state, file, &Progress::none())
    }

    /// Runs the check, unless it already ran.
    pub(super) fn run(&self, file: &dyn ReadAt, progress: &Progress) -> Result<()> {
        self.settle(self.state(), file, progress)
    }

    fn settle(
        &self,
        mut state: MutexGuard<'_, State>,
        file: &dyn ReadAt,
        progress: &Progress,
    ) -> Result<()> {
        match &*state {
            State::Sound => return Ok(()),
            State::Refused(kind, message) => return Err(Error::new(*kind, message)),
            State::Unread(_) => {}
        }
        // Runs with the state locked, so other readers of the file wait for the result.
        match (self.check)(file, progress) {
            Ok(()) => {
                *state = State::Sound;
                Ok(())
            }
            Err(error) => {
                if error.kind() == ErrorKind::ChecksumMismatch {
                    *state = State::Refused(error.kind(), error.to_string());
                }
                Err(error)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a range to a set of disjoint ranges.
fn insert(ranges: &mut BTreeMap<u64, u64>, range: Range<u64>) {
    remove(ranges, range.clone());
    if range.start < range.end {
        ranges.insert(range.start, range.end);
    }
}

/// Removes a range from a set of disjoint ranges.
fn remove(ranges: &mut BTreeMap<u64, u64>, range: Range<u64>) {
    while let Some((&start, &end)) = ranges.range(..range.end).next_back() {
        if end <= range.start {
            break;
        }
        ranges.remove(&start);
        if end > range.end {
            ranges.insert(range.end, end);
        }
        if start < range.start {
            ranges.insert(start, range.start);
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_have_what_was_inserted_and_not_removed_since(
            steps in prop::collection::vec((any::<bool>(), 0..40usize, 0..12usize), 0..30),
        ) {
            let (mut ranges, mut expected) = (BTreeMap::new(), [false; 60]);
            for (inserts, start, len) in steps {
                expected[start..start + len].fill(inserts);
                let range = start as u64..(start + len) as u64;
                if inserts {
                    insert(&mut ranges, range);
                } else {
                    remove(&mut ranges, range);
                }
            }
            let mut found = [false; 60];
            for (start, end) in ranges {
                prop_assert!(start < end);
                let (start, end) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
                prop_assert!(!found[start..end].contains(&true));
                found[start..end].fill(true);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
