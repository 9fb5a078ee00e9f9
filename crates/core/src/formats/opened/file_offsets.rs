//! Converting offsets in a message to offsets in its file.

use std::fmt::Debug;
use std::sync::Arc;

use super::Opened;
use crate::{Error, ErrorKind};

/// A conversion from offsets in a message to offsets in its file, for a file with other bytes
/// between the message's bytes.
pub trait FileOffsets: Debug + Send + Sync {
    /// Converts an offset in the message to the offset of the same byte in the file; `None` if the
    /// file doesn't contain the byte unchanged.
    fn file_offset(&self, offset: u64) -> Option<u64>;
}

impl Opened {
    /// Sets the conversion from offsets in the message to offsets in the file.
    #[must_use]
    pub fn with_file_offsets(mut self, offsets: Arc<dyn FileOffsets>) -> Self {
        self.file_offsets = Some(offsets);
        self
    }

    /// In an error from reading the message, replaces the offset in the message with the offset in
    /// the file. Leaves the error unchanged if the offset in the file is unknown, or is the same as
    /// the offset in the message.
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
