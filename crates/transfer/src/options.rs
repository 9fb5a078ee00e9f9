//! What a receiver trusts a sender with.

use proto_splitter_core::container::Limits;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Default limit on the number of chunks: 1,000,000.
pub const DEFAULT_MAX_CHUNKS: u64 = 1_000_000;

/// Default limit on the size of a message: 64 GiB.
const DEFAULT_MAX_MESSAGE_SIZE: u64 = 64 << 30;

/// Options for receiving a message: what a sender is trusted with.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    message_type: Option<String>,
    max_message_size: u64,
    max_chunks: u64,
    pub(crate) reading: ReadOptions,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions::new()
    }
}

impl ReceiveOptions {
    /// Returns the defaults that each setter documents.
    #[must_use]
    pub fn new() -> Self {
        ReceiveOptions {
            message_type: None,
            max_message_size: DEFAULT_MAX_MESSAGE_SIZE,
            max_chunks: DEFAULT_MAX_CHUNKS,
            reading: ReadOptions::new(),
        }
    }

    /// Sets the full name of the only type that is accepted. Default: any.
    #[must_use]
    pub fn message_type(mut self, full_name: impl Into<String>) -> Self {
        self.message_type = Some(full_name.into());
        self
    }

    /// Sets the largest size of a message, in bytes. Default: 64 GiB.
    #[must_use]
    pub const fn max_message_size(mut self, bytes: u64) -> Self {
        self.max_message_size = bytes;
        self
    }

    /// Sets the largest number of chunks. Default: [`DEFAULT_MAX_CHUNKS`].
    #[must_use]
    pub const fn max_chunks(mut self, chunks: u64) -> Self {
        self.max_chunks = chunks;
        self
    }

    /// Sets how the chunks are merged: the type of the message, limits, threads, progress. Default:
    /// [`ReadOptions::new`].
    #[must_use]
    pub fn reading(mut self, reading: ReadOptions) -> Self {
        self.reading = reading;
        self
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.reading.limits
    }

    pub(crate) fn max_size(&self) -> u64 {
        self.max_message_size
    }

    pub(crate) fn most_chunks(&self) -> u64 {
        self.max_chunks
    }

    pub(crate) fn check_type(&self, found: &str) -> Result<()> {
        match &self.message_type {
            Some(expected) if expected != found => {
                let message = format!("a message of type {found:?}, where {expected} is expected");
                Err(Error::new(ErrorKind::InvalidMessage, message))
            }
            _ => Ok(()),
        }
    }
}
