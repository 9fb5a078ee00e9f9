//! Values that wait for the end of their message.

use std::ops::Range;

use crate::fields::Met;

/// A value that a later value of the same field may replace or extend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) is_there: bool,
    pub(crate) bits: u64,
    /// The value, or the last piece of a message, whose other pieces are in `before`.
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

    /// Returns an empty message or text, or the number 0.
    pub(crate) fn empty() -> Pending {
        Pending {
            is_there: true,
            ..Pending::default()
        }
    }

    /// Returns all pieces of a message in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Range<usize>> {
        self.before.iter().chain([&self.value])
    }
}
