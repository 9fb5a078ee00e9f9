//! Buffers that column values are read from.

use std::ops::Range;

use crate::fields::{Fields, Origin};

/// A buffer from which the values of an element are read, and the element's position in the buffer
/// and in the message.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) origin: Origin,
}

impl<'a> Source<'a> {
    pub(crate) fn at(&self, range: &Range<usize>) -> &'a [u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    pub(crate) fn fields(&self, message: &Range<usize>) -> Fields<'a> {
        Fields::new(self.bytes, message, self.origin)
    }
}
