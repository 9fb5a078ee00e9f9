//! Positions that a scan stores, so that a second scan is unnecessary.

use crate::wire::Field;

/// Minimum distance between two recorded positions in the source, in bytes.
const STRIDE: u64 = 32 << 10;

/// Maximum number of small members to store for a group.
const MOST_SPARE: usize = 64;

/// Some occurrences of a field, at least [`STRIDE`] bytes apart: the ordinal and the start of each.
#[derive(Debug, Default)]
pub(super) struct SkipIndex {
    stops: Vec<(u64, u64)>,
    next: u64,
}

impl SkipIndex {
    /// Records an occurrence if it is far enough from the last recorded one.
    #[inline]
    pub(super) fn pass(&mut self, ordinal: u64, start: u64) {
        if start >= self.next {
            self.stops.push((ordinal, start));
            self.next = start.saturating_add(STRIDE);
        }
    }

    /// Returns the ordinal and the start of the last recorded occurrence at or before `position`;
    /// `None` if there is none.
    pub(super) fn before(&self, position: u64) -> Option<(u64, u64)> {
        let behind = self.stops.partition_point(|(_, start)| *start <= position);
        Some(self.stops[behind.checked_sub(1)?])
    }
}

/// The members of a group that the first scan doesn't keep because they are too small, each with
/// its ordinal. Empty if there are more than [`MOST_SPARE`].
#[derive(Debug, Default)]
pub(super) struct SmallMembers {
    members: Vec<(u64, Field)>,
    overflowed: bool,
}

impl SmallMembers {
    pub(super) fn add(&mut self, ordinal: u64, field: &Field) {
        if self.members.len() < MOST_SPARE {
            self.members.push((ordinal, field.clone()));
        } else {
            self.overflowed = true;
            self.members.clear();
        }
    }

    /// Returns true if there are at most [`MOST_SPARE`] small members, so that all of them are in
    /// the list.
    pub(super) fn is_complete(&self) -> bool {
        !self.overflowed
    }

    pub(super) fn take(&mut self) -> Vec<(u64, Field)> {
        std::mem::take(&mut self.members)
    }
}
