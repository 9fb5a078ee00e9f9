//! Options for writing a merged message.

use crate::read_options::ReadOptions;

/// Options for reading a message with a [`Merger`](super::Merger), and for writing it.
///
/// Each field has a setter method of the same name. Functions that only read take [`ReadOptions`],
/// which convert to these with defaults for the other options.
///
/// ```
/// use proto_splitter_core::ReadOptions;
/// use proto_splitter_core::merge::{MergeOptions, Merger};
///
/// let reading = ReadOptions::new().assume_plain(true);
/// let options = MergeOptions::new().reading(reading.clone()).force(true);
/// assert!(options.reading.assume_plain && options.force);
/// let merger = Merger::new().options(&reading);
/// # let _ = merger;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Options for reading the message.
    pub reading: ReadOptions,
    /// True to overwrite an existing file.
    pub force: bool,
}

impl MergeOptions {
    /// Creates the default options.
    #[must_use]
    pub const fn new() -> Self {
        MergeOptions {
            reading: ReadOptions::new(),
            force: false,
        }
    }

    /// Sets the options for reading the message. Default: [`ReadOptions::new`].
    #[must_use]
    pub fn reading(mut self, reading: ReadOptions) -> Self {
        self.reading = reading;
        self
    }

    /// Sets whether a merge overwrites an existing file. Default: no.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }
}

impl From<ReadOptions> for MergeOptions {
    fn from(reading: ReadOptions) -> Self {
        MergeOptions::new().reading(reading)
    }
}

impl From<&ReadOptions> for MergeOptions {
    fn from(reading: &ReadOptions) -> Self {
        reading.clone().into()
    }
}

impl From<&MergeOptions> for MergeOptions {
    fn from(options: &MergeOptions) -> Self {
        options.clone()
    }
}
