//! How a merge is written.

use crate::read_options::ReadOptions;

/// How a [`Merger`](super::Merger) reads a message, and how it writes it.
///
/// Each field is read by its name and set by the method of the same name. What only reads a message
/// takes [`ReadOptions`], which turn into these with the defaults for the rest.
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
    /// How the message is read.
    pub reading: ReadOptions,
    /// Whether a file that is in the way is replaced.
    pub force: bool,
}

impl MergeOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        MergeOptions {
            reading: ReadOptions::new(),
            force: false,
        }
    }

    /// How the message is read ([`ReadOptions::new`]).
    #[must_use]
    pub fn reading(mut self, reading: ReadOptions) -> Self {
        self.reading = reading;
        self
    }

    /// Whether a file that is in the way of a merge is replaced (no).
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
