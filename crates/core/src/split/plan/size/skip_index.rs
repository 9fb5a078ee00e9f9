//! What one hop over a message remembers, so that no second one is needed.

use crate::wire::Field;

/// Bytes of the source from one stop to the next, at the least.
const STRIDE: u64 = 32 << 10;

/// How many small members of a group are remembered.
const MOST_SPARE: usize = 64;

/// Some occurrences of a field, at least [`STRIDE`] bytes apart: which one it is, and where it
/// starts.
#[derive(Debug, Default)]
pub(super) struct Stops {
    stops: Vec<(u64, u64)>,
    next: u64,
}

impl Stops {
    /// Notes the occurrence if it is far enough behind the last stop.
    #[inline]
    pub(super) fn pass(&mut self, ordinal: u64, start: u64) {
        if start >= self.next {
            self.stops.push((ordinal, start));
            self.next = start.saturating_add(STRIDE);
        }
    }

    /// The last stop that is not behind `position`: which occurrence it is, and where it starts.
    pub(super) fn before(&self, position: u64) -> Option<(u64, u64)> {
        let behind = self.stops.partition_point(|(_, start)| *start <= position);
        Some(self.stops[behind.checked_sub(1)?])
    }
}

/// Members of a group that are too small to be held from the first, each with its ordinal, if there
/// are few.
#[derive(Debug, Default)]
pub(super) struct Spare {
    members: Vec<(u64, Field)>,
    overflowed: bool,
}

impl Spare {
    pub(super) fn add(&mut self, ordinal: u64, field: &Field) {
        if self.members.len() < MOST_SPARE {
            self.members.push((ordinal, field.clone()));
        } else {
            self.overflowed = true;
            self.members.clear();
        }
    }

    /// Whether these are all.
    pub(super) fn is_complete(&self) -> bool {
        !self.overflowed
    }

    pub(super) fn take(&mut self) -> Vec<(u64, Field)> {
        std::mem::take(&mut self.members)
    }
}
