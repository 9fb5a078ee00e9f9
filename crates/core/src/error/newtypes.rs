//! Distinct types for chunk indices and message offsets, so that these numbers can't be confused.

use std::fmt;
use std::ops::Range;

/// The index of a chunk in a file, counted from 0: the position of its `ChunkInfo` in the trailer.
///
/// ```
/// use proto_splitter_core::ChunkIndex;
///
/// let index = ChunkIndex::new(7);
/// assert_eq!((index.get(), index), (7, 7.into()));
/// assert_eq!(index.to_string(), "7");
/// assert_eq!(["base", "slice"].get(index.to_usize()), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChunkIndex(u64);

impl ChunkIndex {
    /// The index of the base chunk, which is merged before all other chunks.
    pub const BASE: ChunkIndex = ChunkIndex(0);

    /// Creates an index from a number in a trailer.
    #[must_use]
    pub const fn new(index: u64) -> Self {
        ChunkIndex(index)
    }

    /// Returns the index as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number as an index into a slice. A number that doesn't fit becomes
    /// [`usize::MAX`], which is out of range for every slice.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ChunkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<usize> for ChunkIndex {
    fn from(index: usize) -> Self {
        ChunkIndex(index as u64)
    }
}

/// An offset in the bytes of a message, not in a file or a chunk.
///
/// ```
/// use proto_splitter_core::MessageOffset;
///
/// let offset = MessageOffset::new(1 << 32);
/// assert_eq!(offset.get(), 4_294_967_296);
/// assert_eq!(offset.to_string(), "4294967296");
/// assert_eq!(MessageOffset::range(&(2..5)).start, MessageOffset::new(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageOffset(u64);

impl MessageOffset {
    /// Creates the offset of a byte, counted from 0.
    #[must_use]
    pub const fn new(offset: u64) -> Self {
        MessageOffset(offset)
    }

    /// Returns the offset as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Converts a range of numbers to a range of offsets.
    #[must_use]
    pub const fn range(numbers: &Range<u64>) -> Range<MessageOffset> {
        MessageOffset(numbers.start)..MessageOffset(numbers.end)
    }
}

impl fmt::Display for MessageOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for MessageOffset {
    fn from(offset: u64) -> Self {
        MessageOffset(offset)
    }
}
