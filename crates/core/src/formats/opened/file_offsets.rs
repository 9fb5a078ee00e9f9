//! The place of a message's bytes in the file that it is read from.

use std::fmt::Debug;
use std::sync::Arc;

use super::Opened;
use crate::{Error, ErrorKind};

/// Finds the bytes of a message in a file that has others between them.
pub trait FileOffsets: Debug + Send + Sync {
    /// Returns the offset in the file of the byte at an offset in the message; `None` if the file
    /// doesn't have the byte as it is.
    fn file_offset(&self, offset: u64) -> Option<u64>;
}

impl Opened {
    /// Sets the offsets of the bytes of the message in the file.
    #[must_use]
    pub fn with_file_offsets(mut self, offsets: Arc<dyn FileOffsets>) -> Self {
        self.file_offsets = Some(offsets);
        self
    }

    /// Returns an error of reading the message with the offset in the file instead of that in the
    /// message, if they differ.
    #[must_use]
    pub fn placed(&self, error: Error) -> Error {
        let is_placed = error.kind() == ErrorKind::InvalidMessage && error.chunk().is_none();
        let offset = error.offset().filter(|_| is_placed);
        let offsets = self.file_offsets.as_ref();
        let found = offsets.zip(offset);
        match found.and_then(|(offsets, offset)| offsets.file_offset(offset)) {
            Some(offset) => error.with_offset(offset),
            None => error,
        }
    }
}
