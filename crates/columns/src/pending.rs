//! Field values that aren't final until the end of their message.

use std::ops::Range;

use crate::fields::Met;

/// The value of a field so far. A later value of the same field replaces it or, for a message,
/// extends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) is_there: bool,
    pub(crate) bits: u64,
    /// Range of the value. For a message in several pieces, this is the last piece, and `before`
    /// has the others.
    pub(crate) value: Range<usize>,
    before: Vec<Range<usize>>,
}

impl Pending {
    pub(crate) fn clear(&mut self) {
        self.is_there = false;
        self.before.clear();
    }

    pub(crate) fn set(&mut self, met: &Met, is_message: bool) {
        if is_message && self.is_there {
            self.before.push(self.value.clone());
        }
        self.is_there = true;
        self.bits = met.bits;
        self.value = met.value.clone();
    }

    /// Returns the default value: an empty message or string, or the number 0.
    pub(crate) fn empty() -> Pending {
        Pending {
            is_there: true,
            ..Pending::default()
        }
    }

    /// Returns the ranges of a message's pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Range<usize>> {
        self.before.iter().chain([&self.value])
    }
}
