//! Options for receiving a message.

use proto_splitter_core::container::Limits;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Default limit on the number of chunks in a message: 1,000,000.
pub const DEFAULT_MAX_CHUNKS: u64 = 1_000_000;

/// Default limit on the size of a message, in bytes: 64 GiB.
const DEFAULT_MAX_MESSAGE_SIZE: u64 = 64 << 30;

/// Options for receiving a message. Most of them are limits, since the sender isn't trusted.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    message_type: Option<String>,
    max_message_size: u64,
    max_chunks: u64,
    reading: ReadOptions,
    progress: Progress,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions::new()
    }
}

impl ReceiveOptions {
    /// Creates the default options; each setter documents its default.
    #[must_use]
    pub fn new() -> Self {
        ReceiveOptions {
            message_type: None,
            max_message_size: DEFAULT_MAX_MESSAGE_SIZE,
            max_chunks: DEFAULT_MAX_CHUNKS,
            reading: ReadOptions::new(),
            progress: Progress::none(),
        }
    }

    /// Sets the full name of the only message type that is accepted. Default: any type is accepted.
    #[must_use]
    pub fn message_type(mut self, full_name: impl Into<String>) -> Self {
        self.message_type = Some(full_name.into());
        self
    }

    proto_splitter_core::options! {
        /// Sets the maximum size of a message, in bytes. The maximum also applies to the total size
        /// of the chunks. Default: 64 GiB.
        const max_message_size, get_max_message_size: u64;

        /// Sets the maximum number of chunks in a message. Default: [`DEFAULT_MAX_CHUNKS`].
        const max_chunks, get_max_chunks: u64;

        /// Sets the options for merging the chunks into a message: limits, threads, the message's
        /// descriptor, and the progress listener. Default: [`ReadOptions::new`].
        ref reading, get_reading: ReadOptions;

        /// Sets the listener for the number of received bytes, which can also cancel the transfer.
        /// Default: none.
        ref progress, get_progress: Progress;
    }

    /// Returns the full name of the only message type that is accepted; `None` if any type is
    /// accepted.
    pub fn get_message_type(&self) -> Option<&str> {
        self.message_type.as_deref()
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.reading.get_limits()
    }

    pub(crate) fn check_type(&self, found: &str) -> Result<()> {
        match &self.message_type {
            Some(expected) if expected != found => {
                let message = format!("the message has type {found:?}, but {expected} is expected");
                Err(Error::new(ErrorKind::InvalidMessage, message))
            }
            _ => Ok(()),
        }
    }
}
